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

from privaware import accounting
from privaware.events import Event, Gaussian, Sampled, leaves
from privaware.schema import Schema

__all__ = ["enough", "share_for", "strength"]

CLASSIFICATION = 8.0
"""Least signal for each class with which a model was no worse than the private constant."""

LEAST = 32.0
"""Least signal for all classes together with which a model was no worse than the private constant.

Two classes of about equal size were up to 0.07 below the private constant at a signal of 20."""

REGRESSION = 200.0
"""Least signal for a regression that nothing is compared with.

Delays of flights, which hardly follow from anything, were 0.07 below the mean at 120."""
CHECKED = {"linear": 100.0, "additive": 150.0, "boosted": 150.0, "fourier": 150.0}
"""The same for learners that replace a regression by the mean if it is better by no more than noise."""


def enough(schema: Schema, learner: str = "") -> float:
    """The least signal with which a model was never worse than the private constant in our studies."""
    if schema.classes:
        return max(LEAST, CLASSIFICATION * len(schema.classes))
    return CHECKED.get(learner, REGRESSION)


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
