"""Private selection: the best of a secret random number K of runs, for about the price of two or three.

Only the best output is released, so an observer does not know how many others there were. Two bounds are used:

* Papernot and Steinke 2022, in Renyi divergences. For the truncated negative binomial with parameters eta, gamma:
  r'(l) = r(l) + (1+eta) [(1 - 1/m) r(m) + ln(1/gamma)/m] + ln E[K]/(l-1) for any orders l, m; for a Poisson
  number of mean u: r'(l) = r(l) + u delta(ln(1 + 1/(l-1))) + ln(u)/(l-1), with delta the privacy profile of one
  run.
* Koskela, Redberg and Wang 2024, in profiles, negative binomial only: for any e1 >= 0,
  delta'(e) <= E[K] delta(e - (1+eta) ln(e^e1 + (1/gamma - 1) delta(e1))).

A run that fails outright with probability f: it is, with probability 1 - f, one that does not fail, and given that none
of K runs failed, K has the same kind of distribution with a smaller mean (its probabilities are multiplied by
(1 - f)^k). So E[K] f, no less than the probability that any run fails, goes into delta, and the rest is the price of
runs that do not fail.

The logarithmic distribution is eta = 0. Tighter bounds are known but not yet published with a proof, and are not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privaware.accounting._pairs import Array
from privaware.events import Selected

Profile = Callable[[Array], Array]


def parameters(selected: Selected) -> tuple[float, float]:
    """(eta, gamma) of the trial-count distribution with the given mean.

    >>> from privaware.events import Gaussian
    >>> run = Gaussian(noise=1.0)
    >>> eta, gamma = parameters(Selected(event=run, distribution="negative_binomial", mean=10.0, shape=1.0))
    >>> (eta, round(gamma, 9))
    (1.0, 0.1)
    """
    eta, log_gamma = _solved(selected)
    return eta, math.exp(log_gamma)


def _solved(selected: Selected) -> tuple[float, float]:
    """(eta, ln gamma): gamma itself may be smaller than any float."""
    from scipy import optimize

    eta = 0.0 if selected.distribution == "logarithmic" else float(selected.shape or 0.0)

    def gap(log_gamma: float) -> float:
        return log_mean(eta, log_gamma) - math.log(selected.mean)

    low, high = -1.0, -1e-12
    while gap(low) < 0:
        low *= 2
    return eta, float(optimize.brentq(gap, low, high, xtol=1e-14)) if gap(high) < 0 else high


def failure(selected: Selected, one: float) -> float:
    """No less than the probability that any of the runs fails outright, if `one` does with probability `one`."""
    return min(1.0, selected.mean * one)


def log_mean(eta: float, log_gamma: float) -> float:
    """ln E[K] = ln(eta (1-g) / (g (1 - g^eta))), and its limit at eta = 0."""
    top = math.log(-math.expm1(log_gamma)) - log_gamma
    if eta == 0:
        return top - math.log(-log_gamma)
    power = -abs(eta * log_gamma)  # for eta < 0, 1 - g^eta = -g^eta (1 - g^-eta)
    return top + math.log(abs(eta)) - math.log(-math.expm1(power)) + min(eta, 0.0) * -log_gamma


def renyi(selected: Selected, orders: Array, base: Array, profile: Profile | None) -> Array:
    """The curve of Papernot and Steinke from the curve `base` of one run."""
    mean = math.log(selected.mean)
    if selected.distribution == "poisson":
        if profile is None:
            return np.full(len(orders), math.inf)
        chance = profile(-np.log1p(-1 / orders))
        return np.maximum(base + selected.mean * chance + mean / (orders - 1), 0.0)  # type: ignore[no-any-return]
    eta, log_gamma = _solved(selected)
    extra = np.min((1 - 1 / orders) * base - log_gamma / orders)
    return base + (1 + eta) * extra + mean / (orders - 1)  # type: ignore[no-any-return]


def shift(selected: Selected, profile: Profile, top: float) -> float:
    """min over e1 of (1+eta) ln(e^e1 + (1/gamma - 1) delta(e1)), the price of private selection beyond one run."""
    eta, log_gamma = _solved(selected)
    tries = np.linspace(0.0, top, 4001)
    odds = math.log(-math.expm1(log_gamma)) - log_gamma  # ln(1/gamma - 1)
    return (1 + eta) * float(np.min(np.logaddexp(tries, odds + np.log(profile(tries) + 1e-300))))
