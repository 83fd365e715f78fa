"""When rows and budget are too few for anything but the private constant, from public facts.

What a model can learn follows from its signal: the declared rows times the strength mu of its releases, where mu is
one over the noise multiplier of a single Gaussian release of the same epsilon. Whatever else is paid for (bounds of
many columns, a large unit) makes mu smaller.

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

__all__ = ["Floor", "share_for", "strength"]


@dataclass(frozen=True, kw_only=True)
class Floor:
    """The least signal (rows x strength) with which a model is trained in place of the private constant.

    Parameters
    ----------
    classification
        For all classes together.
    each_class
        For each class: the larger of the two counts.
    regression
        For a regression that is not compared with the mean of the target.
    checked
        For regressions by the learners named here, which are replaced by the mean if it is better.
    """

    classification: float = 0.0
    each_class: float = 0.0
    regression: float = 0.0
    checked: Mapping[str, float] = field(default_factory=dict)

    def least(self, schema: Schema, learner: str = "") -> float:
        """The least signal for a model of this schema by this learner."""
        if schema.classes:
            return max(self.classification, self.each_class * len(schema.classes))
        return self.checked.get(learner, self.regression)


def strength(event: Event, delta: float) -> float:
    """One over the noise multiplier of a single Gaussian release with the epsilon of `event`.

    For Gaussian releases of every row it is exact; for others it follows from their epsilon at this delta.
    """
    parts = list(leaves(event))
    if all(isinstance(leaf, Gaussian) for leaf, _ in parts):
        return math.sqrt(sum(count / leaf.noise**2 for leaf, count in parts if isinstance(leaf, Gaussian)))
    epsilon = accounting.epsilon(event, delta)
    return 1 / accounting.calibrate(lambda noise: Gaussian(noise=noise), epsilon, delta)


def share_for(event: Event, fraction: float) -> float:
    """The noise multiplier, over that of a learner, of one Gaussian release that takes this fraction of the budget.

    `event` is the cost of the learner at noise 1.
    """
    squares = 0.0
    for leaf, count in leaves(event):
        rate = leaf.rate if isinstance(leaf, Sampled) else 1.0
        inner = leaf.event if isinstance(leaf, Sampled) else leaf
        squares += count * (rate / inner.noise) ** 2 if isinstance(inner, Gaussian) else count
    return math.sqrt((1 - fraction) / fraction / max(squares, 1e-12))
