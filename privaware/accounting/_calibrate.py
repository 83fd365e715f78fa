"""Find the smallest noise multiplier that fits a budget.

A fast accountant searches, and the accountant that reports epsilon confirms the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from privaware.accounting import _cache, _price
from privaware.errors import Refused, WrongInput
from privaware.events import Event

TOLERANCE = 1e-3
"""Approximate largest relative excess of the result over the smallest noise multiplier (the search allows 5% more)."""

_PROBES = (0.3, 1.0, 7.0)
"""Noise multipliers at which a cost function is evaluated to name its cache entry."""

_SMALLEST = 1e-9
"""Smallest noise multiplier to search for."""

_LARGEST = 1e12
"""Largest noise multiplier to search for."""

_WORTHWHILE = 0.02
"""A cached noise multiplier is used only if its epsilon is at most this fraction below the budget."""


def calibrate(cost: Callable[[float], Event], epsilon: float, delta: float) -> float:
    """Return the noise multiplier; `privaware.accounting.calibrate` documents it."""
    name = _cache.fingerprint(*(_probe(cost, noise) for noise in _PROBES), epsilon, delta)
    noise = _remembered(_cache.read(name))
    if noise is not None and _still_fits(cost, noise, epsilon, delta):
        return noise
    noise = _settle(cost, _search(cost, epsilon, delta), epsilon, delta)
    _cache.write(name, {"noise": noise})
    return noise


def _probe(cost: Callable[[float], Event], noise: float) -> Event | str:
    try:
        return cost(noise)
    except WrongInput as problem:  # a mechanism may refuse this noise multiplier
        return str(problem)


def _remembered(entry: dict[str, object] | None) -> float | None:
    noise = None if entry is None else entry.get("noise")
    return noise if isinstance(noise, float) and _SMALLEST <= noise <= _LARGEST else None


def _still_fits(cost: Callable[[float], Event], noise: float, epsilon: float, delta: float) -> bool:
    """Return whether a cached `noise` still fits: its epsilon is within the budget, and at most 2% below it."""
    try:
        return (1 - _WORTHWHILE) * epsilon <= _price.epsilon(cost(noise), delta) <= epsilon
    except (Refused, WrongInput):
        return False


def _search(cost: Callable[[float], Event], epsilon: float, delta: float) -> float:
    """Return an approximate noise multiplier, by Brent's method on ln(epsilon) as a function of ln(noise).

    The budget is (epsilon, delta), and `cost(noise)` the event. This function is close to a straight line. Return
    `_SMALLEST` if it fits the budget already. Raise `WrongInput` if no noise multiplier up to `_LARGEST` does.
    """
    from scipy import optimize

    aim = math.log(epsilon * (1 - TOLERANCE / 4))

    def gap(log_noise: float) -> float:
        spent = _price.quick(cost(math.exp(log_noise)), delta)
        return min(max(math.log(max(spent, 1e-300)) - aim, -60.0), 60.0)

    here, step = 0.0, math.log(4)
    start = gap(here)
    if start > 0:
        while gap(here + step) > 0:
            here += step
            if here > math.log(_LARGEST):
                raise _unreachable(epsilon, delta)
        low, high = here, here + step
    else:
        while gap(here - step) <= 0:
            here -= step
            if here < math.log(_SMALLEST):
                return _SMALLEST
        low, high = here - step, here
    return math.exp(float(optimize.brentq(gap, low, high, xtol=TOLERANCE / 8, rtol=1e-12)))


def _settle(cost: Callable[[float], Event], noise: float, epsilon: float, delta: float) -> float:
    """Return a noise multiplier near `noise` that fits the budget.

    It exceeds the smallest one by a fraction of at most about `TOLERANCE`. Raise `WrongInput` if none up to `_LARGEST`
    fits.
    """

    def fits(candidate: float) -> bool:
        return _price.epsilon(cost(candidate), delta) <= epsilon

    step = TOLERANCE / 4
    while not fits(noise):
        noise *= 1 + step
        step *= 2
        if noise > _LARGEST:
            raise _unreachable(epsilon, delta)
    low = noise / (1 + max(TOLERANCE, step))
    while low > _SMALLEST and fits(low):
        noise, step = low, 2 * step
        low = noise / (1 + step)
    while noise / low > 1 + 1.05 * TOLERANCE and low > _SMALLEST:
        middle = math.sqrt(low * noise)
        low, noise = (low, middle) if fits(middle) else (middle, noise)
    return noise


def _unreachable(epsilon: float, delta: float) -> WrongInput:
    return WrongInput(
        f"expected an epsilon that some noise can reach, got {epsilon:g} at delta {delta:g}; raise epsilon or delta, "
        "or drop releases whose cost does not depend on the noise"
    )
