"""Compute the trade-off of an event: the largest true positive rate of any attack at each false positive rate."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from privaware.accounting import _price
from privaware.accounting._grid import OutOfReach
from privaware.accounting._pairs import Array
from privaware.accounting._profiles import profile
from privaware.accounting._terms import expect_priceable
from privaware.events import Event

POINTS = 2001
"""Number of epsilons of a curve if the privacy loss distribution is known."""

POINTS_ONE_BY_ONE = 101
"""Number of epsilons of a curve if each delta needs a separate call of the accountant."""

LARGEST_EPSILON = 600.0
"""The search for the end of a curve stops at this epsilon."""

AIMS = (1e-2, 1e-4, 1e-8)
"""Deltas near which the profile of an event is precise."""

SMALLEST_DELTA = 1e-9
"""A curve ends where delta is at most this number."""


@dataclass(frozen=True, eq=False)
class TradeOff:
    """A trade-off curve, given by many guarantees (epsilon, delta) that all hold for one event.

    Each guarantee bounds the true and false positive rates of any attack by straight lines (Kairouz, Oh, Viswanath,
    "The composition theorem for differential privacy", 2015). The envelope over all guarantees is the trade-off
    function of Dong, Roth, Su, "Gaussian differential privacy" (2019).

    Parameters
    ----------
    epsilons, deltas
        Arrays of the guarantees.

    Examples
    --------
    >>> pure = TradeOff(np.array([1.0]), np.array([0.0]))
    >>> round(pure.power(0.01), 5), round(pure.false_rate(0.0271828), 5)
    (0.02718, 0.01)
    """

    epsilons: Array
    deltas: Array

    def power(self, fpr: float) -> float:
        """Return the largest true positive rate of any attack with the false positive rate `fpr`."""
        return float(self.powers(np.array([fpr]))[0])

    def powers(self, fprs: Array) -> Array:
        """Return the largest true positive rate of any attack at each false positive rate in `fprs`.

        `fprs` has one dimension.
        """
        grow, shrink = np.exp(self.epsilons), np.exp(-self.epsilons)
        low = grow * fprs[:, None] + self.deltas
        high = 1 - shrink * (1 - self.deltas - fprs[:, None])
        return np.clip(np.minimum(low, high).min(axis=1), 0.0, 1.0)  # type: ignore[no-any-return]

    def false_rate(self, tpr: float) -> float:
        """Return the smallest false positive rate of any attack with the true positive rate `tpr`."""
        low = np.exp(-self.epsilons) * (tpr - self.deltas)
        high = 1 - self.deltas - np.exp(self.epsilons) * (1 - tpr)
        return float(max(0.0, low.max(), high.max()))


@lru_cache(maxsize=64)
def trade_off(event: Event) -> TradeOff:
    """Return the trade-off curve of an event; raise `Refused` if it contains an `Unproven` event.

    Parameters
    ----------
    event
        What was released.

    Returns
    -------
    TradeOff
        The curve through the delta at many epsilons.
    """
    expect_priceable(event)
    with suppress(OutOfReach):
        deltas = profile(event, AIMS)
        epsilons = np.linspace(0.0, _top(lambda epsilon: float(deltas(np.array([epsilon]))[0])), POINTS)
        return TradeOff(epsilons, np.clip(deltas(epsilons), 0.0, 1.0))
    epsilons = np.linspace(0.0, _top(lambda epsilon: _price.delta(event, epsilon)), POINTS_ONE_BY_ONE)
    return TradeOff(epsilons, np.array([_price.delta(event, float(epsilon)) for epsilon in epsilons]))


def _top(delta: Callable[[float], float]) -> float:
    """Return the first of the epsilons 1, 1.5, 1.5^2, ... at which `delta(epsilon)` is small enough or no longer falls.

    Small enough is at most `SMALLEST_DELTA`. The search stops at the first epsilon of at least `LARGEST_EPSILON`.
    """
    top, before = 1.0, 2.0
    while top < LARGEST_EPSILON and (now := delta(top)) > SMALLEST_DELTA and now < before:
        top, before = 1.5 * top, now
    return top
