"""Dominating pairs of single releases, for the PLD and the RDP accountant.

A dominating pair (P, Q) of one-dimensional distributions is at least as far apart as a release on any neighbouring
data. An accountant only needs the distribution of the privacy loss l = ln(P/Q) under P. Composition adds independent
losses. A `DominatingPair` knows the logarithm K(z) = ln E_P[exp(z l)] of its moment generating function. `_grid.py`
discretises the same pairs. The CF accountant has its own losses, in `_cf_losses.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np

from privaware.accounting._quadrature import Array, log_mgf
from privaware.events import Event

__all__ = [
    "DIRECTIONS",
    "Array",
    "CappedGaussian",
    "DominatingPair",
    "GaussianPair",
    "ResponsePair",
    "SampledLaplace",
    "SampledGaussian",
    "TabulatedPair",
    "sample",
]

DIRECTIONS = ("remove", "add")
"""Directions of a loss: a row is removed, or added."""


class DominatingPair:
    """A dominating pair (P, Q) of one release, in both directions. A `symmetric` pair is the same in both."""

    symmetric = True

    def log_mgf(self, z: Array, direction: str) -> Array:
        """Return K(z) = ln E_P[exp(z l)] for each entry of the array z, where l = ln(P/Q) is the privacy loss.

        P is the distribution with the row if `direction` is "remove", and without it if `direction` is "add". z may be
        real or complex. All entries of z must have the same real part.
        """
        raise AssertionError(type(self).__name__)

    def spread(self) -> float:
        """Return the standard deviation of the loss, the larger of both directions, from `log_mgf` near 0."""
        return _spread(self)

    def pure(self) -> float:
        """Return the largest possible loss."""
        return math.inf

    def largest_shift(self) -> float | None:
        """Return the largest distance, in standard deviations, of two Gaussians in P and Q; None without Gaussians.

        Divergences are jointly quasi-convex, so two Gaussians at this distance dominate the pair.
        """
        return None


@dataclass(frozen=True, kw_only=True)
class GaussianPair(DominatingPair):
    """The pair of any number of adaptive Gaussian releases: one Gaussian of sensitivity `mu` with noise 1."""

    mu: float

    def log_mgf(self, z: Array, direction: str) -> Array:
        return self.mu**2 / 2 * (z + z * z)

    def spread(self) -> float:
        return self.mu

    def largest_shift(self) -> float:
        return self.mu


@dataclass(frozen=True, kw_only=True)
class SampledGaussian(DominatingPair):
    """The pair of a sampled Gaussian: P = sum_j w_j N(j, noise^2), w = Binomial(group, rate), and Q = N(0, noise^2).

    The `group` rows of a unit are sampled independently. This pair dominates because:

    1. Let the sampled rows S of the unit sum to a vector c_S with |c_S| <= |S|. The density ratio under Q is
       sum_S w_S exp(X_S - Var X_S / 2), where the X_S = <c_S, y>/noise^2 are jointly Gaussian.
    2. Cov(X_S, X_R) = <c_S, c_R>/noise^2 <= |S| |R|/noise^2, which is the covariance in the pair above.
    3. By Kahane's inequality the expectation of any convex function of the ratio grows with the covariances. Both
       directions of every hockey-stick divergence are such expectations.

    With `replace` (group 1 only) and q = rate, P is (1-q) N(0, noise^2) + q N(1, noise^2), and Q is
    (1-q) N(0, noise^2) + q N(-1, noise^2).
    """

    noise: float
    rate: float
    group: int = 1
    replace: bool = False

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        return self.replace

    def log_mgf(self, z: Array, direction: str) -> Array:
        return log_mgf(partial(self.curves, direction=direction), self.noise, self.group, np.asarray(z))

    def largest_shift(self) -> float:
        return self.group * (2 if self.replace else 1) / self.noise

    def weights(self) -> Array:
        """Return the probabilities that 0, 1, ... rows of the unit are in the sample."""
        return _binomial(self.group, self.rate)

    def curves(self, x: Array, direction: str) -> tuple[Array, Array]:
        """Return (a(x), l(x)): the loss is l(x), and P has the density phi(x) exp(a(x)), where phi is N(0, noise^2).

        `direction` is "remove" or "add" (P and Q exchanged); it has no effect with `replace`.
        """
        up = self._log_ratio(x)
        if self.replace:
            return up, up - self._log_ratio(-x)
        return (up, up) if direction == "remove" else (np.zeros_like(x), -up)

    def _log_ratio(self, x: Array) -> Array:
        if self.rate == 1:
            return (2 * self.group * x - self.group**2) / (2 * self.noise**2)
        if self.group == 1:
            u = (2 * x - 1) / (2 * self.noise**2)
            if float(u.max()) < 30:
                return np.log1p(self.rate * np.expm1(u))
            return np.logaddexp(math.log1p(-self.rate), u + math.log(self.rate))  # type: ignore[no-any-return]
        j = np.arange(1, self.group + 1)
        weights = _binomial(self.group, self.rate)
        exponents = (2 * j * x[:, None] - j**2) / (2 * self.noise**2)
        top = np.maximum(exponents.max(axis=1), 0.0)
        if float(top.max()) < 30:  # keeps every digit when the ratio is close to 1
            return np.log1p(np.expm1(exponents) @ weights[1:])  # type: ignore[no-any-return]
        inside = weights[0] * np.exp(-top) + np.exp(exponents - top[:, None]) @ weights[1:]
        return top + np.log(inside)  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class CappedGaussian(DominatingPair):
    """The pair of a Gaussian on a Poisson batch with a largest size, whose surplus rows are dropped at random.

    `noise` is the noise multiplier and `rate` the sampling rate; `replace` says whether neighbours differ by replacing
    a row. The analysis reveals to the adversary whether the batch overflowed. If it did, with probability `overflow`, a
    row pushes another row out: a replacement at twice the sensitivity with rate `pushed`. Otherwise the pair is the
    ordinary sampled Gaussian. `_capped.py` gives the probabilities that cover any number of rows.
    """

    noise: float
    rate: float
    overflow: float
    pushed: float
    replace: bool = False

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        return self.replace

    def parts(self) -> tuple[float, SampledGaussian, SampledGaussian]:
        usual = SampledGaussian(noise=self.noise, rate=self.rate, replace=self.replace)
        if self.overflow == 0:
            return 0.0, usual, usual
        return self.overflow, SampledGaussian(noise=self.noise / 2, rate=self.pushed, replace=True), usual

    def largest_shift(self) -> float:
        return max(part.largest_shift() for part in self.parts()[1:])

    def log_mgf(self, z: Array, direction: str) -> Array:
        overflow, pushed, usual = self.parts()
        ordinary = usual.log_mgf(z, direction)
        if overflow == 0:
            return ordinary
        gap = pushed.log_mgf(z, direction) - ordinary
        large = np.real(gap) > 30
        small = np.log1p(overflow * np.expm1(np.where(large, 0.0, gap)))
        high = np.where(large, gap, 30.0)
        return ordinary + np.where(large, high + np.log(overflow + (1 - overflow) * np.exp(-high)), small)


@dataclass(frozen=True, kw_only=True)
class SampledLaplace(DominatingPair):
    """The pair of Laplace noise of scale `noise` at sensitivity 1, on a Poisson sample at `rate`."""

    noise: float
    rate: float = 1.0

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        return self.rate == 1

    def pure(self) -> float:
        return math.log1p(self.rate * math.expm1(1 / self.noise)) if 1 / self.noise < 700 else 1 / self.noise

    def log_mgf(self, z: Array, direction: str) -> Array:
        z = np.asarray(z)
        if self.rate == 1:
            return _log_mgf_laplace(z, 1 / self.noise)
        # Between the atoms at e and -e the unsampled loss has density exp((u - e)/2)/4 under P.
        e = 1 / self.noise
        nodes, weights = _legendre(int(min(256, 2 + e * (1 + float(np.abs(z).max())) / 8)))
        u = e * nodes
        under_p = np.concatenate([[0.5], e * weights * np.exp((u - e) / 2) / 4, [math.exp(-e) / 2]])
        loss = np.concatenate([[e], u, [-e]])
        return _log_mgf_table(z, *sample(loss, under_p, self.rate, direction))


@dataclass(frozen=True, kw_only=True)
class ResponsePair(DominatingPair):
    """The pair of `epsilon`-DP randomised response among `classes` classes, on a Poisson sample at `rate`.

    With 2 classes it dominates every epsilon-DP release.
    """

    epsilon: float
    classes: int = 2
    rate: float = 1.0

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        return self.rate == 1

    def pure(self) -> float:
        if self.rate == 1 or self.epsilon > 700:
            return self.epsilon
        return math.log1p(self.rate * math.expm1(self.epsilon))

    def table(self, direction: str) -> tuple[Array, Array]:
        rest = (self.classes - 2) * math.exp(-self.epsilon)
        total = 1 + math.exp(-self.epsilon) + rest
        losses = np.array([self.epsilon, 0.0, -self.epsilon])
        probs = np.array([1.0, rest, math.exp(-self.epsilon)]) / total
        return sample(losses, probs, self.rate, direction) if self.rate < 1 else (losses, probs)

    def log_mgf(self, z: Array, direction: str) -> Array:
        return _log_mgf_table(np.asarray(z), *self.table(direction))


@dataclass(frozen=True, kw_only=True)
class TabulatedPair(DominatingPair):
    """The pair of `event` on a sample at `rate`, given by finite losses and their probabilities under P.

    `remove` and `add` are the tables of the two directions. Two pairs are equal if `event` and `rate` are equal.
    """

    event: Event
    rate: float = 1.0
    remove: tuple[Array, Array] = field(compare=False, repr=False)
    add: tuple[Array, Array] = field(compare=False, repr=False)

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        return self.remove is self.add

    def table(self, direction: str) -> tuple[Array, Array]:
        return self.remove if direction == "remove" else self.add

    def log_mgf(self, z: Array, direction: str) -> Array:
        return _log_mgf_table(np.asarray(z), *self.table(direction))

    def pure(self) -> float:
        return float(max(self.remove[0].max(), self.add[0].max()))


def sample(losses: Array, probs: Array, rate: float, direction: str) -> tuple[Array, Array]:
    """Return the losses and probabilities of a pair (P, Q) without failures, on a Poisson sample.

    `losses` are values of ln(P/Q), `probs` their probabilities under P, and `rate` < 1 the sampling rate. The pair
    becomes ((1-rate) Q + rate P, Q) if a row is removed (`direction` "remove"), and (P, (1-rate) P + rate Q) if a row
    is added ("add") (Zhu, Dong and Wang 2022, theorem 11).
    """
    if direction == "remove":
        with np.errstate(divide="ignore"):
            under_q = np.exp(np.log(probs) - losses)
        return _amplified(losses, rate), (1 - rate) * under_q + rate * probs
    return -_amplified(-losses, rate), probs


def _amplified(losses: Array, rate: float) -> Array:
    """Return `log(1 + rate * (exp(loss) - 1))` of each of `losses`, for a rate below 1, without overflow."""
    small = np.log1p(rate * np.expm1(np.minimum(losses, 30.0)))
    return np.where(losses < 30, small, np.logaddexp(math.log1p(-rate), losses + math.log(rate)))


def _log_mgf_table(z: Array, losses: Array, probs: Array) -> Array:
    losses, probs = losses[probs > 0], probs[probs > 0]
    real = float(np.real(z.flat[0])) if z.size else 0.0
    top = float(np.max(real * losses))
    if abs(real) * float(np.abs(losses).max()) < 1 and abs(float(probs.sum()) - 1) < 1e-12:
        return np.log1p(np.expm1(z[:, None] * losses) @ probs)  # type: ignore[no-any-return]
    return top + np.log(np.exp(z[:, None] * losses - top) @ probs)  # type: ignore[no-any-return]


def _log_mgf_laplace(z: Array, e: float) -> Array:
    """Return ln of [(1+z) exp(z e) + z exp(-(1+z) e)] / (1+2z), or its limit where 1+2z = 0; e is 1 / noise."""
    top = np.maximum(np.real(z) * e, -(1 + np.real(z)) * e)
    near = np.abs(1 + 2 * z) < 1e-9
    safe = np.where(near, 0.0, z)
    value = ((1 + safe) * np.exp(safe * e - top) + safe * np.exp(-(1 + safe) * e - top)) / (1 + 2 * safe)
    limit = (1 + e / 2) * np.exp(-e / 2 - top)
    return top + np.log(np.where(near, limit, value))  # type: ignore[no-any-return]


@lru_cache(maxsize=16)
def _legendre(panels: int) -> tuple[Array, Array]:
    """Return Gauss-Legendre nodes and weights on (-1, 1), sixteen in each of `panels` equal parts."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    middle = (2 * np.arange(panels)[:, None] + 1) / panels - 1
    return (middle + nodes / panels).ravel(), np.tile(weights / panels, panels)


@lru_cache(maxsize=64)
def _binomial(count: int, rate: float) -> Array:
    from scipy import stats

    return np.asarray(stats.binom.pmf(np.arange(count + 1), count, rate))


@lru_cache(maxsize=4096)
def _spread(pair: DominatingPair) -> float:
    best = 0.0
    for direction in DIRECTIONS:
        step = 1e-3
        for _ in range(60):
            k = [float(pair.log_mgf(np.array([t]), direction)[0]) for t in (step, 2 * step)]
            variance = (k[1] - 2 * k[0]) / step**2
            if k[1] < 0.2:
                break
            step /= 4
        best = max(best, math.sqrt(max(variance, 0.0)))
    return best
