"""From events to epsilon, and from epsilon back to noise.

>>> from privaware.events import Gaussian, Laplace
>>> training = 1000 * Gaussian(noise=1.0).sampled(rate=0.01)
>>> round(epsilon(training, delta=1e-5), 2)
1.83
>>> round(epsilon(training + Laplace(noise=20.0), delta=1e-5), 2)
1.84
>>> round(calibrate(lambda noise: 1000 * Gaussian(noise=noise).sampled(rate=0.01), epsilon=1.0, delta=1e-5), 2)
1.41

Three accountants look at an event. The privacy loss distribution is an upper bound, and what is reported: `_terms.py`
reads the event, `_grid.py` and `_pld.py` compose, `_profiles.py` and `_selection.py` price what has no distribution by
name. A characteristic-function accountant of our own reads the event again (`_cf_tree.py` and the other `_cf` files),
shares neither simplification nor table with the first, and has to agree within half a per cent, or nothing is
reported at all. Renyi divergences (`_rdp.py`) take over where there is no distribution to compose, and for private
selections whose two readings differ by at most 3% and lie below it, or exceed an epsilon of 100. `_price.py` decides
what is reported.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privaware.accounting import _calibrate, _price, _rdp
from privaware.accounting._rdp import OPACUS_ORDERS, TENSORFLOW_ORDERS
from privaware.accounting._selection import parameters as trial_count_parameters
from privaware.accounting._trade_off import TradeOff, trade_off
from privaware.errors import WrongInput
from privaware.events import Event, Gaussian

__all__ = [
    "DEFAULT_DELTA",
    "OPACUS_ORDERS",
    "TENSORFLOW_ORDERS",
    "DpSgdRun",
    "TradeOff",
    "bounds",
    "calibrate",
    "delta",
    "dpsgd",
    "epsilon",
    "trade_off",
    "trial_count_parameters",
]

DEFAULT_DELTA = 1e-5
"""Delta of every guarantee for which the user gives none; `fit` and its like use 1 / (10 rows) from 100,000 rows on."""


def epsilon(event: Event, delta: float) -> float:
    """The epsilon reported for `event` at `delta`: never below the truth, 0.0 for no event at all.

    Raises `Refused` if the accountants disagree or part of the event has no proven guarantee.
    """
    _check_delta(delta)
    return _price.epsilon(event, delta)


def bounds(event: Event, delta: float, *, orders: Sequence[float] = _rdp.ORDERS) -> dict[str, Any]:
    """What every accountant says: `pld`, `cf`, `rdp`, `rdp_classic`, None where one cannot go.

    `epsilon` is what is reported and `method` its name: pld or rdp; with private selection inside, trade_off or
    papernot_steinke; pure where only the sum of pure epsilons is left. `rdp_classic` is the conversion of papers before
    2021; with `orders` their order lists (`TENSORFLOW_ORDERS`, `OPACUS_ORDERS`) give back the numbers they printed.
    """
    _check_delta(delta)
    return _price.bounds(event, delta, orders)


def delta(event: Event, epsilon: float) -> float:
    """The delta of `event` at `epsilon`: the same bound read the other way."""
    if not 0 <= epsilon < math.inf:
        raise WrongInput(f"expected a finite epsilon of at least 0, got {epsilon!r}")
    return _price.delta(event, epsilon)


def calibrate(cost: Callable[[float], Event], epsilon: float, delta: float) -> float:
    """The least noise, within a thousandth, at which `cost(noise)` is within (`epsilon`, `delta`).

    Always on the safe side: `epsilon(cost(noise), delta) <= epsilon` is checked with the accountant that reports.
    Answers are remembered in the user's cache folder (`PRIVAWARE_CACHE` names another).
    """
    _check_delta(delta)
    if isinstance(epsilon, bool) or not 0 < epsilon < math.inf:
        raise WrongInput(f"expected a finite epsilon above 0, got {epsilon!r}")
    return _calibrate.calibrate(cost, float(epsilon), delta)


@dataclass(frozen=True, kw_only=True)
class DpSgdRun:
    """The public facts of a run of DP-SGD: the sampling rate of its Poisson batches and its number of steps."""

    rate: float
    steps: int

    def event(self, noise: float) -> Event:
        return self.steps * Gaussian(noise=noise).sampled(rate=self.rate)


def dpsgd(rows: int, batch: int, epochs: float | Fraction | str) -> DpSgdRun:
    """Rate and steps of `epochs` passes: batch / rows, and epochs x rows / batch rounded up, in exact arithmetic.

    >>> dpsgd(rows=60000, batch=100, epochs=500)
    DpSgdRun(rate=0.0016666666666666668, steps=300000)
    >>> dpsgd(rows=93, batch=1, epochs="0.1").steps
    10
    """
    for name, value in (("rows", rows), ("batch", batch)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise WrongInput(f"expected {name} as a whole number of at least 1, got {value!r}")
    if batch > rows:
        raise WrongInput(f"expected a batch of at most the {rows} rows, got {batch}")
    try:
        passes = Fraction(str(epochs))
    except (ValueError, ZeroDivisionError):
        raise WrongInput(f"expected epochs as a number above 0, got {epochs!r}") from None
    if passes <= 0:
        raise WrongInput(f"expected epochs as a number above 0, got {epochs!r}")
    return DpSgdRun(rate=batch / rows, steps=math.ceil(passes * rows / batch))


def __getattr__(name: str) -> Any:
    if name == "Descent":
        warnings.warn("privaware.accounting.Descent is now called DpSgdRun", DeprecationWarning, stacklevel=2)
        return DpSgdRun
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _check_delta(delta: float) -> None:
    if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not 0 < delta < 1:
        raise WrongInput(f"expected delta strictly between 0 and 1, got {delta!r}")
