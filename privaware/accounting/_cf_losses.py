"""Formulas for the privacy loss of one release in one direction, for the CF accountant.

A loss l = ln(P/Q) is a random variable under P. The accountant needs K(z) = ln E[exp(z l)] for complex z, and
sometimes the loss as points with probabilities. `side` is "remove" (the row is in P only), "add" (the row is in Q only)
or "replace" (the row is in P, and another row in Q).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from privaware.accounting import _quadrature
from privaware.accounting._quadrature import Array
from privaware.events import Event

_SMALL = 30.0
"""Largest exponent at which exponentials are summed without factoring out the largest one.

Without the factor, a sum near 0 keeps its relative precision.
"""


class Loss:
    """The privacy loss l = ln(P/Q) of one release, as a random variable under P."""

    often = 1.0
    """Expected number of rows of the unit in the release's sample."""

    def log_mgf(self, z: Array) -> Array:
        """Return K(z) = ln E[exp(z l)] of the privacy loss l, for an array of complex z with equal real parts."""
        raise AssertionError(type(self).__name__)

    def work(self, z: Array) -> float:
        """Return how many exponentials `log_mgf` computes for each entry of `z`, if it gets all of `z` at once."""
        return 1.0

    def points(self) -> tuple[Array, Array]:
        """Return losses, in any order, and their probabilities under P; a continuous loss is approximated on a fine
        grid."""
        raise AssertionError(type(self).__name__)

    def largest(self) -> float:
        """Return the largest possible loss."""
        return math.inf

    def beyond(self) -> float:
        """Return a loss beyond which the probability is negligible."""
        return self.largest()

    def shift(self) -> float | None:
        """Return sensitivity / noise, ignoring sampling, if the release is Gaussian; None for any other release."""
        return None


@dataclass(frozen=True, kw_only=True)
class NormalLoss(Loss):
    """The loss of Gaussian releases without sampling; `precision` is the sum of their `(sensitivity / noise)**2`."""

    precision: float

    def log_mgf(self, z: Array) -> Array:
        return self.precision / 2 * z * (1 + z)

    def points(self) -> tuple[Array, Array]:
        return MixtureLoss(noise=self.precision**-0.5, rate=1.0, side="remove").points()

    def beyond(self) -> float:
        return self.precision / 2 + 10 * math.sqrt(self.precision)

    def shift(self) -> float:
        return math.sqrt(self.precision)


@dataclass(frozen=True, kw_only=True)
class MixtureLoss(Loss):
    """The loss of Gaussian noise of standard deviation `noise` on a sum over a Poisson sample at `rate`.

    A unit has `group` rows, and each moves the sum by up to 1. `side` is "remove" (the unit is in P only), "add" (in Q
    only) or "replace" (the unit is in P, and another unit in Q).
    """

    noise: float
    rate: float
    side: str
    group: int = 1

    @property
    def often(self) -> float:  # type: ignore[override]
        return self.rate * self.group

    def log_mgf(self, z: Array) -> Array:
        return _quadrature.log_mgf(self.curves, self.noise, self.group, np.asarray(z))

    def work(self, z: Array) -> float:
        return float(len(_quadrature.abscissae(self.curves, self.noise, self.group, z)[0]))

    def shift(self) -> float:
        return self.group * (2 if self.side == "replace" else 1) / self.noise

    def beyond(self) -> float:
        reach = self.group * (2 if self.side == "replace" else 1)
        return reach * (reach + 10 * self.noise) / self.noise**2

    def curves(self, x: Array) -> tuple[Array, Array]:
        ratio = self.log_ratio(x)
        if self.side == "add":
            return np.zeros_like(x), -ratio
        return (ratio, ratio - self.log_ratio(-x)) if self.side == "replace" else (ratio, ratio)

    def log_ratio(self, x: Array) -> Array:
        """Return the log ratio of the densities with and without the unit's rows, at each noisy sum in `x`.

        The ratio is sum_j weight_j exp((2 j x - j^2) / (2 noise^2)), where j rows of the unit are in the sample with
        probability weight_j.
        """
        rows = np.arange(1, self.group + 1)
        weights = _weights(self.group, self.rate)
        exponents = np.multiply.outer(x, rows) - rows**2 / 2
        exponents /= self.noise**2
        highest = np.maximum(exponents.max(axis=-1), 0.0)
        if float(highest.max()) < _SMALL:
            return np.log1p(np.expm1(exponents) @ weights[1:])  # type: ignore[no-any-return]
        total = weights[0] * np.exp(-highest) + np.exp(exponents - highest[:, None]) @ weights[1:]
        return highest + np.log(total)  # type: ignore[no-any-return]

    def points(self) -> tuple[Array, Array]:
        from scipy import special

        s, back = self.noise, self.group if self.side == "replace" else 0
        x = np.linspace(-9 * s - back, 9 * s + self.group, 100_001)
        middle = (x[1:] + x[:-1]) / 2
        weights = _weights(self.group, 0.0 if self.side == "add" else self.rate)
        # Sum from the nearer end, because differences of cumulative probabilities near 1 lose digits.
        above, below = (
            sum(w * special.ndtr(sign * (j - x) / s) for j, w in enumerate(weights) if w) for sign in (1.0, -1.0)
        )
        probs = np.where(middle > 0.5, above[:-1] - above[1:], below[1:] - below[:-1])
        return self.curves(middle)[1], probs


