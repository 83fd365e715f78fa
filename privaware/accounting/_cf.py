"""The CF accountant: compute delta as an inverse Laplace transform, along a line through the saddle point.

1. Let L be the total privacy loss, and K(z) = sum_i n_i ln E[exp(z l_i)] over all releases. For any t > 0 and
   z = t + i v,

       delta(eps) = E[(1 - exp(eps - L))_+] = 1/(2 pi) * integral over v of exp(K(z) - z eps) / (z (1 + z)).

2. Every t gives the same value, but not with the same effort. At the saddle point, where K'(t) = eps, the integrand is
   largest at v = 0 and decays like a Gaussian without cancellation. Thirty nodes can give ten digits. A delta of 1e-30
   is as easy as a delta of 0.1, because the factor exp(K(t) - t eps) contains the small size. There is no grid of
   losses, and no tail is cut off.
3. For losses with atoms (Laplace, randomised response) the integrand decays like 1/v^2 only. There a Gaussian release
   of negligible size b is added, which makes the integrand decay faster. It can only increase epsilon, by about
   b^2 (1 + t) / 2, which is kept below 2e-4 of epsilon.
4. The line does not suit a few rarely sampled steps, because bulk and tail of their loss differ by orders of magnitude.
   There the characteristic function is inverted on a lattice, by a Fourier transform of a finely rounded loss.

`_cf_tree.py` reads events, and `_cf_losses.py` has the formulas of their losses. Nothing of the PLD accountant is used,
so an agreement of the two is evidence.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import numpy as np

from privaware.accounting._cf_losses import Loss, NormalLoss
from privaware.accounting._cf_sum import LossSum, TooSlow
from privaware.accounting._chernoff import bound_on_epsilon, guess, saddle
from privaware.accounting._quadrature import Array

_FAR = 26.0
"""The integrand is followed until it is below `exp(-_FAR)` times its peak."""

_MAX_NODES = 1 << 13
"""Largest number of quadrature nodes on the line along which a characteristic function is integrated."""

_WORK = 3e6
"""Largest number of exponentials for a line, which take a few tenths of a second."""

_NODES = 24
"""Number of Gauss-Legendre nodes in one panel, a section of the line."""


def epsilon(total: LossSum, delta: float) -> float:
    """Return the epsilon of the composition `total` at `delta`.

    A composition without losses has epsilon 0 if its failure probability is at most `delta`, else infinite. With
    losses, epsilon is infinite if the failure probability is at least `delta`. Raise `TooSlow` if no method resolves
    the losses: neither integration along a line in the complex plane (`Line`), nor a discretised loss (`LossLattice`).
    """
    if not total.losses:
        return 0.0 if total.failure <= delta else math.inf
    if total.failure >= delta:
        return math.inf
    rest = (delta - total.failure) / (1 - total.failure)
    return min(_one(total, rest), total.largest)


def deltas(total: LossSum, epsilons: Array) -> Array:
    """Return the delta of the composition `total`, given that no release fails, at ascending `epsilons` >= 0.

    Delta is an integral along a line in the complex plane (`Line`), and one line serves the epsilons near its own;
    further epsilons need another line. A discretised loss (`LossLattice`) is used instead if a row is rarely sampled
    (`total.rare`), if there are few steps (`total.few`), or if the loss has a largest value. Such a loss has atoms, so
    a line would serve very few epsilons. Raise `TooSlow` if the discretised loss has too many releases.
    """
    if not total.losses:
        return np.zeros(len(epsilons))
    if total.rare or total.few or math.isfinite(total.largest):
        return LossLattice(total, 1e-12).deltas(epsilons)
    out = np.zeros(len(epsilons))
    left, t = len(epsilons), guess(total.variance, 1e-5)
    while left:
        here = float(epsilons[left - 1])
        t = _saddle_at(total, here, t)
        try:
            line = Line(total, t, here)
        except TooSlow:
            line = None
        near = left - 1 if line is None else min(int(np.searchsorted(epsilons, here - line.span)), left - 1)
        if line is None or (near > 0 and left - near < len(epsilons) / 50):
            out[:left] = LossLattice(total, 1e-12).deltas(epsilons[:left])
            break
        values, trusted = line.deltas(epsilons[near:left])
        trusted[-1] = True
        near += len(trusted) - int(np.argmin(np.append(trusted[::-1], False)))
        out[near:left], left = values[near - left :], near
    return np.minimum.accumulate(np.clip(out, 0.0, 1.0))  # type: ignore[no-any-return]


def _one(total: LossSum, delta: float) -> float:
    if total.rare or total.tabulated:
        return LossLattice(total, delta).epsilon(delta)
    try:
        return _on_line(total, delta)
    except TooSlow:
        return LossLattice(total, delta).epsilon(delta)


def _on_line(total: LossSum, delta: float) -> float:
    """Return the epsilon of the composition `total` at `delta`, at least 0, from integrals along lines (`Line`).

    Start at the Chernoff bound on epsilon, which is too large, and step down until the delta there exceeds `delta`.
    Then solve within the last step. The first step is 1/t, where t is the saddle point of the bound; each further step
    is twice as long. Raise `TooSlow` if a line takes too many nodes.
    """
    aim = math.log(delta)
    t = saddle(total.curve, lambda t, k: bound_on_epsilon(t, k, delta), guess(total.variance, delta))
    if math.isfinite(total.largest):  # for a bounded loss the saddle may be at infinity; a larger t gains nothing
        t = min(t, 2e4 / max(bound_on_epsilon(t, total.curve(t), delta), 1e-300))
    high = bound_on_epsilon(t, total.curve(t), delta)
    line = Line(total, t, high)
    step = 1 / t
    while high > 0:
        low = max(high - step, 0.0)
        if not line.trusted(low):
            t = _saddle_at(total, low, t)
            line = Line(total, t, low)
        if line.log_delta(low) > aim:
            epsilon = line.epsilon(aim, low, high)
            if epsilon > line.near / 2:
                return epsilon
            # The size of the extra Gaussian release was chosen for a larger epsilon, so solve again.
            return Line(total, t, epsilon).epsilon(aim, low, high)
        high, step = low, 2 * step
    return 0.0


def _saddle_at(total: LossSum, epsilon: float, near: float) -> float:
    return saddle(total.curve, lambda t, k: k - t * epsilon, near)


class LossLattice:
    """The distribution of the composed loss `total` on multiples of one width, composed by a Fourier transform.

    It is precise where the delta of `total` is about `delta` or more. A loss between two multiples is split between
    them so that its mean stays the same. Raise `TooSlow` if there are too many releases for the fixed number of
    multiples.
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
        """Positive losses in ascending order, and the probabilities of at least each loss, under P and under Q.

        Both arrays of probabilities have one more entry than the losses: a 0 at the end.
        """
        positive = self.losses > 0
        losses = self.losses[positive]
        probs = np.exp(np.minimum(self.log_scale - self.theta * losses, 700.0)) * self.probs[positive]
        mass, under_q = (np.append(np.cumsum(p[::-1])[::-1], 0.0) for p in (probs, probs * np.exp(-losses)))
        return losses, mass, under_q

    def deltas(self, epsilons: Array) -> Array:
        """Return delta at each of `epsilons`, which are at least 0, given that no release fails."""
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
    """Return the losses of one release (`loss`) in ascending order, and their probabilities, without the upper tail.

    The tail is dropped, and its probability is at most `delta * 1e-6 / count`. So the tails of all `count` repetitions
    together have a probability of at most `delta * 1e-6`.
    """
    losses, probs = loss.points()
    order = np.argsort(losses)
    losses, probs = losses[order], probs[order]
    above = np.cumsum(probs[::-1])[::-1]
    keep = above > delta * 1e-6 / count
    return losses[keep], probs[keep]


