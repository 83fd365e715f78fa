"""Capped batches: find the true numbers of rows at which a step can cost most, if only the largest number is declared.

Let q be the sampling rate and n the true number of rows.

1. The other n - 1 rows fill a batch of at most `cap` rows with probability w(n) = P[Bin(n-1, q) >= cap]. Then a sampled
   row pushes another row out. So the dominating pair is a replacement with rate r(n) = p(n) / w(n), where
   p(n) = P[Bin(n, q) > cap] cap / n. This is exact, because the batch is a uniform subset for any surplus. If the batch
   is not full, the dominating pair is the pair of ordinary Poisson sampling.
2. At some epsilon, let h(rate) and u be the hockey-stick divergences of the replacement pair and of the ordinary pair.
   The divergence of one step is F = w h(p / w) + (1 - w) u.
3. h is convex in the rate and 0 at rate 0, so F falls with w at fixed p, and rises with p.
4. p(n) / q is the mean of cap / (J + 1) 1[J >= cap] over J ~ Bin(n-1, q). The function of J minus any constant changes
   sign at most twice (-, +, -), and the binomial kernel is totally positive. So p(n) rises to one peak and then falls.
   w(n) rises. So beyond the peak of p, F only falls: no larger n costs more, at any epsilon.
5. r(n) falls with n. So for a < n <= b, F(n) <= w(n) h(r(a)) + (1 - w(n)) u. The right side is linear in w(n), so it is
   at most the larger of its values at w(a) and w(b). Such intervals cover all integers below the peak; near the peak
   an interval is a single integer.

A pair that another pair dominates at every epsilon of a fine grid is dropped. The cost of each remaining pair is
computed, and the largest cost counts.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np

from privaware.accounting._pairs import Array, CappedGaussian, SampledGaussian

_EPSILONS = 1500
"""Number of positive epsilons at which two pairs are compared."""

_COVERINGS = ((40, 1.3), (100, 1.1), (300, 1.03))
"""Coverings of the counts below the peak by intervals, from coarse to fine; a finer one gives a smaller cost, slowly.

Each is (number of points spread over all counts, ratio of successive distances of points from the peak).
"""


@lru_cache(maxsize=256)
def candidates(
    noise: float, rate: float, rows: int, cap: int, replace: bool, most: int = 50
) -> tuple[CappedGaussian, ...]:
    """Return dominating pairs such that, for every true number of rows up to `rows`, one of them dominates a step.

    A step adds Gaussian noise with the multiplier `noise` to a sum over a Poisson sample at `rate`, from which a random
    subset of `cap` rows is kept if it is larger. Neighbours differ by replacing a row if `replace` is true, otherwise
    by adding or removing one. Finer coverings of the row counts (`_COVERINGS`) are used while they give at most `most`
    pairs; the coarsest covering may give more.
    """
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
        if len(kept) == 1:  # a single pair dominates all counts
            break
    return tuple(kept)


def _covering(rate: float, rows: int, cap: int, shared: int, ratio: float) -> list[tuple[float, float]]:
    """Return pairs (overflow, pushed): the probabilities of a `CappedGaussian` for each interval of row counts.

    For the interval (a, b] of true numbers of rows the pair is (w(b), r(a)), or (w(b), r(b)) if b = a + 1. Here w(n) =
    P[Bin(n-1, rate) >= cap] is the probability that the other rows fill the batch, and r(n) = P[Bin(n, rate) > cap] *
    cap / (n * w(n)). The intervals reach from `cap` to the count up to `rows` beyond which no step costs more
    (`_peak`). Intervals with w(b) = 0 are left out. The first pair is (0, 0), for batches that never overflow. `shared`
    is the number of ends of intervals spread evenly (in logarithm) over all counts; more ends lie at distances from the
    peak that grow by the factor `ratio`.
    """
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
    """Return r = P[Bin(rows, rate) > cap] * cap / (rows * w), where w = P[Bin(rows - 1, rate) >= cap].

    It is the rate of replacement in a step whose other rows fill the batch of at most `cap` rows, if the data have
    `rows` rows. The result is at most `rate * cap / (cap + 1)`, its value at cap + 1 rows, and this value is returned
    if a probability underflows.
    """
    from scipy import stats

    most = rate * cap / (cap + 1)
    overflow = _overflow(rows, rate, cap)
    full = float(stats.binom.sf(cap, rows, rate))
    return min(most, full * cap / rows / overflow) if overflow > 1e-290 and full > 0 else most


def _peak(rate: float, rows: int, cap: int) -> int:
    """Return the smallest n from about `cap / rate` on beyond which P[Bin(n, rate) > cap] / n does not rise.

    The result is at most `rows`. With more than n rows in the data, a capped batch costs no more. `cap` is the largest
    size of a batch.
    """
    from scipy import stats

    def p(n: int) -> float:
        return float(stats.binom.sf(cap, n, rate)) / n

    low, high = min(max(cap, math.floor(cap / rate)), rows), rows
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if p(middle + 1) <= p(middle) else (middle + 1, high)
    return low


def _undominated(pairs: list[CappedGaussian]) -> list[CappedGaussian]:
    """Return `pairs` without those that another pair dominates, the most costly first.

    Pair A dominates pair B if each divergence of B (`_profile`) is at most the same divergence of A, up to rounding.
    The cost of a pair, for the order, is the sum of its divergences.
    """
    profiles = np.stack([_profile(pair) for pair in pairs])
    keep: list[int] = []
    dearest = np.round(profiles.sum(axis=1), 12)
    for i in np.lexsort(([-pair.overflow for pair in pairs], -dearest)):
        if not any(np.all(profiles[i] <= profiles[k] * (1 + 1e-9) + 1e-16) for k in keep):
            keep.append(int(i))
    return [pairs[i] for i in keep]


def _profile(pair: CappedGaussian) -> Array:
    """Return the hockey-stick divergences of one step with `pair` as one array: direction "remove", then "add".

    Each half has one divergence for each epsilon of `_grid(pair.noise)`: 0, then `_EPSILONS` increasing numbers.
    """
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
    """Return the hockey-stick divergences `P(loss > e) - exp(e) * Q(loss > e)` at each e of `epsilons`.

    `direction` is "remove" or "add"; it has no effect if neighbours differ by replacing a row (`pair.replace`).
    """
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