@dataclass(frozen=True, kw_only=True)
class OverflowLoss(Loss):
    """The loss of a Gaussian release on a capped batch.

    With probability `overflow` the other rows fill the batch. Then the row can only replace another row, with the loss
    `pushed`. Otherwise the loss is `usual`.
    """

    usual: MixtureLoss
    overflow: float
    pushed: MixtureLoss

    @property
    def often(self) -> float:  # type: ignore[override]
        return self.usual.often

    def log_mgf(self, z: Array) -> Array:
        usual, pushed = self.usual.log_mgf(z), self.pushed.log_mgf(z)
        top = np.maximum(usual.real, pushed.real)
        if float(top.max()) < _SMALL:  # keeps the digits of a tiny K
            both = (1 - self.overflow) * np.expm1(usual) + self.overflow * np.expm1(pushed)
            return np.log1p(both)  # type: ignore[no-any-return]
        return top + np.log((1 - self.overflow) * np.exp(usual - top) + self.overflow * np.exp(pushed - top))  # type: ignore[no-any-return]

    def work(self, z: Array) -> float:
        return self.usual.work(z) + self.pushed.work(z)

    def shift(self) -> float:
        return max(self.usual.shift(), self.pushed.shift())

    def beyond(self) -> float:
        return max(self.usual.beyond(), self.pushed.beyond())

    def points(self) -> tuple[Array, Array]:
        (a, p), (b, q) = self.pushed.points(), self.usual.points()
        return np.append(a, b), np.append(self.overflow * p, (1 - self.overflow) * q)


class AtomsLoss(Loss):
    """A loss with finitely many values."""

    def log_mgf(self, z: Array) -> Array:
        losses, probs = self.points()
        real = float(np.real(z.flat[0]))
        top = float(np.max(real * losses))
        if abs(real) * float(np.abs(losses).max()) < 1 and abs(float(probs.sum()) - 1) < 1e-12:
            return np.log1p(np.expm1(np.multiply.outer(z, losses)) @ probs)  # type: ignore[no-any-return]
        with np.errstate(divide="ignore"):
            return top + np.log(np.exp(np.multiply.outer(z, losses) - top) @ probs)  # type: ignore[no-any-return]

    def work(self, z: Array) -> float:
        return float(len(self.points()[0]))

    def largest(self) -> float:
        return float(np.max(self.points()[0]))


@dataclass(frozen=True, kw_only=True)
class ResponseLoss(AtomsLoss):
    """The loss of `epsilon`-DP randomised response among `classes` classes, on a Poisson sample at `rate`.

    With 2 classes it dominates any epsilon-DP event. `side` is "remove" (the row is in P only) or "add" (in Q only).
    """

    epsilon: float
    classes: int
    rate: float
    side: str

    def points(self) -> tuple[Array, Array]:
        kept = 1 / (1 + (self.classes - 1) * math.exp(-self.epsilon))
        changed = kept * math.exp(-self.epsilon)
        p = np.array([kept, changed, max(0.0, 1 - kept - changed) if self.classes > 2 else 0.0])
        losses = np.array([self.epsilon, -self.epsilon, 0.0])
        return _sampled(losses, p, np.array([changed, kept, p[2]]), self.rate, self.side)

    def largest(self) -> float:
        return _largest(self.epsilon, self.rate, self.side)


