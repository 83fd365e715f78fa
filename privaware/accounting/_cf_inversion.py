"""Invert the characteristic function of a sum of losses, along a line in the complex plane or on a lattice."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import numpy as np

from privaware.accounting._cf_losses import Loss, NormalLoss
from privaware.accounting._cf_sum import LossSum, TooSlow
from privaware.accounting._chernoff import guess
from privaware.accounting._quadrature import Array

_FAR = 26.0
"""The integrand is followed until it is below `exp(-_FAR)` times its peak."""

_MOST = 1 << 13
"""Largest number of nodes on a line."""

_WORK = 3e6
"""Largest number of exponentials for a line, which take a few tenths of a second."""

_NODES = 24
"""Number of Gauss-Legendre nodes of a panel."""


class LossLattice:
    """The composed loss `total` on a lattice, precise where its delta is about `delta` or more.

    Each loss is split between the two nearest points, which keeps its mean. Raise `TooSlow` for too many releases.
    """

    def __init__(self, total: LossSum, delta: float) -> None:
        from scipy import fft

        parts = [(*_bulk(loss, n, delta), n) for loss, n in total.losses]
        curve, aside = total.curve, math.log(delta * 1e-5)
        orders = guess(total.variance, delta) * 4.0 ** np.arange(-3, 3)
        # By Chernoff's bound at most 1e-5 of delta lies beyond these ends; this mass may wrap around.
        high, order = min(((curve(float(t)) - aside) / float(t), float(t)) for t in orders)
        high = min(high, sum(n * float(losses[-1]) for losses, _, n in parts))
        low = max(aside, sum(n * float(losses[0]) for losses, _, n in parts))
        size = 1 << 19
        self.width = (high - low) / (size - 2 * sum(n for _, _, n in parts) - 2)
        if self.width <= 0:
            raise TooSlow
        # Tilt the losses so that rounding errors stay small relative to the tail, but not so far that the ends matter.
        self.theta = min(order / 2, 500 / (high - low))
        while curve(self.theta) > 3:  # a larger tilt would amplify errors near 0 when it is undone
            self.theta /= 2
        self.log_scale = 0.0
        spectrum: Array = np.ones(size // 2 + 1, dtype=complex)
        start = 0
        for losses, plain, n in parts:
            tilt = self.theta * losses
            probs = plain * np.exp(tilt - tilt.max())
            scale = float(probs.sum())
            probs /= scale
            self.log_scale += n * (math.log(scale) + float(tilt.max()))
            place = losses / self.width
            below = np.floor(place)
            first = int(below.min())
            index, part = (below - first).astype(np.int64), place - below
            rounded = np.bincount(index % size, weights=probs * (1 - part), minlength=size)
            rounded += np.bincount((index + 1) % size, weights=probs * part, minlength=size)
            spectrum *= fft.rfft(rounded) ** n
            start += n * first
        bottom = math.floor(low / self.width)
        self.probs = np.maximum(np.roll(fft.irfft(spectrum, size), start - bottom), 0.0)
        self.losses = self.width * (bottom + np.arange(size))

    @cached_property
    def _sums(self) -> tuple[Array, Array, Array]:
        """Positive losses, and for each the probability of this or a larger loss, under P and under Q."""
        positive = self.losses > 0
        losses = self.losses[positive]
        probs = np.exp(np.minimum(self.log_scale - self.theta * losses, 700.0)) * self.probs[positive]
        mass, under_q = (np.append(np.cumsum(p[::-1])[::-1], 0.0) for p in (probs, probs * np.exp(-losses)))
        return losses, mass, under_q

    def deltas(self, epsilons: Array) -> Array:
        """Return delta at epsilons >= 0."""
        losses, mass, under_q = self._sums
        at = np.searchsorted(losses, epsilons, side="right")
        grown = np.exp(np.minimum(epsilons, 700.0)) * under_q[at]
        return np.clip(mass[at] - grown, 0.0, 1.0)  # type: ignore[no-any-return]

    def epsilon(self, delta: float) -> float:
        from scipy import optimize

        def gap(epsilon: float) -> float:
            return float(self.deltas(np.array([epsilon]))[0]) - delta

        high = float(self.losses[-1])
        if gap(0.0) <= 0 or high <= 0:
            return 0.0
        return float(optimize.brentq(gap, 0.0, high, rtol=1e-7))


def _bulk(loss: Loss, count: int, delta: float) -> tuple[Array, Array]:
    """Return the losses and probabilities of one release, without the upper tail.

    The omitted tail has a probability of at most `delta * 1e-6 / count`. So the tails of all `count` repetitions
    together have a probability of at most `delta * 1e-6`.
    """
    losses, probs = loss.points()
    order = np.argsort(losses)
    losses, probs = losses[order], probs[order]
    above = np.cumsum(probs[::-1])[::-1]
    keep = above > delta * 1e-6 / count
    return losses[keep], probs[keep]


class Line:
    """The integrand of step 1 in `_cf.py` for the loss `total` on the line Re z = t, evaluated once.

    Then delta at any epsilon near `epsilon` is one sum. Raise `TooSlow` if it takes too many nodes.

    The line is cut into panels, which double in length away from the real axis. A loss has features of all sizes: the
    bulk of a rarely sampled release is thousands of times narrower than its tail. Away from the axis the wide features
    decay first. A panel whose last Legendre coefficients are not small is cut in two.
    """

    def __init__(self, total: LossSum, t: float, epsilon: float) -> None:
        self.t, self.near = t, epsilon
        self.total = total
        self.k = total.curve(t)
        self.work = 0.0
        self._z: list[Array] = []
        self._k: list[Array] = []
        self._w: list[Array] = []
        self.span = math.inf  # largest distance from `epsilon` at which the nodes resolve the oscillation
        blur = self._follow()
        z, k, w = (np.concatenate(part) for part in (self._z, self._k, self._w))
        if blur:
            k = k + NormalLoss(precision=blur**2).log_mgf(z)
        self.z, self.value = z, w * np.exp(k - self.k) / (z * (1 + z))

    def _follow(self) -> float:
        """Evaluate the integrand outwards from the real axis until it is negligible.

        Return sensitivity divided by noise of the extra Gaussian release that this needs; 0.0 without extra release.
        """
        enough = 2e-2 * math.sqrt(max(self.near, 1e-9) / (1 + self.t))
        low, high, count = 0.0, self.t / 4, 0
        while True:
            count += self._octave(low, high)
            level = float(np.max(self._k[-1].real)) - self.k + 2 * math.log(self.t / high)
            if level < -_FAR:
                return 0.0
            need = math.sqrt(2 * (level + _FAR)) / high
            if need <= enough:
                return need
            if count >= _MOST:
                raise TooSlow
            low, high = high, 2 * high

    def _octave(self, low: float, high: float) -> int:
        nodes, weights, tail = _rule()
        edges = np.array([[low, high]])
        count = 0
        while len(edges):
            half = (edges[:, 1] - edges[:, 0])[:, None] / 2
            v = edges.mean(axis=1)[:, None] + half * nodes
            z = (self.t + 1j * v).ravel()
            self.work += sum(z.size * loss.work(z) for loss, _ in self.total.losses)
            if self.work > _WORK:
                raise TooSlow
            k = np.zeros(z.size, dtype=complex)
            for loss, n in self.total.losses:
                k += n * loss.log_mgf(z)
            count += z.size
            f = np.exp(k - self.k + (self.t - z) * self.near) / (z * (1 + z))
            rough = np.abs(f.reshape(v.shape) @ tail).max(axis=1) * half[:, 0]
            coarse = rough * self.t > 1e-9 if count < _MOST else np.zeros(len(edges), dtype=bool)
            if not coarse.all():
                self.span = min(self.span, _NODES / 4 / float(half[~coarse].max()))
            keep = np.repeat(~coarse, _NODES)
            self._z.append(z[keep])
            self._k.append(k[keep])
            self._w.append((half * weights).ravel()[keep])
            left = edges[coarse]
            middle = left.mean(axis=1)
            edges = np.concatenate([np.stack([left[:, 0], middle], 1), np.stack([middle, left[:, 1]], 1)])
        return count

    def log_delta(self, epsilon: float) -> float:
        total = float(np.sum(self.value * np.exp((self.t - self.z) * epsilon)).real)
        if total <= 0:
            return -math.inf
        return math.log(total / math.pi) + self.k - self.t * epsilon

    def trusted(self, epsilon: float) -> bool:
        """Return whether the sum at `epsilon` is well above rounding errors; far from the saddle its terms cancel."""
        total = float(np.sum(self.value * np.exp((self.t - self.z) * epsilon)).real)
        return total * (1 + self.t) > 1e-5

    def deltas(self, epsilons: Array) -> tuple[Array, Array]:
        """Return delta at all `epsilons`, and a mask of where it is well above rounding errors."""
        sums = np.empty(len(epsilons))
        for start in range(0, len(epsilons), 256):  # in pieces, which need little memory
            some = epsilons[start : start + 256, None]
            sums[start : start + 256] = (np.exp((self.t - self.z) * some) @ self.value).real
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(sums / math.pi) + self.k - self.t * epsilons
        return np.where(sums > 0, np.exp(np.minimum(logs, 0.0)), 0.0), sums * (1 + self.t) > 1e-5

    def epsilon(self, aim: float, low: float, high: float) -> float:
        """Return the epsilon between `low` (where delta is too large) and `high` at which ln(delta) equals `aim`.

        If delta is too large at `high`, too, a larger epsilon is returned.
        """
        from scipy import optimize

        def gap(epsilon: float) -> float:
            return self.log_delta(epsilon) - aim

        while gap(high) > 0:  # the Chernoff bound `high` does not include the extra release
            high += 1 / self.t
        return float(optimize.brentq(gap, low, high, rtol=1e-10, xtol=1e-300))


@lru_cache(maxsize=1)
def _rule() -> tuple[Array, Array, Array]:
    """Return the `_NODES` Gauss-Legendre nodes and weights on [-1, 1], and a matrix of shape (`_NODES`, 4).

    Values of a function f at the nodes, times the matrix, are the integrals of f times the Legendre polynomials of the
    four highest degrees k below `_NODES`: 2 / (2k + 1) times the last four Legendre coefficients of f.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    vander = np.polynomial.legendre.legvander(nodes, _NODES - 1)
    return nodes, weights, (vander * weights[:, None])[:, -4:]
