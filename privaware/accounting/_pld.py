"""Privacy loss distributions: what is reported. The only file that imports the accounting library.

The library describes each release and bounds its losses; on a grid they are rounded by "connecting the dots", which is
never below the truth: an upper bound at every epsilon. Composition, a convolution, is done here, because three things
go wrong in the usual way of doing it:

* Rounding errors of a Fourier transform are relative to the largest entry, but delta lives in a tail of 1e-5 or 1e-9.
  So the distribution is first *tilted*, multiplied by exp(theta l) and normalised: the tail of interest becomes the
  bulk, the window that must be kept shrinks to a few standard deviations around epsilon, and noise stays relative to
  delta.
* One grid does not fit all. Dots `d` apart add a variance of about d^2/6 to each step, so `d` has to follow the spread
  of a single step (a twenty-fifth of it costs 0.02 %); 1e-4 for every release is 7 % off for small rates. But a grid
  fit for one of 300,000 steps is far too fine for a Laplace release beside them. So each kind of release is composed
  with itself on its own grid, and the results are moved to a common one, again by connecting the dots, again never
  below the truth.
* The library forgets the number of repetitions of randomised response. Repetition is multiplied out here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from privaware.accounting import _cf
from privaware.accounting._laws import (
    Array,
    Capped,
    Law,
    Normal,
    Response,
    SampledLaplace,
    Shifted,
    Table,
)
from privaware.accounting._terms import Terms

Profile = Callable[[Array], Array]
_POINTS = 1 << 21
_TAIL = 34.0  # mass below exp(-34) of what matters is moved to infinity, the safe side


class OutOfReach(Exception):
    """The distribution does not fit into floating point: the caller falls back to Renyi divergences."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Probabilities of the losses (low + i) * width; the rest, `infinite`, is a loss without bound."""

    width: float
    low: int
    probs: Array
    infinite: float = 0.0

    def losses(self) -> Array:
        return self.width * (self.low + np.arange(len(self.probs)))

    def log_mgf(self, theta: float) -> float:
        exponent = theta * self.losses()
        top = float(exponent.max())
        return top + math.log(float(np.exp(exponent - top) @ self.probs))

    def tilted(self, theta: float) -> Grid:
        exponent = theta * self.losses()
        probs = self.probs * np.exp(exponent - exponent.max())
        return Grid(width=self.width, low=self.low, probs=probs / probs.sum())

    def moments(self) -> tuple[float, float]:
        losses = self.losses()
        mean = float(losses @ self.probs)
        return mean, float((losses - mean) ** 2 @ self.probs)


@dataclass(frozen=True, kw_only=True)
class Total:
    """A composition seen through its tilt: P(loss = l) = probs * exp(log_mgf - theta l)."""

    theta: float
    log_mgf: float
    grid: Grid
    infinite: float

    @cached_property
    def sums(self) -> tuple[Array, Array, Array]:
        """Losses; the mass at or above each; and that mass under Q, times exp(loss), which never overflows."""
        from scipy import signal

        losses, tilted = self.grid.losses(), self.grid.probs
        # Far below epsilon only rounding noise is left to blow up; a probability is at most 1.
        logs = np.log(np.maximum(tilted, 1e-300)) + self.log_mgf - self.theta * losses
        probs = np.where(tilted > 0, np.exp(np.minimum(logs, 0.0)), 0.0)
        mass = np.cumsum(probs[::-1])[::-1]
        shrink = math.exp(-self.grid.width)
        under_q = signal.lfilter([1.0], [1.0, -shrink], probs[::-1])[::-1]
        return losses, mass, under_q

    def delta(self, epsilons: Array) -> Array:
        losses, mass, under_q = self.sums
        at = np.searchsorted(losses, epsilons)
        inside = at < len(losses)
        at = np.minimum(at, len(losses) - 1)
        drop = np.minimum(epsilons - losses[at], 700.0)
        value = np.where(inside, mass[at] - np.exp(drop) * under_q[at], 0.0)
        return np.clip(self.infinite + np.maximum(value, 0.0), 0.0, 1.0)  # type: ignore[no-any-return]

    def epsilon(self, delta: float) -> float:
        """Solves delta(epsilon) = delta exactly on the piece between two grid points where it lies."""
        left = delta - self.infinite
        if left <= 0:
            return math.inf
        losses, mass, under_q = self.sums
        # At epsilon = losses[i] the terms above i count; the first i, from the right, with too large a delta:
        at = np.append(mass[1:] - math.exp(-self.grid.width) * under_q[1:], 0.0)
        over = np.flatnonzero(at > left)
        first = int(over[-1]) + 1 if len(over) else 0
        if mass[first] <= left:
            return 0.0
        return max(0.0, float(losses[first]) + math.log((mass[first] - left) / under_q[first]))


