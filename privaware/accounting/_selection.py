"""Bound the cost of private selection: the best of a secret random number K of runs is released.

An observer does not know how many other runs there were, so the cost is only about the cost of two or three runs. Two
bounds are used, and the smaller counts.

The trade-off bound (`SelectionTradeOff`; docs/private_selection.md has the proof):

1. Let u(y) be the probability that one run is better than y, f the generating function of K, and w(u) = f'(1 - u),
   which falls with u. The best of K runs has the density p(y) w(u(y)), where p is the density of one run.
2. On neighbouring rows a run is better than y with a probability of at most U(u(y)), where U is one minus the trade-off
   function of a run (Dong, Roth and Su 2022).
3. Hence, if l is the privacy loss of one run,

       delta(e) <= E_P[ sup over u of (w(u) - exp(e - l) w(U(u)))_+ ].

4. The supremum is convex in exp(-l), so the right side is an f-divergence. Therefore it may be computed on any
   dominating pair.

The Rényi bound (Papernot and Steinke 2022), where r is the Rényi curve of one run and r' of the selection:

1. For the truncated negative binomial distribution with parameters eta and gamma, and any orders l and m,
   r'(l) = r(l) + (1+eta) [(1 - 1/m) r(m) + ln(1/gamma)/m] + ln E[K]/(l-1). The logarithmic distribution is eta = 0.
2. For a Poisson distribution with mean u, r'(l) = r(l) + u delta(ln(1 + 1/(l-1))) + ln(u)/(l-1), where delta is the
   privacy profile of one run.

Runs that fail outright with probability f: with probability 1 - f a run does not fail. Given that none of K runs
failed, K has a distribution of the same type with a smaller mean, because the probability of K = k is multiplied by
(1 - f)^k. So E[K] f, which is at least the probability that any run fails, is added to delta, and the bounds above are
applied to runs that do not fail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from privaware.accounting._quadrature import Array, Profile
from privaware.events import Selected

_INTERVALS = 12_000
"""Number of intervals of u in which the supremum is bounded."""

_LARGEST_LOG = 500.0
"""Largest exponent; exp(500) times the expected number of runs is still a float."""


def parameters(selected: Selected) -> tuple[float, float]:
    """Return the parameters eta and gamma of the trial-count distribution of a private selection.

    Parameters
    ----------
    selected
        The private selection, with a negative binomial or logarithmic trial-count distribution. A Poisson distribution
        is not refused, but its result has no meaning.

    Returns
    -------
    tuple of float
        eta and gamma, for which the expected number of trials is `selected.mean`.

    Examples
    --------
    >>> from privaware.events import Gaussian
    >>> run = Gaussian(noise=1.0)
    >>> eta, gamma = parameters(Selected(event=run, distribution="negative_binomial", mean=10.0, shape=1.0))
    >>> (eta, round(gamma, 9))
    (1.0, 0.1)
    """
    eta, log_gamma = _solved(selected)
    return eta, math.exp(log_gamma)


@lru_cache(maxsize=256)
def _solved(selected: Selected) -> tuple[float, float]:
    """Return (eta, ln(gamma)) of the trial-count distribution of `selected`; gamma may be smaller than any float.

    The distribution must be negative binomial or logarithmic.
    """
    from scipy import optimize

    eta = 0.0 if selected.distribution == "logarithmic" else float(selected.shape or 0.0)

    def gap(log_gamma: float) -> float:
        return log_mean(eta, log_gamma) - math.log(selected.mean)

    low, high = -1.0, -1e-12
    while gap(low) < 0:
        low *= 2
    return eta, float(optimize.brentq(gap, low, high, xtol=1e-14)) if gap(high) < 0 else high


def failure(selected: Selected, one: float) -> float:
    """Return an upper bound on the probability that any run of `selected` fails outright.

    `one` is the probability that a single run fails.
    """
    return min(1.0, selected.mean * one)


def log_mean(eta: float, log_gamma: float) -> float:
    """Return ln E[K] for the truncated negative binomial distribution with parameters `eta` and g = exp(log_gamma).

    It is ln(eta (1-g) / (g (1 - g^eta))), and the limit of this formula at eta = 0 (the logarithmic distribution).
    """
    top = math.log(-math.expm1(log_gamma)) - log_gamma
    if eta == 0:
        return top - math.log(-log_gamma)
    power = -abs(eta * log_gamma)  # for eta < 0, 1 - g^eta = -g^eta (1 - g^-eta)
    return top + math.log(abs(eta)) - math.log(-math.expm1(power)) + min(eta, 0.0) * -log_gamma


def renyi(selected: Selected, orders: Array, base: Array, profile: Profile | None) -> Array:
    """Return upper bounds on the Rényi divergences of `selected` at `orders`.

    Paper: Papernot and Steinke 2022. `base` has the Rényi divergences of a single run at the same orders. `profile` is
    the privacy profile of one run; only a Poisson number of runs needs it.
    """
    mean = math.log(selected.mean)
    if selected.distribution == "poisson":
        assert profile is not None
        chance = profile(-np.log1p(-1 / orders))
        return np.maximum(base + selected.mean * chance + mean / (orders - 1), 0.0)  # type: ignore[no-any-return]
    eta, log_gamma = _solved(selected)
    extra = np.min((1 - 1 / orders) * base - log_gamma / orders)
    return base + (1 + eta) * extra + mean / (orders - 1)  # type: ignore[no-any-return]


def pure(selected: Selected, one: float) -> float:
    """Return the pure epsilon of `selected` if one run has pure epsilon `one`: (2 + eta) * one.

    eta is the parameter of the negative binomial distribution, 0 for the logarithmic one. For a Poisson distribution
    the result is infinite.
    """
    if selected.distribution == "poisson":
        return math.inf
    return (2 + _solved(selected)[0]) * one


@dataclass(frozen=True, kw_only=True)
class SelectionTradeOff:
    """The trade-off bound on delta for the private selection `selected`.

    `losses` are the ascending losses of one run, and `probs` their probabilities under P; the mass that `probs` lacks
    is the probability of an infinite loss. With the generating function f of the number of runs, let w(u) = f'(1 - u).
    U is one minus the trade-off function of one run: the largest probability on neighbouring rows of an event of
    probability u. Then delta(e) <= E_P[sup over u of max(0, w(u) - s w(U(u)))] with s = exp(e - loss). On a short
    interval of u, w is below its chord, and the convex function w(U(u)) is above its tangent at the middle. So the
    supremum on the interval is at most the larger of two straight lines in s, one for each end of the interval. The
    upper envelope of all these lines is computed once.
    """

    selected: Selected
    losses: Array
    probs: Array

    def delta(self, epsilon: float) -> float:
        inside = float(self.probs @ self.excess(epsilon - self.losses))
        return min(1.0, inside + max(0.0, 1 - float(self.probs.sum())) * self.selected.mean)

    def excess(self, logs: Array) -> Array:
        """Return an upper bound on sup over u of max(0, w(u) - s w(U(u))) at s = exp(x), for each x of `logs`.

        u is in [0, 1]. With the generating function f of the number of runs, w(u) = f'(1 - u). U(u) is one minus the
        trade-off function of one run: the largest probability on neighbouring rows of an event of probability u. x is
        clipped to [-500, 500].
        """
        tops, slopes, breaks = self._lines
        logs = np.clip(logs, -_LARGEST_LOG, _LARGEST_LOG)
        at = np.searchsorted(breaks, logs)
        return np.maximum(tops[at] - slopes[at] * np.exp(logs), 0.0)  # type: ignore[no-any-return]

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon >= 0 whose delta is at most `delta`, or infinity without such an epsilon."""
        from scipy import optimize

        if self.delta(0.0) <= delta:
            return 0.0
        if not math.isfinite(self.highest) or self.delta(self.highest) > delta:
            return math.inf
        root = float(optimize.brentq(lambda e: self.delta(e) - delta, 0.0, self.highest, rtol=1e-12, xtol=1e-12))
        while self.delta(root) > delta:
            root += 1e-10 * (1 + root)
        return root

    @cached_property
    def highest(self) -> float:
        """An epsilon beyond which only infinite losses contribute to delta, or infinity without such an epsilon."""
        tops, slopes, breaks = self._lines
        if slopes[-1] <= 0:
            return math.inf
        last = math.log(tops[-1] / slopes[-1])  # where the last line reaches 0
        return max(0.0, float(self.losses[-1]) + max(last, float(breaks[-1]) if len(breaks) else last))

    @cached_property
    def _lines(self) -> tuple[Array, Array, Array]:
        """The upper envelope of the lines of all intervals, as three arrays; line i is `tops[i] - slopes[i] * s`.

        The arrays are `tops`, `slopes` in descending order, and the logarithms of the s at which line i + 1 exceeds
        line i (one entry less).
        """
        u = self._abscissae()
        middle = (u[1:] + u[:-1]) / 2
        reach, slope = self._reach(middle)
        value = np.exp(self._log_weight(reach))
        fall = value * self._steepness(reach) * slope * (u[1:] - u[:-1]) / 2
        least = np.exp(self._log_weight(self._reach(u[1:])[0]))
        fine = value - fall > least / 2  # otherwise the smallest value on the interval gives the better line
        top = np.exp(self._log_weight(u))
        tops = np.concatenate([top[:-1], top[1:]])
        slopes = np.concatenate([np.where(fine, value + fall, least), np.where(fine, value - fall, least)])
        return _largest_of_lines(tops, slopes)

    def _abscissae(self) -> Array:
        smallest = 1e-20
        if self.selected.distribution != "poisson":
            smallest = max(min(smallest, math.exp(_solved(self.selected)[1]) * 1e-3), 1e-300)
        return np.append(0.0, np.geomspace(smallest, 1.0, _INTERVALS))

    @cached_property
    def _curve(self) -> tuple[Array, Array]:
        """The knots (u, U(u)) of U as two arrays, by the Neyman-Pearson lemma.

        U(u) is the largest probability under Q of an event of probability u under P. Outcomes are taken in ascending
        order of their losses; outcomes that P never has come first.
        """
        with np.errstate(divide="ignore"):
            under_q = np.exp(np.minimum(np.log(self.probs) - self.losses, 0.0))
        below = np.append(0.0, np.cumsum(self.probs))
        reach = np.append(0.0, np.cumsum(under_q))
        return below, np.minimum(reach + max(0.0, 1 - float(reach[-1])), 1.0)

    def _reach(self, u: Array) -> tuple[Array, Array]:
        """Return U(u) and a slope of U at each of `u`.

        U(u) is the largest probability under Q of an event of probability u under P.
        """
        below, reach = self._curve
        at = np.clip(np.searchsorted(below, u, side="right"), 1, len(below) - 1)
        width = below[at] - below[at - 1]
        slope = np.where(width > 0, (reach[at] - reach[at - 1]) / np.where(width > 0, width, 1.0), 0.0)
        return np.minimum(np.interp(u, below, reach), 1.0), slope

    def _log_weight(self, u: Array) -> Array:
        """Return ln(w(u)) with w(u) = f'(1 - u), where f is the generating function of the number of runs."""
        mean = math.log(self.selected.mean)
        if self.selected.distribution == "poisson":
            return mean - self.selected.mean * u
        eta, log_gamma = _solved(self.selected)
        return mean + (1 + eta) * (log_gamma - self._log_mix(u))

    def _steepness(self, u: Array) -> Array:
        """Return -w'(u) / w(u) with w(u) = f'(1 - u), where f is the generating function of the number of runs."""
        if self.selected.distribution == "poisson":
            return np.full(len(u), self.selected.mean)
        eta, log_gamma = _solved(self.selected)
        return np.exp(math.log(1 + eta) + math.log(-math.expm1(log_gamma)) - self._log_mix(u))

    def _log_mix(self, u: Array) -> Array:
        """Return ln(gamma + (1 - gamma) u) at each of `u`.

        The number of runs of `selected` is negative binomial or logarithmic with the parameter gamma.
        """
        log_gamma = _solved(self.selected)[1]
        with np.errstate(divide="ignore"):
            return np.logaddexp(log_gamma, math.log(-math.expm1(log_gamma)) + np.log(u))  # type: ignore[no-any-return]


def _largest_of_lines(tops: Array, slopes: Array) -> tuple[Array, Array, Array]:
    """Return the upper envelope of the lines `top - slope * s` over s > 0: tops, slopes, and ln(s) of break points.

    `tops` and `slopes` are in any order. The lines of the envelope are in descending order of slope, which is also the
    order in which they are the largest as s grows.
    """
    order = np.lexsort((-tops, -slopes))
    keep: list[tuple[float, float]] = []
    for top, slope in zip(tops[order].tolist(), slopes[order].tolist()):
        if keep and slope == keep[-1][1]:
            continue
        while keep and (
            top >= keep[-1][0]
            or (
                len(keep) > 1
                and (keep[-1][0] - top) * (keep[-2][1] - keep[-1][1])
                <= (keep[-2][0] - keep[-1][0]) * (keep[-1][1] - slope)
            )
        ):
            keep.pop()
        keep.append((top, slope))
    lines = np.array(keep)
    breaks = (lines[:-1, 0] - lines[1:, 0]) / (lines[:-1, 1] - lines[1:, 1])
    with np.errstate(divide="ignore"):
        return lines[:, 0], lines[:, 1], np.log(breaks)