class Line:
    """The delta of the loss `total` at any epsilon near `epsilon`, as one sum over nodes on the line Re z = t.

    `t` should be near the saddle point at `epsilon`. The integrand exp(K(z) - z eps) / (z (1 + z)) is evaluated once at
    the nodes, where K is the logarithm of the moment generating function of the loss. Raise `TooSlow` if it takes too
    many nodes.

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
        """Evaluate the integrand at nodes outwards from the real axis, until it is negligible.

        If it decays too slowly, a Gaussian release of negligible cost is to be added to the loss. Return the
        sensitivity of this release divided by its noise, or 0.0 if none is needed. Raise `TooSlow` if `_MAX_NODES`
        nodes do not suffice.
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
            if count >= _MAX_NODES:
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
            coarse = rough * self.t > 1e-9 if count < _MAX_NODES else np.zeros(len(edges), dtype=bool)
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

    def _sum(self, epsilon: float) -> float:
        return float(np.sum(self.value * np.exp((self.t - self.z) * epsilon)).real)

    def log_delta(self, epsilon: float) -> float:
        total = self._sum(epsilon)
        return math.log(total / math.pi) + self.k - self.t * epsilon if total > 0 else -math.inf

    def trusted(self, epsilon: float) -> bool:
        """Return whether the sum that gives delta at `epsilon` is well above rounding errors.

        Far from the epsilon for which the line was made, the terms of the sum cancel.
        """
        return self._sum(epsilon) * (1 + self.t) > 1e-5

    def deltas(self, epsilons: Array) -> tuple[Array, Array]:
        """Return delta at all `epsilons`, and a mask that is True where `trusted` holds."""
        sums = np.empty(len(epsilons))
        for start in range(0, len(epsilons), 256):  # in pieces, which need little memory
            some = epsilons[start : start + 256, None]
            sums[start : start + 256] = (np.exp((self.t - self.z) * some) @ self.value).real
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(sums / math.pi) + self.k - self.t * epsilons
        return np.where(sums > 0, np.exp(np.minimum(logs, 0.0)), 0.0), sums * (1 + self.t) > 1e-5

    def epsilon(self, aim: float, low: float, high: float) -> float:
        """Return the epsilon between `low` (where delta is too large) and `high` at which ln(delta) equals `aim`.

        If delta is still too large at `high`, a larger epsilon is returned.
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
