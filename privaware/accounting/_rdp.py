"""The RDP accountant: bounds by Rényi divergences, for events without a pair (zCDP) and for comparison with papers.

A release has the curve r(a) = D_a(P || Q) over orders a. Curves of composed releases add up. At the end each order
gives an epsilon, and the smallest counts:

* improved conversion (Balle et al. 2020; Canonne, Kamath and Steinke 2020): r + ln((a-1)/a) - (ln delta + ln a)/(a-1);
* classic conversion (Mironov 2017), used in papers before 2021: r + ln(1/delta)/(a-1).

For the sampled Gaussian at an integer order the divergence is a binomial sum. At a fractional order it is integrated
numerically, because its series converges slowly at rates near 1/2 and loses the digits of small divergences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from privaware.accounting._pairs import Array, DominatingPair, GaussianPair, SampledGaussian
from privaware.accounting._terms import Terms

ORDERS: tuple[float, ...] = tuple(
    sorted(
        {round(1 + 10**p, 6) for p in np.arange(-4, 0, 0.25)}
        | {x / 4 for x in range(8, 44)}
        | {float(x) for x in range(11, 64)}
        | {float(round(10**p)) for p in np.arange(1.8, 5.05, 0.1)}
        | {float(10**p) for p in range(6, 16)}  # without these, tiny releases would cost ln(1/delta) / (1e5 - 1)
    )
)
"""Orders at which divergences are computed by default."""

TENSORFLOW_ORDERS: tuple[float, ...] = (
    *(1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5),
    *(float(x) for x in range(5, 64)),
    *(128.0, 256.0, 512.0),
)
"""Default orders of TensorFlow Privacy."""

_RESOLVED = 1e5
"""Largest order at which divergences are computed; beyond it they are bounded."""

_ROUNDING = 1e-13
"""Bound on the rounding error of an integral at a fractional order."""

OPACUS_ORDERS: tuple[float, ...] = (*(1 + x / 10 for x in range(1, 100)), *(float(x) for x in range(12, 64)))
"""Default orders of Opacus."""


def epsilon(terms: Terms, delta: float, orders: Sequence[float] = ORDERS, *, classic: bool = False) -> float:
    """Return the smallest epsilon of `terms` over `orders`; `delta` is first reduced by the failure probability.

    The reduced delta is `(delta - failure) / (1 - failure)`. Epsilon is infinite if the failure probability of `terms`
    is at least `delta`. `classic` uses the conversion from Rényi divergences that was usual before 2021.
    """
    if terms.failure >= delta:
        return math.inf
    rest = (delta - terms.failure) / (1 - terms.failure)
    if not terms.pairs and not terms.rho:
        return 0.0
    return convert(orders, curve(terms, tuple(orders)), rest, classic=classic)


def convert(orders: Sequence[float], curve: Array, delta: float, *, classic: bool = False) -> float:
    """Return the smallest epsilon at `delta` over `orders`, where `curve` has the Rényi divergence at each order.

    At order a with divergence r the epsilon is r + ln((a-1)/a) - (ln delta + ln a)/(a-1), or with `classic` (Mironov
    2017) r + ln(1/delta)/(a-1). A curve of zeros gives 0. Without `classic` the result is at least 0, and it is 0 if a
    divergence implies a total variation below `delta`.
    """
    a = np.asarray(orders, dtype=float)
    if not np.any(curve):
        return 0.0
    if classic:
        return float(np.min(curve + math.log(1 / delta) / (a - 1)))
    values = curve + np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1)
    # So small a divergence implies a total variation below delta (Bretagnolle and Huber), unless it is just rounding.
    if np.any(delta**2 > np.maximum(-np.expm1(-curve), 1e-12)):
        return 0.0
    return max(0.0, float(np.min(values)))


def curve(terms: Terms, orders: tuple[float, ...] = ORDERS) -> Array:
    """Return the Rényi divergences of `terms`, zCDP included, at `orders`: the larger direction at each order."""
    totals = [
        sum((n * _either(pair, direction, orders) for pair, n in terms.pairs), np.zeros(len(orders)))
        for direction in (terms.directions() or ("remove",))
    ]
    return np.max(totals, axis=0) + terms.rho * np.asarray(orders)  # type: ignore[no-any-return]


def _either(pair: DominatingPair, direction: str, orders: tuple[float, ...]) -> Array:
    # The remove direction of a sampled Gaussian is the larger one at every order (Mironov, Talwar and Zhang 2019).
    return _divergences(pair, "remove" if pair.symmetric or _has_series(pair) else direction, orders)


def _has_series(pair: DominatingPair) -> bool:
    return isinstance(pair, SampledGaussian) and pair.group == 1 and not pair.replace


@lru_cache(maxsize=1024)
def _divergences(pair: DominatingPair, direction: str, orders: tuple[float, ...]) -> Array:
    if isinstance(pair, GaussianPair):
        return pair.mu**2 / 2 * np.asarray(orders)
    series = _has_series(pair)
    values = []
    for a in orders:
        if a > _RESOLVED:
            values.append(_without_sampling(pair, a))
        elif series and a <= 256:
            values.append(_series(pair.rate, pair.noise, a))  # type: ignore[attr-defined]
        else:  # the sum would have thousands of terms, or there is no sum
            values.append(_integrated(pair, direction, a))
    return np.array([v if math.isfinite(v) else math.inf for v in values])


def _series(rate: float, noise: float, order: float) -> float:
    """Return an upper bound on the Rényi divergence at `order` of a Gaussian with multiplier `noise` sampled at `rate`.

    At a fractional order rounding may be as large as a tiny divergence, so a bound on the rounding error is added.
    Divergences grow with the order, so the divergence at the next integer order is another upper bound.
    """
    value = sampled_gaussian(rate, noise, order)
    if float(order).is_integer():
        return value
    return min(max(value, 0.0) + _ROUNDING / (order - 1), sampled_gaussian(rate, noise, float(math.ceil(order))))


def _without_sampling(pair: DominatingPair, order: float) -> float:
    """Return an upper bound on the Rényi divergence of `pair` at `order`, which may be arbitrarily large.

    A mixture of Gaussians is no further apart than its two most distant parts. Any other pair has a largest loss
    (possibly infinite), which bounds the divergence at every order.
    """
    shift = pair.largest_shift()
    return pair.pure() if shift is None else order * shift**2 / 2


def sampled_gaussian(rate: float, noise: float, order: float) -> float:
    """Return the Rényi divergence at `order` of one Gaussian release on a Poisson sample, for a removed row.

    `rate` is the sampling rate, and `noise` the noise multiplier. An added row has no larger divergence.

    >>> round(sampled_gaussian(1.0, 2.0, 8.0), 6)
    1.0
    >>> round(sampled_gaussian(0.1, 0.37, 1.3), 5)
    0.35587
    """
    if rate == 1:
        return order / (2 * noise**2)
    if float(order).is_integer():
        return _whole(rate, noise, int(order)) / (order - 1)
    return _integrated(SampledGaussian(noise=noise, rate=rate), "remove", order)


def _integrated(pair: DominatingPair, direction: str, order: float) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(pair.log_mgf(np.array([order - 1]), direction)[0]) / (order - 1)


def _whole(rate: float, noise: float, order: int) -> float:
    from scipy import special

    i, choose = _choose(order)
    terms = choose + i * math.log(rate) + (order - i) * math.log1p(-rate)
    # Without the exponentials the terms sum to 1; subtracting this 1 keeps the digits of tiny divergences.
    grow = (i * i - i) / (2 * noise**2)
    if float(grow[-1]) < 30:
        return float(np.log1p(np.exp(terms) @ np.expm1(grow)))
    return float(special.logsumexp(terms + grow))


@lru_cache(maxsize=512)
def _choose(order: int) -> tuple[Array, Array]:
    from scipy import special

    i = np.arange(order + 1, dtype=float)
    return i, special.gammaln(order + 1) - special.gammaln(i + 1) - special.gammaln(order - i + 1)


def delta(orders: Sequence[float], curve: Array, epsilon: float) -> float:
    """Return delta at `epsilon` by the improved conversion: the minimum of exp((a-1)(r - e)) (1 - 1/a)^a / (a-1).

    a runs over `orders`, r over the divergences `curve` at these orders, and e is `epsilon`.
    """
    a = np.asarray(orders, dtype=float)
    logs = (a - 1) * (curve - epsilon) + a * np.log1p(-1 / a) - np.log(a - 1)
    return min(1.0, math.exp(min(0.0, float(np.min(logs)))))