def epsilon(terms: Terms, delta: float) -> float:
    """The epsilon of the composition, the larger direction; an upper bound up to rounding."""
    if not terms.laws:
        return 0.0 if terms.failure <= delta else math.inf
    return max(total.epsilon(delta) for total in totals(terms, delta))


def totals(terms: Terms, delta: float) -> list[Total]:
    """Both directions, tilted for this delta; with delta 1 not tilted at all."""
    return [_compose(terms, delta, direction) for direction in terms.directions()]


def profile(terms: Terms, aims: Sequence[float] = (0.5, 1e-2, 1e-4, 1e-7, 1e-11)) -> Profile:
    """delta as a function of an array of epsilons, the larger direction.

    A tilt is right everywhere but precise only near its own epsilon; every one gives an upper bound, so the least
    counts.
    """
    if not terms.laws:
        return lambda epsilons: np.full(np.shape(epsilons), terms.failure)
    tilts = [totals(terms, max(aim, 2 * terms.failure)) for aim in aims]

    def deltas(epsilons: Array) -> Array:
        both = [np.max([total.delta(epsilons) for total in tilt], axis=0) for tilt in tilts]
        return np.min(both, axis=0)  # type: ignore[no-any-return]

    return deltas


def _compose(terms: Terms, delta: float, direction: str) -> Total:
    widths = _widths(terms)
    grids = [
        (_discretise(law, direction, width), count)
        for (law, count), width in zip(terms.laws, widths)
    ]
    theta = _tilt(terms, grids, delta)
    log_mgf = sum(count * grid.log_mgf(theta) for grid, count in grids)
    survive = terms.survive + sum(n * math.log1p(-grid.infinite) for grid, n in grids)
    powers = [_power(grid, count, theta) for grid, count in grids]
    grid = powers[0][0] if len(powers) == 1 else _product([g for g, _ in powers], grids, theta)
    cut = sum(loss for _, loss in powers) + math.exp(-_TAIL)
    peak = log_mgf - theta * grid.losses()[0]
    # What the windows cut off above, relative to the tilted law, is counted as infinite.
    lost = (
        cut * math.exp(min(log_mgf - theta * float(grid.losses()[-1]), 0.0)) if peak < 700 else 0.0
    )
    scale = math.exp(terms.survive)
    return Total(
        theta=theta,
        log_mgf=log_mgf + math.log(scale) if scale else -math.inf,
        grid=grid,
        infinite=-math.expm1(survive) + lost,
    )


def _widths(terms: Terms) -> list[float]:
    spreads = [law.spread() for law, _ in terms.laws]
    variance = sum(n * s * s for (_, n), s in zip(terms.laws, spreads))
    share = variance / len(spreads)
    if any(math.isfinite(law.pure()) for law, _ in terms.laws):
        # Past the largest loss of a bounded law the tail is the others' alone, so their grid must be theirs.
        share *= 0.01
    out = []
    for (law, count), spread in zip(terms.laws, spreads):
        scale = math.sqrt(max(spread**2, share / count))
        width = max(scale * min(0.04, 0.02 * math.sqrt(count)), _largest(law) / _POINTS)
        top = law.pure()
        # The largest loss of Laplace noise or a response has probability of its own: put it on the grid.
        out.append(top / math.ceil(top / width) if math.isfinite(top) else width)
    return out


