"""The trade-off of an event: the largest true positive rate of any attack at each false positive rate."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from privaware.accounting import _price
from privaware.accounting._grid import OutOfReach
from privaware.accounting._pairs import Array
from privaware.accounting._profiles import directed, dominating_pair
from privaware.accounting._selection import Profile
from privaware.accounting._terms import alternatives, expect_priceable, flatten
from privaware.events import Event

__all__ = ["TradeOff", "trade_off"]

POINTS = 2001
"""Epsilons at which delta is computed where the privacy loss distribution is known."""

POINTS_ONE_BY_ONE = 101
"""Epsilons at which delta is computed where each one is a call of the accountant that reports."""

LARGEST_EPSILON = 600.0
"""Epsilon from which on the search for the end of a curve stops."""

AIMS = (1e-2, 1e-4, 1e-8)
"""Deltas near which the profile of an event is precise."""

SMALLEST = 1e-9
"""Delta below which a curve counts as ended."""


@dataclass(frozen=True, eq=False)
class TradeOff:
    """Many (epsilon, delta) that hold together: at each epsilon the rates of any attack lie within four lines.

    Paper: Kairouz, Oh, Viswanath, "The composition theorem for differential privacy" (2015); the envelope over all
    epsilons is the trade-off function of Dong, Roth, Su, "Gaussian differential privacy" (2019).

    >>> pure = TradeOff(np.array([1.0]), np.array([0.0]))
    >>> round(pure.power(0.01), 5), round(pure.false_rate(0.0271828), 5)
    (0.02718, 0.01)
    """

    epsilons: Array
    deltas: Array

    def power(self, fpr: float) -> float:
        """The largest true positive rate at this false positive rate."""
        return float(self.powers(np.array([fpr]))[0])

    def powers(self, fprs: Array) -> Array:
        """The same for several."""
        grow, shrink = np.exp(self.epsilons), np.exp(-self.epsilons)
        low = grow * fprs[:, None] + self.deltas
        high = 1 - shrink * (1 - self.deltas - fprs[:, None])
        return np.clip(np.minimum(low, high).min(axis=1), 0.0, 1.0)  # type: ignore[no-any-return]

    def false_rate(self, tpr: float) -> float:
        """The least false positive rate of an attack with this true positive rate: `power` read the other way."""
        low = np.exp(-self.epsilons) * (tpr - self.deltas)
        high = 1 - self.deltas - np.exp(self.epsilons) * (1 - tpr)
        return float(max(0.0, low.max(), high.max()))


@lru_cache(maxsize=64)
def trade_off(event: Event) -> TradeOff:
    """From the profile of the event: delta at many epsilons, by the distribution, or by the accountant that reports."""
    expect_priceable(event)
    with suppress(OutOfReach):
        profile = _profile(event)
        epsilons = np.linspace(0.0, _top(lambda epsilon: float(profile(np.array([epsilon]))[0])), POINTS)
        return TradeOff(epsilons, np.clip(profile(epsilons), 0.0, 1.0))
    epsilons = np.linspace(0.0, _top(lambda epsilon: _price.delta(event, epsilon)), POINTS_ONE_BY_ONE)
    return TradeOff(epsilons, np.array([_price.delta(event, float(epsilon)) for epsilon in epsilons]))


def _profile(event: Event) -> Profile:
    """delta as a function of epsilon, the dearest way and direction."""
    ways = [flatten(way, dominating_pair) for way in alternatives(event)]
    parts = [part for terms in ways for part in directed(terms, AIMS)]
    return lambda epsilons: np.max([part(epsilons) for part in parts], axis=0)


def _top(delta: Callable[[float], float]) -> float:
    """An epsilon where delta is negligible, or no longer falls."""
    top, before = 1.0, 2.0
    while top < LARGEST_EPSILON and (now := delta(top)) > SMALLEST and now < before:
        top, before = 1.5 * top, now
    return top
