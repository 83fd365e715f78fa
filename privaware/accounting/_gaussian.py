"""The Gaussian mechanism in closed form (Balle and Wang 2018)."""

from __future__ import annotations

import math

import numpy as np

from privaware.accounting._pairs import Array


def delta(mu: float, epsilons: Array) -> Array:
    """Return `Phi(mu/2 - e/mu) - exp(e) * Phi(-mu/2 - e/mu)` at each e of `epsilons`, without overflow.

    It is the delta of the Gaussian mechanism; `mu` is sensitivity divided by noise.

    >>> float(delta(1.0, np.array([4.37718]))[0].round(8))
    1e-05
    """
    from scipy import special

    a = mu / 2 - epsilons / mu
    b = mu / 2 + epsilons / mu
    return np.asarray(special.ndtr(a) - 0.5 * np.exp(-a * a / 2) * special.erfcx(b / math.sqrt(2)))


def epsilon(mu: float, delta_: float) -> float:
    """Return the epsilon >= 0 at which the delta of the Gaussian mechanism equals `delta_`.

    The result is 0 if the delta at epsilon 0 is at most `delta_`. `mu` is the sensitivity divided by the standard
    deviation of the noise.
    """
    from scipy import optimize

    def gap(e: float) -> float:
        return float(delta(mu, np.array([e]))[0]) - delta_

    if gap(0.0) <= 0:
        return 0.0
    high = mu * (mu / 2 + math.sqrt(2 * math.log(1 / delta_))) * (1 + 1e-12)
    return float(optimize.brentq(gap, 0.0, high, rtol=1e-13, xtol=1e-300))