def _tilt(terms: Terms, grids: Sequence[tuple[Grid, int]], delta: float) -> float:
    """The theta of the best Chernoff bound on epsilon: there the tilted law sits at epsilon."""

    def curve(theta: float) -> float:
        return sum(count * grid.log_mgf(theta) for grid, count in grids)

    guess = _cf.guess(terms, delta)
    best = _cf.saddle(curve, lambda t, k: _cf.bound_on_epsilon(t, k, delta), guess)
    # Bounded losses alone send the saddle to infinity; there a tilt finer than the grid says nothing more.
    return min(best, 2 / min(grid.width for grid, _ in grids))


def _window(curve: Callable[[float], float], theta: float, spread: float) -> tuple[float, float]:
    """Losses outside have tilted mass below exp(-_TAIL) on each side, by Chernoff's bound at several orders."""
    here = curve(theta)
    steps = [c / spread for c in (2.0, 4.0, 8.0, 16.0)] + [theta / 2, theta, 4 * theta]
    high = min((curve(theta + s) - here + _TAIL) / s for s in steps)
    low = max((here - curve(theta - s) - _TAIL) / s for s in [*steps, theta + 1] if s <= theta + 1)
    return low, high


def _power(grid: Grid, count: int, theta: float) -> tuple[Grid, float]:
    """The tilted grid composed with itself, and the tilted mass that its window may have lost."""
    base = grid.tilted(theta)
    if count == 1:
        return base, 0.0
    variance = base.moments()[1]
    spread = math.sqrt(max(count * variance, grid.width**2))
    low, high = _window(lambda t: count * grid.log_mgf(t), theta, spread)
    first = max(math.floor(low / grid.width), count * grid.low)
    last = min(math.ceil(high / grid.width), count * (grid.low + len(grid.probs) - 1))
    size = max(last - first + 1, 1)
    if size > 1 << 24:
        raise OutOfReach
    from scipy import fft

    length = fft.next_fast_len(size, real=True)
    folded = np.bincount(np.arange(len(base.probs)) % length, weights=base.probs, minlength=length)
    spectrum = fft.rfft(folded)
    with np.errstate(divide="ignore"):
        spectrum = np.exp(count * np.log(spectrum))
    wrapped = fft.irfft(spectrum, length)
    start = (first - count * grid.low) % length
    probs = np.maximum(np.roll(wrapped, -start)[:size], 0.0)
    return Grid(width=grid.width, low=first, probs=probs), math.exp(-_TAIL)


def _product(powers: Sequence[Grid], grids: Sequence[tuple[Grid, int]], theta: float) -> Grid:
    """The convolution of tilted grids of different widths, on a common one: one transform each, in the window of the
    sum.
    """
    from scipy import fft

    span = sum(grid.width * len(grid.probs) for grid in powers)
    # A few bounded losses, tilted far, may all sit at their largest value: no spread at all.
    spread = max(math.sqrt(sum(grid.moments()[1] for grid in powers)), span / 200)
    low, high = _window(
        lambda t: sum(count * grid.log_mgf(t) for grid, count in grids), theta, spread
    )
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
        grid = _regrid(power, width, theta)
        place = np.arange(len(grid.probs)) % length
        spectrum *= fft.rfft(np.bincount(place, weights=grid.probs, minlength=length))
        start += grid.low
    wrapped = np.roll(fft.irfft(spectrum, length), start - first)
    return Grid(width=width, low=first, probs=np.maximum(wrapped[:size], 0.0))


def _regrid(grid: Grid, width: float, theta: float) -> Grid:
    """Moves tilted mass to multiples of `width` so that both P and Q keep theirs: connecting the dots once more."""
    losses = grid.losses()
    below = np.floor(losses / width)
    rest = losses - below * width
    upper = -np.expm1(-rest) / -math.expm1(-width)
    low = int(below[0])
    size = int(below[-1]) - low + 2
    index = (below - low).astype(np.int64)
    probs = np.bincount(
        index, weights=grid.probs * (1 - upper) * np.exp(-theta * rest), minlength=size
    )
    probs += np.bincount(
        index + 1, weights=grid.probs * upper * np.exp(theta * (width - rest)), minlength=size
    )
    return Grid(width=width, low=low, probs=probs)


