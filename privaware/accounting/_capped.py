"""Capped batches: which true numbers of rows can be the dearest, if only the largest is declared.

Of n rows, the other n - 1 fill a batch of at most `cap` with probability w(n) = P[Bin(n-1, q) >= cap]. Then a row that
is sampled pushes another out: the pair is a replacement with rate r(n) = p(n) / w(n), where
p(n) = P[Bin(n, q) > cap] cap / n, exactly, because the batch is a uniform subset whatever its surplus. Otherwise the
pair is the ordinary sample. With h and u the two hockey-stick divergences at some epsilon, the price of one step is
F = w h(p / w) + (1 - w) u.

* h is convex in the rate and 0 at rate 0, so F falls with w at fixed p, and rises with p. p(n) / q is the mean of
  cap / (J + 1) 1[J >= cap] over J ~ Bin(n-1, q), which changes sign against any constant at most twice (-, +, -); the
  binomial kernel is totally positive, so p rises to one peak and then falls. w rises. Past the peak F only falls: no
  larger n is dearer, at any epsilon.
* r falls with n. For a < n <= b therefore F(n) <= w(n) h(r(a)) + (1 - w(n)) u, linear in w, so at most the larger of
  its values at w(a) and w(b). Integers below the peak are covered by such intervals, one by one near its end.

What is dominated at every epsilon of a fine grid is dropped; each of the others is priced and the dearest counts.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np

from privaware.accounting._pairs import Array, CappedGaussian, SampledGaussian

_EPSILONS = 1500
_COVERINGS = ((40, 1.3), (100, 1.1), (300, 1.03))
"""Points spread over all counts, and the ratio of distances from the last one; finer ones cost less, but more time."""


@lru_cache(maxsize=256)
def candidates(
    noise: float, rate: float, rows: int, cap: int, replace: bool, most: int = 50
) -> tuple[CappedGaussian, ...]:
    """Pairs of which, for every true number of rows up to `rows`, one dominates a step; `most` if that is enough."""
    kept: list[CappedGaussian] = []
    for shared, ratio in _COVERINGS:
        pairs = [
            CappedGaussian(noise=noise, rate=rate, overflow=overflow, pushed=pushed, replace=replace)
            for overflow, pushed in _covering(rate, rows, cap, shared, ratio)
        ]
        finer = _undominated(pairs)
        if kept and len(finer) > most:
            break
        kept = finer
        if len(kept) == 1:  # one count is the dearest: there is nothing to tell apart
            break
    return tuple(kept)


def _covering(rate: float, rows: int, cap: int, shared: int, ratio: float) -> list[tuple[float, float]]:
    """(overflow, pushed) for intervals of true counts, and (0, 0) for batches that never overflow."""
    last = _peak(rate, rows, cap)
    steps = ratio ** np.arange(0, math.log(max(last - cap, 1)) / math.log(ratio) + 1)
    points = {cap, last, *(last - np.unique(steps.astype(int))).tolist()}
    points |= set(np.geomspace(cap, last, shared).astype(int).tolist())
    ordered = sorted(n for n in points if cap <= n <= last)
    out = [(0.0, 0.0)]
    for a, b in pairwise(ordered):
        overflow = _overflow(b, rate, cap)
        if overflow > 0:
            out.append((overflow, _pushed(b if b == a + 1 else a, rate, cap)))
    return out


def _overflow(rows: int, rate: float, cap: int) -> float:
    from scipy import stats

    return float(stats.binom.sf(cap - 1, rows - 1, rate))


def _pushed(rows: int, rate: float, cap: int) -> float:
    """r(n); at most rate cap / (cap + 1), which is r(cap + 1)."""
    from scipy import stats

    most = rate * cap / (cap + 1)
    overflow = _overflow(rows, rate, cap)
    full = float(stats.binom.sf(cap, rows, rate))
    return min(most, full * cap / rows / overflow) if overflow > 1e-290 and full > 0 else most


def _peak(rate: float, rows: int, cap: int) -> int:
    """A count of at most `rows` past which p does not rise."""
    from scipy import stats

    def p(n: int) -> float:
        return float(stats.binom.sf(cap, n, rate)) / n

    low, high = min(max(cap, math.floor(cap / rate)), rows), rows
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if p(middle + 1) <= p(middle) else (middle + 1, high)
    return low


def _undominated(pairs: list[CappedGaussian]) -> list[CappedGaussian]:
    profiles = np.stack([_profile(pair) for pair in pairs])
    keep: list[int] = []
    dearest = np.round(profiles.sum(axis=1), 12)
    for i in np.lexsort(([-pair.overflow for pair in pairs], -dearest)):
        if not any(np.all(profiles[i] <= profiles[k] * (1 + 1e-9) + 1e-16) for k in keep):
            keep.append(int(i))
    return [pairs[i] for i in keep]


def _profile(pair: CappedGaussian) -> Array:
    """The divergences of one step at epsilons from 0 on, both directions."""
    epsilons = _grid(pair.noise)
    overflow, pushed, usual = pair.parts()
    plain = [_divergences(usual, direction, epsilons) for direction in ("remove", "add")]
    if overflow == 0:
        return np.concatenate(plain)
    replaced = _divergences(pushed, "remove", epsilons)
    return np.concatenate([overflow * replaced + (1 - overflow) * part for part in plain])


def _grid(noise: float) -> Array:
    top = min(4 * (4 + 12 * noise) / noise**2, 690.0)
    return np.append(0.0, np.geomspace(top * 1e-8, top, _EPSILONS))


def _divergences(pair: SampledGaussian, direction: str, epsilons: Array) -> Array:
    """P(loss > e) - e^e Q(loss > e), from where the loss equals e."""
    from scipy import special

    s, q = pair.noise, pair.rate
    grow = np.exp(epsilons)
    if pair.replace:
        steep = (1 - q) / q * math.exp(min(1 / (2 * s**2), 600.0))
        x = s**2 * (epsilons / 2 + np.arcsinh(steep * np.sinh(epsilons / 2)))
        p = (1 - q) * special.ndtr(-x / s) + q * special.ndtr((1 - x) / s)
        below = (1 - q) * special.ndtr(-x / s) + q * special.ndtr((-1 - x) / s)
    elif direction == "remove":
        x = s**2 * np.log1p(np.expm1(epsilons) / q) + 0.5
        p = (1 - q) * special.ndtr(-x / s) + q * special.ndtr((1 - x) / s)
        below = special.ndtr(-x / s)
    else:
        left = 1 + np.expm1(-epsilons) / q
        x = np.where(left > 0, s**2 * np.log(np.maximum(left, 1e-300)) + 0.5, -math.inf)
        p = special.ndtr(x / s)
        below = (1 - q) * special.ndtr(x / s) + q * special.ndtr((x - 1) / s)
    return np.maximum(p - grow * below, 0.0)  # type: ignore[no-any-return]
