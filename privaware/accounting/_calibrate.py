"""Find the smallest noise multiplier that fits a budget.

A fast accountant searches, and the accountant that reports epsilon confirms the result. Results are cached on disk. A
cache entry is only a hint: its cost is computed again before it is used.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import metadata
from typing import Any

from privaware._files import atomic_write, cache_folder
from privaware._rounded import number
from privaware.accounting import _price
from privaware.errors import Refused, WrongInput
from privaware.events import Event, to_json

VERSION = 4
"""Version of the accountants; a change of any accountant raises it, which invalidates old cache entries."""

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
    """Return a noise multiplier at which the event `cost(noise)` costs at most (epsilon, delta), close to the smallest.

    The result is stored in the user's cache folder. A stored result is returned if its epsilon, computed again, is at
    most `epsilon` and at most 2% below it. Raise `WrongInput` if no noise multiplier up to `_LARGEST` fits.
    """
    name = fingerprint(*(_probe(cost, noise) for noise in _PROBES), epsilon, delta)
    file = cache_folder() / "noise" / f"{name}.json"
    noise: Any = None
    with suppress(OSError, ValueError, TypeError, KeyError):  # the entry is missing or cannot be read
        noise = json.loads(file.read_text())["noise"]
    if isinstance(noise, float) and _SMALLEST <= noise <= _LARGEST and _still_fits(cost, noise, epsilon, delta):
        return noise
    noise = _settle(cost, _search(cost, epsilon, delta), epsilon, delta)
    with suppress(OSError):  # a missing entry only costs time
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(file, json.dumps({"noise": noise}).encode())
    return noise


def fingerprint(*parts: Any) -> str:
    """Return the name of the cache entry for the public values `parts` (events, numbers, words): a SHA-256 in hex."""
    plain = [to_json(part) if isinstance(part, Event) else part for part in parts]
    text = json.dumps([VERSION, _library_version(), *plain], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _library_version() -> str:
    return metadata.version("dp-accounting")


def _probe(cost: Callable[[float], Event], noise: float) -> Event | str:
    try:
        return cost(noise)
    except WrongInput as problem:  # a mechanism may refuse this noise multiplier
        return str(problem)


def _still_fits(cost: Callable[[float], Event], noise: float, epsilon: float, delta: float) -> bool:
    """Return whether the epsilon of the event `cost(noise)` at `delta` is at most `epsilon`, and at most 2% below it.

    `noise` comes from the cache. Return False if the event is refused.
    """
    try:
        return (1 - _WORTHWHILE) * epsilon <= _price.epsilon(cost(noise), delta) <= epsilon
    except (Refused, WrongInput):
        return False


def _search(cost: Callable[[float], Event], epsilon: float, delta: float, slack: float = TOLERANCE / 4) -> float:
    """Return an approximate noise multiplier for the budget (epsilon, delta); `cost(noise)` is the event.

    The quick accountant `_price.quick` computes epsilon, so the exact epsilon may be slightly above the budget. Brent's
    method solves for ln(noise), because ln(epsilon) is almost linear in it, and aims at `(1 - slack) * epsilon`. If
    even `_LARGEST` noise does not reach this aim, but costs at most `epsilon` by `_price.epsilon`, the aim is
    `epsilon`, or what the quick accountant states for `_LARGEST` noise if that is more. Return `_SMALLEST` if all noise
    multipliers down to it reach the aim. Raise `WrongInput` if no noise multiplier up to `_LARGEST` fits the budget.
    """
    from scipy import optimize

    aim = math.log(epsilon * (1 - slack))

    def gap(log_noise: float) -> float:
        spent = _price.quick(cost(math.exp(log_noise)), delta)
        return min(max(math.log(max(spent, 1e-300)) - aim, -60.0), 60.0)

    here, step = 0.0, math.log(4)
    if gap(here) > 0:
        while gap(here + step) > 0:
            here += step
            if here > math.log(_LARGEST):
                least = cost(math.exp(here))
                if slack and _price.epsilon(least, delta) <= epsilon:
                    return _search(cost, max(epsilon, _price.quick(least, delta)), delta, slack=0.0)
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
    """Return a noise multiplier near `noise` that fits the budget (epsilon, delta).

    `cost(noise)` is the event. The result exceeds the smallest multiplier that fits by a fraction of at most about
    `TOLERANCE`. Raise `WrongInput` if no noise multiplier up to `_LARGEST` fits.
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
        f"expected an epsilon that some noise can reach, got {number(epsilon)} at delta {number(delta)}; raise epsilon "
        "or delta, or drop releases whose cost does not depend on the noise"
    )