@lru_cache(maxsize=512)
def _discretise(law: Law, direction: str, width: float) -> Grid:
    """The law on a grid, in one direction, from the library's description of the pair."""
    from dp_accounting.pld import privacy_loss_distribution as library
    from dp_accounting.pld import privacy_loss_mechanism as mechanisms

    way = {"remove": mechanisms.AdjacencyType.REMOVE, "add": mechanisms.AdjacencyType.ADD}[
        direction
    ]
    match law:
        case Normal(mu=mu):
            _reachable(mu * (mu / 2 + 10))
            loss = mechanisms.GaussianPrivacyLoss(1 / mu, adjacency_type=way)
            return _dots(loss, width, lambda e: loss.get_delta_for_epsilon(e))
        case Shifted(noise=noise, rate=rate, group=1, replace=False):
            _reachable((1 + 10 * noise) / noise**2)
            loss = mechanisms.GaussianPrivacyLoss(noise, sampling_prob=rate, adjacency_type=way)
            return _dots(loss, width, lambda e: _sampled_profile(loss, noise, rate, direction, e))
        case Shifted(noise=noise, rate=rate, replace=True):
            _reachable((1 + 10 * noise) / noise**2 * 2)
            loss = mechanisms.GaussianPrivacyLoss(
                noise, sampling_prob=rate, adjacency_type=mechanisms.AdjacencyType.REPLACE
            )
            return _dots(loss, width, lambda e: _sampled_profile(loss, noise, rate, "replace", e))
        case Shifted(noise=noise, group=group):
            _reachable(group * (group + 10 * noise) / noise**2)
            loss = mechanisms.MixtureGaussianPrivacyLoss(
                noise, list(range(group + 1)), law.weights().tolist(), adjacency_type=way
            )
            x = np.linspace(-group - 40 * noise, 40 * noise + group, 400_001)
            losses = law.curves(x, "remove")[1]

            def grouped(e: Array) -> Array:
                # The cut only has to be near the best one, where delta is flat.
                where = np.interp(e if direction == "remove" else -e, losses, x)
                cut = -where if direction == "remove" else where
                value = loss.mu_upper_cdf(cut) - np.exp(e + loss.mu_lower_log_cdf(cut))
                return np.clip(np.maximum(value, -np.expm1(e)), 0.0, 1.0)  # type: ignore[no-any-return]

            return _dots(loss, width, grouped)
        case Capped():
            overflow, pushed, usual = law.parts()
            if overflow == 0:
                return _discretise(usual, direction, width)
            return _mixed(
                overflow,
                _discretise(pushed, direction, width),
                _discretise(usual, direction, width),
            )
        case SampledLaplace(noise=noise, rate=rate):
            _reachable(1 / noise)
            pld = library.from_laplace_mechanism(
                noise, value_discretization_interval=width, sampling_prob=rate
            )
            pmf = (pld._pmf_remove if direction == "remove" else pld._pmf_add).to_dense_pmf()
            return _trimmed(width, int(pmf._lower_loss), pmf._probs, float(pmf._infinity_mass))
        case Response() | Table():
            return _from_table(*law.table(direction), width)
    raise OutOfReach


def reachable(terms: Terms) -> bool:
    """Whether the losses of single steps fit into floating point, known without building anything."""
    return all(_largest(law) <= 690 for law, _ in terms.laws)


def _largest(law: Law) -> float:
    """A loss beyond which the law has no mass to speak of."""
    if isinstance(law, Normal):
        return law.mu * (law.mu / 2 + 10)
    if isinstance(law, (Shifted, Capped)):
        group = getattr(law, "group", 1) * (2 if law.replace or isinstance(law, Capped) else 1)
        return float(group * (group + 10 * law.noise) / law.noise**2)
    return law.pure()


def _reachable(largest: float) -> None:
    if largest > 700:
        raise OutOfReach


