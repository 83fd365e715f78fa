"""Decide from public facts when rows and budget are too few to train more than a private constant.

What a model can learn follows from its signal: the declared rows times the strength mu of its releases. Here mu is
`1 / noise`, where `noise` is the noise multiplier of a single Gaussian release of the same epsilon. Other costs (bounds
of many columns, a large unit) make mu smaller.

>>> from privaware.events import Gaussian
>>> round(strength(100 * Gaussian(noise=40.0), delta=1e-5), 3)
0.25
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from privaware import accounting
from privaware.events import Event, Gaussian, Sampled, leaves
from privaware.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Floor:
    """The least signal (rows x strength) with which a model is trained in place of the private constant.

    Parameters
    ----------
    classification, each_class
        For a classification, the least signal is `max(classification, each_class * classes)`.
    each_class_of_table
        For a classification of a table without whole texts or images, the least signal is instead
        `each_class_of_table * classes`, unless `each_class_of_table` is None.
    regression
        The least signal for a regression by a learner that `checked` does not name.
    checked
        The least signal for a regression, by the name of the learner. The models of these learners are compared with
        the mean of the target, and replaced by it unless they are clearly better.
    """

    classification: float = 0.0
    each_class: float = 0.0
    each_class_of_table: float | None = None
    regression: float = 0.0
    checked: Mapping[str, float] = field(default_factory=dict)

    def least(self, schema: Schema, learner: str = "") -> float:
        """Return the least signal with which `learner` is trained on rows of this schema.

        The name of the learner matters for a regression only (`checked`).
        """
        count = len(schema.classes)
        if not count:
            return self.checked.get(learner, self.regression)
        if self.each_class_of_table is not None and schema.form == "table" and not schema.has_whole_columns:
            return self.each_class_of_table * count
        return max(self.classification, self.each_class * count)


def strength(event: Event, delta: float) -> float:
    """Return `1 / noise` of a single Gaussian release with the epsilon of `event` at `delta`.

    If `event` consists of Gaussian releases of every row, it is exactly `sqrt(sum(1 / noise_i**2))`. Otherwise it is
    computed from the epsilon of `event` at this delta.
    """
    parts = list(leaves(event))
    if all(isinstance(leaf, Gaussian) for leaf, _ in parts):
        return math.sqrt(sum(count / leaf.noise**2 for leaf, count in parts if isinstance(leaf, Gaussian)))
    epsilon = accounting.epsilon(event, delta)
    return 1 / accounting.calibrate(lambda noise: Gaussian(noise=noise), epsilon, delta)


def share_for(event: Event, fraction: float) -> float:
    """Return the noise multiplier of one Gaussian release divided by the noise multiplier of a learner.

    With this ratio the release takes about `fraction` of the budget of both: it is `sqrt((1 - fraction) / fraction /
    s)`. `event` is the cost of the learner at noise multiplier 1, and `s` is the sum of `(rate / noise)**2` over its
    Gaussian releases, where `rate` is the sampling rate (1 without sampling); any other release adds 1.
    """
    squares = 0.0
    for leaf, count in leaves(event):
        rate = leaf.rate if isinstance(leaf, Sampled) else 1.0
        inner = leaf.event if isinstance(leaf, Sampled) else leaf
        squares += count * (rate / inner.noise) ** 2 if isinstance(inner, Gaussian) else count
    return math.sqrt((1 - fraction) / fraction / max(squares, 1e-12))
