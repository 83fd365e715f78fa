"""Discretise the losses of one release on a grid, with the library `dp_accounting`. Only this file imports it.

Losses are rounded to the grid by "connecting the dots", which gives an upper bound on delta at every epsilon. The
library ignores the number of repetitions of randomised response. So it is never given repetitions, and `_pld.py`
composes them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from privaware.accounting._pairs import (
    Array,
    CappedGaussian,
    DominatingPair,
    GaussianPair,
    ResponsePair,
    SampledGaussian,
    SampledLaplace,
    TabulatedPair,
)
from privaware.accounting._quadrature import Profile


class OutOfReach(Exception):
    """Raised if a distribution does not fit into floating point; the caller then uses Rényi divergences."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A distribution of losses: `probs[i]` is the probability of the loss `(low + i) * width`.

    `infinite` is the probability of an infinite loss.
    """

    width: float
    low: int
    probs: Array
    infinite: float = 0.0

    def losses(self) -> Array:
        return self.width * (self.low + np.arange(len(self.probs)))

    @cached_property
    def atoms(self) -> tuple[Array, Array]:
        """The losses with positive probability, and their probabilities; a bounded loss on a fine grid has few."""
        at = np.flatnonzero(self.probs)
        return self.width * (self.low + at), self.probs[at]

    def log_mgf(self, theta: float) -> float:
        losses, probs = self.atoms
        exponent = theta * losses
        top = float(exponent.max())
        return top + math.log(float(np.exp(exponent - top) @ probs))

    def tilted(self, theta: float) -> Grid:
        exponent = theta * self.losses()
        probs = self.probs * np.exp(exponent - exponent.max())
        return Grid(width=self.width, low=self.low, probs=probs / probs.sum())

    def variance(self) -> float:
        losses = self.losses()
        return float((losses - losses @ self.probs) ** 2 @ self.probs)


@lru_cache(maxsize=512)
def discretise(pair: DominatingPair, direction: str, width: float) -> Grid:
    """Return the loss distribution of `pair` in the `direction` "remove" or "add", on a grid of step `width`.

    Raise `OutOfReach` if a loss is too large or the grid too long.
    """
    match pair:
        case GaussianPair() | SampledGaussian():
            return _dots(*_described(pair, direction), width)
        case CappedGaussian():
            overflow, pushed, usual = pair.parts()
            if overflow == 0:
                return discretise(usual, direction, width)
            return _mixed(overflow, discretise(pushed, direction, width), discretise(usual, direction, width))
        case SampledLaplace():
            return _laplace(pair, direction, width)
        case ResponsePair() | TabulatedPair():
            losses, probs = pair.table(direction)
            order = np.argsort(losses)
            grid = moved(losses[order], probs[order], width)
            return _trimmed(width, grid.low, grid.probs)
    raise OutOfReach


def largest(pair: DominatingPair) -> float:
    """Return the largest loss of the pair in either direction, or a loss exceeded with a probability below 1e-22."""
    if isinstance(pair, GaussianPair):
        return pair.mu * (pair.mu / 2 + 10)
    if isinstance(pair, (SampledGaussian, CappedGaussian)):
        group = getattr(pair, "group", 1) * (2 if pair.replace or isinstance(pair, CappedGaussian) else 1)
        return float(group * (group + 10 * pair.noise) / pair.noise**2)
    return pair.pure()


def moved(losses: Array, probs: Array, width: float, theta: float = 0.0) -> Grid:
    """Return a `Grid` of step `width` to which ascending `losses` with probabilities `probs` are moved.

    A loss is split between the two nearest multiples of `width` so that both its mass under P (p) and its mass under Q
    (p * exp(-loss)) stay the same ("connecting the dots"). If `probs` are tilted by `exp(theta * loss)`, so is the
    result.
    """
    below = np.floor(losses / width)
    rest = losses - below * width
    upper = -np.expm1(-rest) / -math.expm1(-width)
    low = int(below[0])
    size = int(below[-1]) - low + 2
    index = (below - low).astype(np.int64)
    on_grid = np.bincount(index, weights=probs * (1 - upper) * np.exp(-theta * rest), minlength=size)
    on_grid += np.bincount(index + 1, weights=probs * upper * np.exp(theta * (width - rest)), minlength=size)
    return Grid(width=width, low=low, probs=on_grid)


def _described(pair: GaussianPair | SampledGaussian, direction: str) -> tuple[Any, Profile]:
    """Return the description of the pair by `dp_accounting`, and delta as a function of an array of epsilons.

    `direction` is "remove" or "add"; it has no effect if neighbours differ by replacing a row. Raise `OutOfReach` if a
    loss is too large.
    """
    from dp_accounting.pld import privacy_loss_mechanism as library

    ways = library.AdjacencyType
    way = {"remove": ways.REMOVE, "add": ways.ADD}[direction]
    match pair:
        case GaussianPair(mu=mu):
            _reachable(mu * (mu / 2 + 10))
            loss = library.GaussianPrivacyLoss(1 / mu, adjacency_type=way)
            return loss, loss.get_delta_for_epsilon
        case SampledGaussian(noise=noise, rate=rate, group=1, replace=False):
            _reachable((1 + 10 * noise) / noise**2)
            loss = library.GaussianPrivacyLoss(noise, sampling_prob=rate, adjacency_type=way)
            return loss, lambda e: _sampled_profile(loss, noise, rate, direction, e)
        case SampledGaussian(noise=noise, rate=rate, replace=True):
            _reachable((1 + 10 * noise) / noise**2 * 2)
            loss = library.GaussianPrivacyLoss(noise, sampling_prob=rate, adjacency_type=ways.REPLACE)
            return loss, lambda e: _sampled_profile(loss, noise, rate, "replace", e)
        case SampledGaussian(noise=noise, group=group):
            _reachable(group * (group + 10 * noise) / noise**2)
            loss = library.MixtureGaussianPrivacyLoss(
                noise, list(range(group + 1)), pair.weights().tolist(), adjacency_type=way
            )
            return loss, _grouped_profile(loss, pair, direction)


def _reachable(largest: float) -> None:
    if largest > 700:
        raise OutOfReach


def _sampled_profile(loss: Any, noise: float, rate: float, direction: str, epsilons: Array) -> Array:
    """Return the delta of a sampled Gaussian at `epsilons`, from its description `loss` by `dp_accounting`.

    `noise` is the noise multiplier, and `rate` the sampling rate. `direction` is "remove", "add" or "replace". The loss
    is inverted for all epsilons at once.
    """
    sign = -1.0 if direction == "add" else 1.0
    if direction == "replace":
        # With u = exp(x/s^2) the loss equals e where u - exp(e)/u has a known value, which arcsinh solves.
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


def _grouped_profile(loss: Any, pair: SampledGaussian, direction: str) -> Profile:
    """Return delta as a function of an array of epsilons, for a unit of several rows.

    `loss` is the description of `pair` by `dp_accounting` in this `direction`, "remove" or "add". A table inverts the
    loss.
    """
    reach = 40 * pair.noise + pair.group
    x = np.linspace(-reach, reach, 400_001)
    losses = pair.curves(x, "remove")[1]

    def deltas(e: Array) -> Array:
        # The cut only has to be near the best one, because delta is flat there.
        where = np.interp(e if direction == "remove" else -e, losses, x)
        cut = -where if direction == "remove" else where
        value = loss.mu_upper_cdf(cut) - np.exp(e + loss.mu_lower_log_cdf(cut))
        return np.clip(np.maximum(value, -np.expm1(e)), 0.0, 1.0)  # type: ignore[no-any-return]

    return deltas


def _laplace(pair: SampledLaplace, direction: str, width: float) -> Grid:
    from dp_accounting.pld import privacy_loss_distribution as library

    _reachable(1 / pair.noise)
    pld = library.from_laplace_mechanism(pair.noise, value_discretization_interval=width, sampling_prob=pair.rate)
    pmf = (pld._pmf_remove if direction == "remove" else pld._pmf_add).to_dense_pmf()
    return _trimmed(width, int(pmf._lower_loss), pmf._probs, float(pmf._infinity_mass))


def _dots(loss: Any, profile: Profile, width: float) -> Grid:
    """Discretise a profile delta(epsilon) by connecting the dots: straight lines in e^epsilon between grid points.

    `loss` is the privacy loss of the same release as an object of `dp_accounting`, which suggests the ends of the grid.
    The grid has steps of `width` in epsilon. The lines are never below the profile. The change of slope at a grid point
    gives the probability of that loss (Doroshenko et al. 2022). Raise `OutOfReach` if the grid would have more than
    2^23 steps, or if the probabilities are lost in rounding errors.
    """
    ends = loss.connect_dots_bounds()
    width_low, width_high = ends.epsilon_lower / width, ends.epsilon_upper / width
    if width_high - width_low > 1 << 23 or max(abs(width_low), abs(width_high)) > 1 << 60:
        raise OutOfReach
    low, high = math.floor(width_low), math.ceil(width_high)
    deltas = np.minimum.accumulate(profile(width * np.arange(low, high + 1)))
    rise = np.diff(deltas)
    grow = math.expm1(width)
    probs = np.append(1 - deltas[0], -rise * (1 + grow) / grow) + np.append(rise / grow, 0.0)
    grid = _trimmed(width, low, np.maximum(probs, 0.0), float(deltas[-1]))
    return _balanced(grid, (1 - float(deltas[0])) * math.exp(-width * low))


def _balanced(grid: Grid, under_q: float) -> Grid:
    """Return `grid` with its total masses under P and Q corrected.

    Rounding changes them by parts in 1e10, which 1e8 repetitions would amplify. `under_q` is the correct mass under Q.
    If a mass is wrong by more than 1e-6, `grid` is returned unchanged, and the comparison of the accountants detects
    the error. Raise `OutOfReach` if the mass of P is wrong by more than 0.01.
    """
    losses, p = grid.losses(), grid.probs
    q = p * np.exp(-losses)
    system = np.array([[p.sum(), p @ losses], [q.sum(), q @ losses]])
    missing = np.array([1 - grid.infinite - system[0, 0], under_q - system[1, 0]])
    if abs(missing[0]) > 0.01:  # losses so small that only rounding errors of the profile remain
        raise OutOfReach
    if abs(missing).max() > 1e-6:  # more than rounding: the comparison of the accountants will detect it
        return grid
    try:
        shift, slope = np.linalg.solve(system, missing)
    except np.linalg.LinAlgError:  # all the mass at one loss
        return grid
    factor = 1 + shift + slope * losses
    return Grid(width=grid.width, low=grid.low, probs=np.maximum(p * factor, 0.0), infinite=grid.infinite)


def _mixed(weight: float, a: Grid, b: Grid) -> Grid:
    low = min(a.low, b.low)
    high = max(a.low + len(a.probs), b.low + len(b.probs))
    probs = np.zeros(high - low)
    probs[a.low - low : a.low - low + len(a.probs)] += weight * a.probs
    probs[b.low - low : b.low - low + len(b.probs)] += (1 - weight) * b.probs
    infinite = weight * a.infinite + (1 - weight) * b.infinite
    return Grid(width=a.width, low=low, probs=probs, infinite=infinite)


def _trimmed(width: float, low: int, probs: Array, infinite: float = 0.0) -> Grid:
    """Return a grid without empty ends, so that the smallest and the largest loss have positive probabilities.

    `probs[i]` is the probability of the loss `(low + i) * width`, and `infinite` of an infinite loss. Raise
    `OutOfReach` if all of `probs` are 0.
    """
    some = np.flatnonzero(probs > 0)
    if not len(some):
        raise OutOfReach
    probs = probs[some[0] : some[-1] + 1]
    return Grid(width=width, low=low + int(some[0]), probs=probs, infinite=infinite)
