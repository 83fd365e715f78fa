"""Compose privacy loss distributions (PLD); this accountant's epsilon is reported.

`_grid.py` discretises the losses of one release on a grid, which gives an upper bound. This module composes them by
convolution, and avoids three problems of the usual way:

1. Rounding errors of a Fourier transform are relative to the largest entry, but delta lies in a tail of 1e-5 or 1e-9.
   So the distribution is first tilted: multiplied by exp(theta l) and normalised. Then the tail of interest is the
   bulk, a window of a few standard deviations around epsilon suffices, and rounding errors are relative to delta.
2. One grid does not suit all releases. A grid width d adds a variance of about d^2/6 to each step, so d must be
   proportional to the spread of a single step (a 25th of the spread costs 0.02%). But a grid for one of 300,000 steps
   is far too fine for a Laplace release in the same composition. So each type of release is composed with itself on its
   own grid. Then the results are moved to a common grid by connecting the dots, which again gives an upper bound.
3. The library ignores the number of repetitions of randomised response. Repetitions are composed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from privaware.accounting._chernoff import bound_on_epsilon, guess, saddle
from privaware.accounting._grid import Grid, OutOfReach, discretise, largest, moved
from privaware.accounting._pairs import Array, TabulatedPair
from privaware.accounting._quadrature import Profile
from privaware.accounting._terms import Terms

_POINTS = 1 << 21
"""Largest number of grid points in the privacy loss distribution of one release."""

_TAIL = 34.0
"""Tilted mass below `exp(-_TAIL)` at the ends is counted as an infinite loss, which is the safe side."""

_COARSEST = 0.25
"""Largest grid width; a width d shifts a loss by up to d^2/8, however large its spread is."""

AIMS = (0.5, 1e-2, 1e-4, 1e-7, 1e-11)
"""Deltas for which a profile is tilted, so that it is precise near them."""

_ROUNDING = 32.0
"""Rounding errors of a Fourier transform are below `exp(-_ROUNDING)` times its sum."""


@dataclass(frozen=True, kw_only=True)
class ComposedLoss:
    """A composition on a `grid` tilted by `theta`: P(loss = l) = prob * exp(log_mgf - theta * l) at each grid point.

    `log_mgf` is the logarithm of the moment generating function of the loss at `theta`. `infinite` is the probability
    of an infinite loss.
    """

    theta: float
    log_mgf: float
    grid: Grid
    infinite: float

    @cached_property
    def sums(self) -> tuple[Array, Array, Array]:
        """Ascending losses, P(at least this loss), and Q(at least this loss) times exp(loss), which never overflows."""
        from scipy import signal

        losses, tilted = self.grid.losses(), self.grid.probs
        # Far below epsilon undoing the tilt amplifies rounding errors, so cut probabilities off at 1.
        logs = np.log(np.maximum(tilted, 1e-300)) + self.log_mgf - self.theta * losses
        probs = np.where(tilted > 0, np.exp(np.minimum(logs, 0.0)), 0.0)
        mass = np.cumsum(probs[::-1])[::-1]
        shrink = math.exp(-self.grid.width)
        under_q = signal.lfilter([1.0], [1.0, -shrink], probs[::-1])[::-1]
        return losses, mass, under_q

    def delta(self, epsilons: Array) -> Array:
        """Return an upper bound on delta at each of `epsilons`; below the window of losses it is 1."""
        losses, mass, under_q = self.sums
        at = np.searchsorted(losses, epsilons)
        inside = at < len(losses)
        at = np.minimum(at, len(losses) - 1)
        drop = np.minimum(epsilons - losses[at], 700.0)
        value = np.where(inside, mass[at] - np.exp(drop) * under_q[at], 0.0)
        # Add the transform's rounding error, which is negligible near the epsilon that the tilt was chosen for.
        noise = np.exp(np.minimum(self.log_mgf - self.theta * epsilons - _ROUNDING, 0.0))
        value = np.where(epsilons < losses[0], 1.0, np.maximum(value, 0.0) + noise)
        return np.clip(self.infinite + value, 0.0, 1.0)  # type: ignore[no-any-return]

    def epsilon(self, delta: float) -> float:
        """Return the epsilon >= 0 at which delta(epsilon) equals `delta`, solved exactly between two grid points.

        It is infinite if an infinite loss has probability `delta` or more, and 0 if delta(0) is at most `delta`.
        """
        left = delta - self.infinite
        if left <= 0:
            return math.inf
        losses, mass, under_q = self.sums
        # At epsilon = losses[i] the terms above i count. Find the largest i whose delta is too large.
        at = np.append(mass[1:] - math.exp(-self.grid.width) * under_q[1:], 0.0)
        over = np.flatnonzero(at > left)
        first = int(over[-1]) + 1 if len(over) else 0
        if mass[first] <= left:
            return 0.0
        return max(0.0, float(losses[first]) + math.log((mass[first] - left) / under_q[first]))


def epsilon(terms: Terms, delta: float) -> float:
    """Return the epsilon of the composition `terms` at `delta`, in the larger direction; it is an upper bound.

    It is infinite if an infinite loss has probability `delta` or more. Without pairs it is 0, or infinite if the
    failure probability of `terms` exceeds `delta`. Raise `OutOfReach` if the losses do not fit a grid.
    """
    if not terms.pairs:
        return 0.0 if terms.failure <= delta else math.inf
    return max(total.epsilon(delta) for total in totals(terms, delta))


def totals(terms: Terms, delta: float) -> list[ComposedLoss]:
    """Return the composition of `terms` in each direction (once if both are equal), tilted for this `delta`.

    With `delta` 1 it is not tilted.
    """
    return [_compose(terms, delta, direction) for direction in terms.directions()]


def profiles(terms: Terms, aims: Sequence[float] = AIMS) -> list[Profile]:
    """Return delta of `terms` as a function of an array of epsilons, for each direction (once if both are equal).

    A tilted composition gives an upper bound everywhere, but a precise one only near its own epsilon. So the smallest
    bound of several tilts counts, one for each delta in `aims`. Raise `OutOfReach` if the losses do not fit a grid.
    """
    if not terms.pairs:
        return [lambda epsilons: np.full(np.shape(epsilons), terms.failure)]
    tilts = [totals(terms, max(aim, 2 * terms.failure)) for aim in aims]
    return [partial(_least, [tilt[i] for tilt in tilts]) for i in range(len(tilts[0]))]


def _least(tilts: Sequence[ComposedLoss], epsilons: Array) -> Array:
    return np.min([total.delta(epsilons) for total in tilts], axis=0)  # type: ignore[no-any-return]


def _compose(terms: Terms, delta: float, direction: str) -> ComposedLoss:
    widths = _widths(terms)
    grids = [(discretise(pair, direction, width), count) for (pair, count), width in zip(terms.pairs, widths)]
    theta = _tilt(terms, grids, delta)
    log_mgf = sum(count * grid.log_mgf(theta) for grid, count in grids)
    survive = terms.survive + sum(n * math.log1p(-grid.infinite) for grid, n in grids)
    powers = [_power(grid, count, theta) for grid, count in grids]
    grid = powers[0][0] if len(powers) == 1 else _product([g for g, _ in powers], grids, theta)
    cut = sum(loss for _, loss in powers) + math.exp(-_TAIL)
    peak = log_mgf - theta * grid.losses()[0]
    # The mass that the windows cut off above, relative to the tilted distribution, counts as an infinite loss.
    lost = cut * math.exp(min(log_mgf - theta * float(grid.losses()[-1]), 0.0)) if peak < 700 else 0.0
    scale = math.exp(terms.survive)
    return ComposedLoss(
        theta=theta,
        log_mgf=log_mgf + math.log(scale) if scale else -math.inf,
        grid=grid,
        infinite=-math.expm1(survive) + lost,
    )


def _widths(terms: Terms) -> list[float]:
    spreads = [pair.spread() for pair, _ in terms.pairs]
    variance = sum(n * s * s for (_, n), s in zip(terms.pairs, spreads))
    share = variance / len(spreads)
    if any(math.isfinite(pair.pure()) for pair, _ in terms.pairs):
        # Beyond the largest loss of a bounded pair the tail comes from the other pairs, so they need a finer grid.
        share *= 0.01
    out = []
    for (pair, count), spread in zip(terms.pairs, spreads):
        scale = math.sqrt(max(spread**2, share / count))
        fine = min(0.04, 0.02 * math.sqrt(count))
        if isinstance(pair, TabulatedPair):  # its profile may have a kink, which a coarse grid would miss
            fine /= 8
        width = max(min(scale * fine, _COARSEST), largest(pair) / _POINTS)
        top = pair.pure()
        # The largest loss of Laplace noise or randomised response is an atom, so put it on the grid.
        out.append(top / math.ceil(top / width) if math.isfinite(top) else width)
    return out


def _tilt(terms: Terms, grids: Sequence[tuple[Grid, int]], delta: float) -> float:
    """Return the theta of the best Chernoff bound on epsilon at `delta`.

    It centres the tilted distribution at epsilon. `grids` are the untilted losses of the single releases of `terms`,
    with their numbers of repetitions. The result is at most 2 divided by the smallest grid width.
    """

    def curve(theta: float) -> float:
        return sum(count * grid.log_mgf(theta) for grid, count in grids)

    variance = sum(n * pair.spread() ** 2 for pair, n in terms.pairs)
    best = saddle(curve, lambda t, k: bound_on_epsilon(t, k, delta), guess(variance, delta))
    # With bounded losses only, the saddle may be at infinity; a tilt beyond the grid's resolution gains nothing.
    return min(best, 2 / min(grid.width for grid, _ in grids))


def _window(curve: Callable[[float], float], theta: float, spread: float) -> tuple[float, float]:
    """Return losses (low, high): the tilted mass is at most `exp(-_TAIL)` below `low`, and as little above `high`.

    `curve(t)` is the log moment generating function of the loss before tilting by `theta`, and `spread` the standard
    deviation after it. Chernoff's bound at several orders gives the losses.
    """
    here = curve(theta)
    steps = [c / spread for c in (2.0, 4.0, 8.0, 16.0)] + [theta / 2, theta, 4 * theta]
    high = min((curve(theta + s) - here + _TAIL) / s for s in steps)
    low = max((here - curve(theta - s) - _TAIL) / s for s in [*steps, theta + 1] if s <= theta + 1)
    return low, high


def _power(grid: Grid, count: int, theta: float) -> tuple[Grid, float]:
    """Return the composition of `count` losses of `grid`, and a bound on the mass that is cut off.

    The composition is the distribution of the sum of `count` independent losses, tilted by `theta`; `grid` itself is
    not tilted. It is cut off outside a window: the tilted mass below the window is at most `exp(-_TAIL)`, and so is the
    tilted mass above the window. The returned bound is for the tilted mass above the window only. With `count` 1
    nothing is cut off, and the bound is 0. Raise `OutOfReach` if the window has more than 2^24 grid points.
    """
    base = grid.tilted(theta)
    if count == 1:
        return base, 0.0
    spread = math.sqrt(max(count * base.variance(), grid.width**2))
    low, high = _window(lambda t: count * grid.log_mgf(t), theta, spread)
    first = max(math.floor(low / grid.width), count * grid.low)
    last = min(math.ceil(high / grid.width), count * (grid.low + len(grid.probs) - 1))
    size = max(last - first + 1, 1)
    if size > 1 << 24:
        raise OutOfReach
    from scipy import fft

    length = fft.next_fast_len(size, real=True)
    folded = np.bincount(np.arange(len(base.probs)) % length, weights=base.probs, minlength=length)
    wrapped = fft.irfft(_to_the(fft.rfft(folded), count), length)
    start = (first - count * grid.low) % length
    probs = np.maximum(np.roll(wrapped, -start)[:size], 0.0)
    return Grid(width=grid.width, low=first, probs=probs), math.exp(-_TAIL)


def _to_the(values: Array, count: int) -> Array:
    """Return `values ** count` by repeated squaring, which is faster than logarithms and as precise."""
    power = values.copy()
    for bit in bin(count)[3:]:
        power *= power
        if bit == "1":
            power *= values
    return power


def _product(powers: Sequence[Grid], grids: Sequence[tuple[Grid, int]], theta: float) -> Grid:
    """Return the convolution of `powers`, grids of different widths that are tilted by `theta`, on a common grid.

    `grids` are the same releases before tilting and repetition, with their numbers of repetitions. The result is tilted
    in the same way, and covers a window: the tilted mass below it is at most `exp(-_TAIL)`, and so is the tilted mass
    above it. Raise `OutOfReach` if it would have too many points.
    """
    from scipy import fft

    span = sum(grid.width * len(grid.probs) for grid in powers)
    # A few bounded losses with a strong tilt may all be at their largest value, without any spread.
    spread = max(math.sqrt(sum(grid.variance() for grid in powers)), span / 200)
    low, high = _window(lambda t: sum(count * grid.log_mgf(t) for grid, count in grids), theta, spread)
    low = max(low, sum(float(grid.losses()[0]) for grid in powers))
    high = min(high, sum(float(grid.losses()[-1]) for grid in powers))
    width = spread / 2000
    first, size = math.floor(low / width), math.ceil((high - low) / width) + len(powers) + 2
    if size > 1 << 24:
        raise OutOfReach
    length = fft.next_fast_len(size, real=True)
    spectrum: Array = np.ones(length // 2 + 1, dtype=complex)
    start = 0
    for power in powers:
        grid = moved(power.losses(), power.probs, width, theta)
        place = np.arange(len(grid.probs)) % length
        spectrum *= fft.rfft(np.bincount(place, weights=grid.probs, minlength=length))
        start += grid.low
    wrapped = np.roll(fft.irfft(spectrum, length), start - first)
    return Grid(width=width, low=first, probs=np.maximum(wrapped[:size], 0.0))


def reachable(terms: Terms) -> bool:
    """Return whether the losses of every single release of `terms` fit into floating point, without computing them."""
    return all(largest(pair) <= 690 for pair, _ in terms.pairs)