@dataclass(frozen=True, kw_only=True)
class LaplaceLoss(Loss):
    """The privacy loss of Laplace noise of scale `noise` on a sum of sensitivity 1 over a Poisson sample at `rate`.

    `side` is "remove" (the row is in P only) or "add" (in Q only).
    """

    noise: float
    rate: float
    side: str

    def largest(self) -> float:
        return _largest(1 / self.noise, self.rate, self.side)

    def log_mgf(self, z: Array) -> Array:
        e = 1 / self.noise
        if self.rate == 1:  # ln of ((1+z) exp(z e) + z exp(-(1+z) e)) / (1+2z)
            fall = np.exp(-(1 + 2 * z) * e)
            return z * e + np.log(((1 + z) + z * fall) / (1 + 2 * z))  # type: ignore[no-any-return]
        panels = int(min(256, 2 + e * (1 + float(np.abs(z).max())) / 8))
        losses, probs = self._points(panels)
        top = float(np.max(np.real(z.flat[0]) * losses))
        return top + np.log(np.exp(np.multiply.outer(z, losses) - top) @ probs)  # type: ignore[no-any-return]

    def work(self, z: Array) -> float:
        return 1.0 if self.rate == 1 else 16 * min(256.0, 2 + (1 + float(np.abs(z).max())) / (8 * self.noise))

    def points(self) -> tuple[Array, Array]:
        return self._points(256)

    def _points(self, panels: int) -> tuple[Array, Array]:
        """Return losses and probabilities: two atoms, and 16 nodes in each of `panels` equal sections of [0, 1].

        The atoms stand for all noisy values below 0 and all above 1; nodes (of Gauss-Legendre quadrature) are noisy
        values between. Without sampling, the loss at a value x in [0, 1] is `(1 - 2 * x) / noise`.
        """
        e = 1 / self.noise
        nodes, weights = np.polynomial.legendre.leggauss(16)
        middle = (np.arange(panels)[:, None] + 0.5 + nodes / 2).ravel() / panels
        weights = np.tile(weights / 2 / panels, panels)
        p = np.concatenate([[0.5, math.exp(-e) / 2], e / 2 * weights * np.exp(-e * middle)])
        losses = np.concatenate([[e, -e], e * (1 - 2 * middle)])
        return _sampled(losses, p, p * np.exp(-losses), self.rate, self.side)


@dataclass(frozen=True, kw_only=True)
class TableLoss(AtomsLoss):
    """The loss of `event`, which has no formula, on a Poisson sample at `rate`, given by a table.

    `table` is (losses, probabilities under P), with sampling already applied. `side` is "remove" (the row is in P only)
    or "add" (in Q only). Two losses are equal if event, rate and side are equal.
    """

    event: Event
    rate: float
    side: str
    table: tuple[Array, Array] = field(compare=False, repr=False)

    def points(self) -> tuple[Array, Array]:
        return self.table


def _largest(loss: float, rate: float, side: str) -> float:
    if rate == 1 or loss > 700:
        return loss
    return math.log1p(rate * math.expm1(loss)) if side == "remove" else -math.log1p(rate * math.expm1(-loss))


def _sampled(losses: Array, p: Array, q: Array, rate: float, side: str) -> tuple[Array, Array]:
    """Return losses and probabilities of a release on a Poisson sample at `rate`.

    Without sampling, the release has these `losses` = ln(p/q), with the probabilities `p` under P and `q` under Q. If
    `side` is "add", P stays and Q becomes (1 - rate) P + rate Q. Otherwise Q stays and P becomes (1 - rate) Q + rate P.
    The returned probabilities are under the resulting P. At rate 1, `losses` and `p` are returned.
    """
    if rate == 1:
        return losses, p
    if side == "add":
        return -np.logaddexp(math.log1p(-rate), math.log(rate) - losses), p
    return np.logaddexp(math.log1p(-rate), math.log(rate) + losses), (1 - rate) * q + rate * p


@lru_cache(maxsize=64)
def _weights(group: int, rate: float) -> Array:
    from scipy import stats

    return np.asarray(stats.binom.pmf(np.arange(group + 1), group, rate))
