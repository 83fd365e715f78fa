"""From events to epsilon, and from epsilon back to noise.

>>> from privaware.events import Gaussian, Laplace
>>> training = 1000 * Gaussian(noise=1.0).sampled(rate=0.01)
>>> round(epsilon(training, delta=1e-5), 2)
1.83
>>> round(epsilon(training + Laplace(noise=20.0), delta=1e-5), 2)
1.84

Three accountants look at an event. The privacy loss distribution (`_pld.py`) is an upper bound, and what is reported. A
characteristic-function accountant of our own (`_cf.py`) shares no numerics with it and has to agree within half a per cent, or
nothing is reported at all. Renyi divergences (`_rdp.py`) take over where there is no distribution to compose.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from privaware.accounting import _cf, _laws, _pld, _rdp
from privaware.errors import Refused, WrongInput
from privaware.events import Event

__all__ = ["bounds", "calibrate", "delta", "epsilon"]

AGREEMENT = 5e-3
FLOOR = 1e-6  # below this an epsilon means perfect privacy, and a grid of losses has nothing left to resolve


def epsilon(event: Event, delta: float) -> float:
    """The epsilon reported for `event` at `delta`."""
    value = bounds(event, delta)
    return float(value[value["method"]])


def bounds(event: Event, delta: float) -> dict[str, Any]:
    """What every accountant says: `pld`, `cf`, `rdp`, `rdp_classic` (None where one cannot go), and `method`, the one reported."""
    _check_delta(delta)
    ways = [_bounds(_laws.flatten(way), delta) for way in _laws.alternatives(event)]
    return max(ways, key=lambda way: float(way[way["method"]]))


def _bounds(terms: _laws.Terms, delta: float) -> dict[str, Any]:
    out: dict[str, Any] = {"pld": None, "cf": None}
    out["rdp"] = _rdp.epsilon(terms, delta)
    out["rdp_classic"] = _rdp.epsilon(terms, delta, classic=True)
    out["method"] = "rdp"
    if not terms.rho:
        try:
            out["pld"] = _pld.epsilon(terms, delta)
        except _pld.OutOfReach:
            return out
        out["cf"] = _cf.epsilon(terms, delta)
        _agree(out["pld"], out["cf"])
        out["method"] = "pld"
    return out


def _agree(pld: float, cf: float) -> None:
    if pld == cf or abs(pld - cf) <= max(AGREEMENT * max(pld, cf), FLOOR):
        return
    raise Refused(
        f"the accountants disagree (privacy loss distribution {pld:.6g}, characteristic function {cf:.6g}), "
        "so no epsilon is reported; please report the event"
    )


def delta(event: Event, epsilon: float) -> float:
    """The delta of `event` at `epsilon`."""
    return max(_cf.delta(_laws.flatten(way), epsilon) for way in _laws.alternatives(event))


def calibrate(cost: Callable[[float], Event], epsilon: float, delta: float) -> float:
    """The least noise, within 0.1 %, whose `cost` is at most (`epsilon`, `delta`); never on the wrong side."""
    _check_delta(delta)

    def spent(noise: float) -> float:
        return globals()["epsilon"](cost(noise), delta)  # type: ignore[no-any-return]

    high = 1.0
    while spent(high) > epsilon:
        high *= 2
        if high > 1e12:
            raise WrongInput(
                f"expected an epsilon that some noise can reach, got {epsilon:g} at delta {delta:g}; "
                "raise epsilon or delta, or drop releases whose cost does not depend on the noise"
            )
    low = high / 2
    while low > 1e-9 and spent(low) <= epsilon:
        low, high = low / 2, low
    while high / low > 1 + 1e-3:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if spent(middle) > epsilon else (low, middle)
    return high


def _check_delta(delta: float) -> None:
    if not (isinstance(delta, float) and 0 < delta < 1):
        raise WrongInput(f"expected delta strictly between 0 and 1, got {delta!r}")
