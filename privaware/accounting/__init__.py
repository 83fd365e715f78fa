"""Compute the epsilon or delta of an event, and the noise multiplier that a budget needs.

An event (`privaware.events`) is a description of what is released, such as one Gaussian release or a composition.

>>> from privaware.events import Gaussian, Laplace
>>> training = 1000 * Gaussian(noise=1.0).sampled(rate=0.01)
>>> round(epsilon(training, delta=1e-5), 2)
1.83
>>> round(epsilon(training + Laplace(noise=20.0), delta=1e-5), 2)
1.84
>>> round(calibrate(lambda noise: 1000 * Gaussian(noise=noise).sampled(rate=0.01), epsilon=1.0, delta=1e-5), 2)
1.41

Three accountants analyse an event:

1. The PLD accountant composes privacy loss distributions. It gives an upper bound, which is reported. `_terms.py` reads
   the event, `_grid.py` and `_pld.py` compose, and `_profiles.py` and `_selection.py` handle events whose distribution
   has no formula.
2. The CF accountant uses characteristic functions (`_cf_tree.py` and the other `_cf` files). It reads the event
   separately, and shares neither simplifications nor tables with the PLD accountant. If its result differs from the PLD
   accountant's by more than 0.5% (and by more than 1e-6, or 2e-5 for a private selection), `Refused` is raised. Points
   3 and 4 name the exceptions.
3. The RDP accountant uses Rényi divergences (`_rdp.py`). Its bound is reported if the PLD or the CF accountant gives no
   result. For a private selection (only the best of a random number of runs is released) it is also reported if it is
   smaller than the PLD bound, if the PLD bound exceeds 100, or if the first two accountants differ by 0.5% to 3% and
   the RDP bound is above both.
4. A PLD bound of at most 0.1 for a private selection is reported if the CF accountant gives less.

`_price.py` decides what is reported.
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
    "default_delta",
    "delta",
    "dpsgd",
    "epsilon",
    "trade_off",
    "trial_count_parameters",
]

DEFAULT_DELTA = 1e-5
"""Delta if the user gives none and the number of rows is unknown or below 100,000."""


def epsilon(event: Event, delta: float) -> float:
    """Return the epsilon of an event at `delta`. The result is an upper bound.

    Parameters
    ----------
    event
        What was released, such as `100 * Gaussian(noise=20.0)`.
    delta
        The delta of the guarantee.

    Returns
    -------
    float
        The epsilon; 0.0 if nothing was released. It is infinite if the failure probability of the event, which comes
        from its `Approximate` events, is above `delta`, or equal to `delta` and the releases have no pure epsilon.

    Raises
    ------
    Refused
        If the accountants disagree, or if the event contains an `Unproven` event.
    WrongInput
        If `delta` is not in (0, 1), if a number of the event is too extreme, or if releases that are not Gaussian are
        made on a sample under `replace_one`, or on a batch with a largest size (`Sampled.cap`).
    """
    _check_delta(delta)
    return _price.epsilon(event, delta)


def bounds(event: Event, delta: float, *, orders: Sequence[float] = _rdp.ORDERS) -> dict[str, Any]:
    """Return the epsilon of every accountant for an event.

    Parameters
    ----------
    event
        What was released.
    delta
        The delta of the guarantee.
    orders
        The Rényi orders of `rdp` and `rdp_classic`. They change `epsilon` too where a Rényi bound is reported.
        `TENSORFLOW_ORDERS` and `OPACUS_ORDERS` reproduce published numbers.

    Returns
    -------
    dict
        `pld`, `cf`, `rdp` and `rdp_classic` (the conversion used before 2021): an epsilon each, or None if the
        accountant gives none. `epsilon` is the reported epsilon. `method` names its accountant: pld or
        rdp; trade_off or papernot_steinke (the Rényi bound) for private selection; pure if there is no PLD bound and
        the sum of pure epsilons is smaller than the RDP bound.

    Raises
    ------
    Refused, WrongInput
        As in `epsilon`.
    """
    _check_delta(delta)
    return _price.bounds(event, delta, orders)


def delta(event: Event, epsilon: float) -> float:
    """Return the delta of an event at `epsilon`. The result is an upper bound.

    It comes from the PLD accountant, or from the RDP accountant if there is no privacy loss distribution. The CF
    accountant does not check it.

    Parameters
    ----------
    event
        What was released.
    epsilon
        The epsilon of the guarantee, finite and at least 0.

    Returns
    -------
    float
        The delta.

    Raises
    ------
    WrongInput
        If `epsilon` is not finite or below 0, or for an event as in `epsilon`.
    Refused
        If the event contains an `Unproven` event.
    """
    if not 0 <= epsilon < math.inf:
        raise WrongInput(f"expected a finite epsilon of at least 0, got {epsilon!r}")
    return _price.delta(event, epsilon)


def calibrate(cost: Callable[[float], Event], epsilon: float, delta: float) -> float:
    """Return the smallest noise multiplier with which a mechanism is (epsilon, delta)-differentially private.

    Parameters
    ----------
    cost
        A function from the noise multiplier to the event of the mechanism. Its epsilon must fall as the noise grows.
    epsilon, delta
        The guarantee to reach.

    Returns
    -------
    float
        A noise multiplier of at least 1e-9 and at most about 0.1% above the smallest one; a stored one (see Notes) may
        be further above it. `epsilon(cost(noise), delta) <= epsilon` always holds.

    Raises
    ------
    WrongInput
        If no noise multiplier up to 1e12 reaches the guarantee, or for an epsilon or delta out of range.
    Refused
        As in `epsilon`.

    Notes
    -----
    Results are stored in the user's cache folder; `PRIVAWARE_CACHE` names another folder. A stored noise multiplier is
    returned if its epsilon is at most `epsilon` and at most 2% below it.
    """
    _check_delta(delta)
    if isinstance(epsilon, bool) or not 0 < epsilon < math.inf:
        raise WrongInput(f"expected a finite epsilon above 0, got {epsilon!r}")
    return _calibrate.calibrate(cost, float(epsilon), delta)


@dataclass(frozen=True, kw_only=True)
class DpSgdRun:
    """The sampling rate and the number of steps of a run of DP-SGD; both are public.

    Parameters
    ----------
    rate
        The sampling rate of its Poisson batches.
    steps
        The number of steps.
    """

    rate: float
    steps: int

    def event(self, noise: float) -> Event:
        """Return the event of the run: `steps * Gaussian(noise=noise).sampled(rate=rate)`."""
        return self.steps * Gaussian(noise=noise).sampled(rate=self.rate)


def dpsgd(rows: int, batch: int, epochs: float | Fraction | str) -> DpSgdRun:
    """Return the sampling rate and the number of steps of DP-SGD.

    Parameters
    ----------
    rows
        The number of rows, an integer of at least 1.
    batch
        The expected batch size, an integer from 1 to `rows`.
    epochs
        The number of epochs, above 0; text such as "0.1" is read as an exact decimal number.

    Returns
    -------
    DpSgdRun
        `rate = batch / rows` and `steps = ceil(epochs * rows / batch)`; `steps` is computed with exact fractions.

    Raises
    ------
    WrongInput
        If an argument is out of its range.

    Examples
    --------
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


def default_delta(rows: int) -> float:
    """Return the delta of a guarantee for `rows` rows if the user gives none: `DEFAULT_DELTA`, or less for many rows.

    A mechanism may publish one row with probability delta. Therefore delta is `1 / (10 * rows)` if
    `DEFAULT_DELTA >= 1 / rows`.

    >>> default_delta(500), default_delta(2_000_000)
    (1e-05, 5e-08)
    """
    return DEFAULT_DELTA if DEFAULT_DELTA * rows < 1 else 1 / (10 * rows)


def __getattr__(name: str) -> Any:
    if name == "Descent":
        warnings.warn("privaware.accounting.Descent is now called DpSgdRun", DeprecationWarning, stacklevel=2)
        return DpSgdRun
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _check_delta(delta: float) -> None:
    if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not 0 < delta < 1:
        raise WrongInput(f"expected delta strictly between 0 and 1, got {delta!r}")