def _dots(loss: Any, width: float, profile: Callable[[Array], Array]) -> Grid:
    """Connects the dots of a profile delta(epsilon): straight lines in e^epsilon between them, never below it.

    Doroshenko et al. 2022. The kink of the lines at a grid point is the probability of that loss.
    """
    ends = loss.connect_dots_bounds()
    width_low, width_high = ends.epsilon_lower / width, ends.epsilon_upper / width
    if width_high - width_low > 1 << 23:
        raise OutOfReach
    low, high = math.floor(width_low), math.ceil(width_high)
    deltas = np.minimum.accumulate(profile(width * np.arange(low, high + 1)))
    rise = np.diff(deltas)
    grow = math.expm1(width)
    probs = np.append(1 - deltas[0], -rise * (1 + grow) / grow) + np.append(rise / grow, 0.0)
    grid = _trimmed(width, low, np.maximum(probs, 0.0), float(deltas[-1]))
    return _balanced(grid, (1 - float(deltas[0])) * math.exp(-width * low))


def _balanced(grid: Grid, under_q: float) -> Grid:
    """Gives P and Q back the masses that rounding took: parts in 1e10, but a hundred million steps would see them."""
    losses, p = grid.losses(), grid.probs
    q = p * np.exp(-losses)
    system = np.array([[p.sum(), p @ losses], [q.sum(), q @ losses]])
    missing = np.array([1 - grid.infinite - system[0, 0], under_q - system[1, 0]])
    if abs(missing).max() > 1e-6:  # not rounding: leave it to the accountants to disagree
        return grid
    shift, slope = np.linalg.solve(system, missing)
    factor = 1 + shift + slope * losses
    return Grid(
        width=grid.width, low=grid.low, probs=np.maximum(p * factor, 0.0), infinite=grid.infinite
    )


def _sampled_profile(
    loss: Any, noise: float, rate: float, direction: str, epsilons: Array
) -> Array:
    """The library's delta of a sampled Gaussian, its inversion of the loss done for all epsilons at once."""
    sign = -1.0 if direction == "add" else 1.0
    if direction == "replace":
        # With u = e^{x/s^2} the loss equals e where u - e^e/u is a given number: a hyperbolic sine.
        steep = (1 - rate) / rate * math.exp(1 / (2 * noise**2))
        inner = epsilons / 2 + np.arcsinh(steep * np.sinh(epsilons / 2))
        cut = -(noise**2) * inner
        some = np.isfinite(cut)
    else:
        with np.errstate(invalid="ignore", divide="ignore"):
            inner = sign * np.log1p(np.expm1(sign * epsilons) / rate)
        some = np.isfinite(inner)
        cut = -(noise**2) * inner - 0.5 * sign
    deltas = np.where(epsilons < 0, -np.expm1(epsilons), 0.0) if sign > 0 else 0.0 * epsilons
    upper, lower = loss.mu_upper_cdf(cut[some]), loss.mu_lower_log_cdf(cut[some])
    deltas[some] = np.clip(upper - np.exp(epsilons[some] + lower), 0.0, 1.0)
    return deltas


def _mixed(weight: float, a: Grid, b: Grid) -> Grid:
    low = min(a.low, b.low)
    high = max(a.low + len(a.probs), b.low + len(b.probs))
    probs = np.zeros(high - low)
    probs[a.low - low : a.low - low + len(a.probs)] += weight * a.probs
    probs[b.low - low : b.low - low + len(b.probs)] += (1 - weight) * b.probs
    infinite = weight * a.infinite + (1 - weight) * b.infinite
    return Grid(width=a.width, low=low, probs=probs, infinite=infinite)


def _trimmed(width: float, low: int, probs: Array, infinite: float = 0.0) -> Grid:
    """Without empty ends, so that the largest loss has a probability at every tilt."""
    some = np.flatnonzero(probs > 0)
    if not len(some):
        raise OutOfReach
    probs = probs[some[0] : some[-1] + 1]
    return Grid(width=width, low=low + int(some[0]), probs=probs, infinite=infinite)


def _from_table(losses: Array, probs: Array, width: float) -> Grid:
    order = np.argsort(losses)
    losses, probs = losses[order], probs[order]
    below = np.floor(losses / width)
    upper = -np.expm1(-(losses - below * width)) / -math.expm1(-width)
    low = int(below[0])
    index = (below - low).astype(np.int64)
    size = int(index[-1]) + 2
    out = np.bincount(index, weights=probs * (1 - upper), minlength=size)
    out += np.bincount(index + 1, weights=probs * upper, minlength=size)
    return _trimmed(width, low, out)
