"""The accountant of our own: delta as an inverse Laplace transform, along a line through the saddle point.

With `K(z) = sum_i n_i ln E[exp(z l_i)]` over all releases, and any t > 0,

    delta(eps) = E[(1 - exp(eps - L))_+] = 1/(2 pi) * integral over v of exp(K(z) - z eps) / (z (1 + z)),

z = t + i v. Every t gives the same value, but not the same work. Where K'(t) = eps (the saddle) the integrand is
largest at v = 0 and falls off like a Gaussian, with no cancellation: thirty nodes can give ten digits, and a delta of
1e-30 is as easy as one of 0.1, because exp(K(t) - t eps) carries the smallness. There is no grid of losses and no
truncation of tails, hence nothing in common with the accounting library except the definition of the pairs; agreement
of the two is evidence.

Losses with atoms (Laplace, randomised response) fall off like 1/v^2 only; there an extra Gaussian release of
negligible size b is added, which makes the integrand die out and can only increase the result: by about
b^2 (1 + t) / 2, kept below 2e-4 of epsilon. A handful of rarely sampled steps is the one case the line does not suit
(bulk and tail of the loss differ by orders of magnitude); there the characteristic function is inverted on a lattice
instead, by a plain Fourier transform of a finely rounded loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from privaware.accounting._pairs import Array, CappedGaussian, DominatingPair, GaussianPair, SampledGaussian
from privaware.accounting._terms import Terms

_FAR = 26.0  # the integrand is followed until it is exp(-26) of its peak
_MOST = 1 << 13
_WORK = 3e6  # exponentials: a few tenths of a second
_NODES = 24


class TooSlow(Exception):
    """Neither the line nor the lattice resolves this composition."""


def epsilon(terms: Terms, delta: float) -> float:
    """The epsilon of the composition, the larger direction."""
    if terms.failure >= delta:
        return math.inf
    if not terms.pairs:
        return 0.0
    rest = (delta - terms.failure) / (1 - terms.failure)
    return min(max(_one(terms, rest, direction) for direction in terms.directions()), terms.pure())


def delta(terms: Terms, epsilon: float) -> float:
    """The delta of the composition at `epsilon`, the larger direction."""
    worst = max((_one_delta(terms, epsilon, d) for d in terms.directions()), default=0.0)
    return terms.failure + (1 - terms.failure) * min(worst, 1.0)


def real_curve(terms: Terms, direction: str) -> Callable[[float], float]:
    known: dict[float, float] = {}

    def curve(t: float) -> float:
        if t not in known:
            z = np.array([t])
            with np.errstate(over="ignore", invalid="ignore"):
                known[t] = sum(n * float(pair.log_mgf(z, direction)[0]) for pair, n in terms.pairs)
        return known[t]

    return curve


def bound_on_epsilon(t: float, k: float, delta: float) -> float:
    """Chernoff: delta(eps) <= exp(K(t) - t eps) t^t / (1+t)^(1+t), solved for eps: the conversion of RDP, order 1+t."""
    return (k - math.log(delta) + t * math.log(t) - (1 + t) * math.log1p(t)) / t


def saddle(curve: Callable[[float], float], height: Callable[[float, float], float], guess: float) -> float:
    """The t > 0 that minimises `height(t, K(t))`, to a few per cent: any t is right, a near one is quick."""

    def f(u: float) -> float:
        value = height(math.exp(u), curve(math.exp(u)))
        return value if math.isfinite(value) else math.inf

    u = math.log(min(max(guess, 1e-16), 1e7))
    step, best = 1.0, f(u)
    for way in (1.0, -1.0):
        while -40 < u + way * step < 18 and (value := f(u + way * step)) < best:
            u, best = u + way * step, value
    for _ in range(4):
        step /= 2
        left, right = f(u - step), f(u + step)
        if min(left, right) < best:
            u, best = (u - step, left) if left < right else (u + step, right)
    return math.exp(u)


def guess(terms: Terms, delta: float) -> float:
    """Where the saddle would be if the loss were Gaussian."""
    variance = sum(n * pair.spread() ** 2 for pair, n in terms.pairs)
    return math.sqrt(2 * math.log(1 / delta) / max(variance, 1e-12))


def _rare(terms: Terms) -> bool:
    """Whether a row is hardly ever sampled in the whole composition: then bulk and tail are worlds apart."""
    hits = [n * getattr(pair, "rate", 1.0) * getattr(pair, "group", 1) for pair, n in terms.pairs]
    return any(isinstance(pair, (SampledGaussian, CappedGaussian)) for pair, _ in terms.pairs) and sum(hits) < 0.05


def _one(terms: Terms, delta: float, direction: str) -> float:
    if _rare(terms):
        return _Lattice(terms, delta, direction).epsilon(delta)
    try:
        return _on_line(terms, delta, direction)
    except TooSlow:
        return _Lattice(terms, delta, direction).epsilon(delta)


def _on_line(terms: Terms, delta: float, direction: str) -> float:
    """Walks down from the Chernoff bound in steps of 1/t, on which delta changes by about a factor e."""
    curve, aim = real_curve(terms, direction), math.log(delta)
    t = saddle(curve, lambda t, k: bound_on_epsilon(t, k, delta), guess(terms, delta))
    if math.isfinite(terms.pure()):  # a loss with a largest value draws t to infinity; beyond this nothing is gained
        t = min(t, 2e4 / max(bound_on_epsilon(t, curve(t), delta), 1e-300))
    high = bound_on_epsilon(t, curve(t), delta)
    line = Line(terms, direction, t, high)
    step = 1 / t
    while high > 0:
        low = max(high - step, 0.0)
        if not line.trusted(low):
            t = _saddle_at(curve, low, t)
            line = Line(terms, direction, t, low)
        if line.log_delta(low) > aim:
            epsilon = line.epsilon(aim, low, high)
            if epsilon > line.near / 2:
                return epsilon
            # The extra release was sized for a larger epsilon: once more.
            return Line(terms, direction, t, epsilon).epsilon(aim, low, high)
        high, step = low, 2 * step
    return 0.0


def _saddle_at(curve: Callable[[float], float], epsilon: float, near: float) -> float:
    return saddle(curve, lambda t, k: k - t * epsilon, near)


def _one_delta(terms: Terms, epsilon: float, direction: str) -> float:
    if _rare(terms):
        return _Lattice(terms, 1e-12, direction).delta(epsilon)
    try:
        t = _saddle_at(real_curve(terms, direction), epsilon, guess(terms, 1e-5))
        return Line(terms, direction, t, epsilon).delta(epsilon)
    except TooSlow:
        return _Lattice(terms, 1e-12, direction).delta(epsilon)


class _Lattice:
    """The composed loss on a fine lattice: every loss is split between its two neighbours, the mean kept."""

    def __init__(self, terms: Terms, delta: float, direction: str) -> None:
        from scipy import fft

        parts = [(*_bulk(pair, direction, n, delta), n) for pair, n in terms.pairs]
        curve, aside = real_curve(terms, direction), math.log(delta * 1e-5)
        orders = guess(terms, delta) * 4.0 ** np.arange(-3, 3)
        # Chernoff: beyond these ends there is a hundred-thousandth of delta, which may wrap around.
        high, order = min(((curve(float(t)) - aside) / float(t), float(t)) for t in orders)
        high = min(high, sum(n * float(losses[-1]) for losses, _, n in parts))
        low = max(aside, sum(n * float(losses[0]) for losses, _, n in parts))
        size = 1 << 19
        self.width = (high - low) / (size - 2 * sum(n for _, _, n in parts) - 2)
        if self.width <= 0:
            raise TooSlow
        # Tilted, so that rounding errors stay small beside the tail, but not so far that the ends matter again.
        self.theta = min(order / 2, 500 / (high - low))
        while curve(self.theta) > 3:  # nor so far that undoing it blows up the errors near 0
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

    def delta(self, epsilon: float) -> float:
        above = self.losses > epsilon
        losses = self.losses[above]
        weight = np.exp(np.minimum(self.log_scale - self.theta * losses, 700.0))
        return min(1.0, float(weight * self.probs[above] @ -np.expm1(epsilon - losses)))

    def epsilon(self, delta: float) -> float:
        from scipy import optimize

        high = float(self.losses[-1])
        if self.delta(0.0) <= delta or high <= 0:
            return 0.0
        return float(optimize.brentq(lambda e: self.delta(e) - delta, 0.0, high, rtol=1e-7))


def _bulk(pair: DominatingPair, direction: str, count: int, delta: float) -> tuple[Array, Array]:
    """The points of a pair without the upper tail that could only contribute a thousandth of delta."""
    losses, probs = pair.points(direction)
    order = np.argsort(losses)
    losses, probs = losses[order], probs[order]
    above = np.cumsum(probs[::-1])[::-1]
    keep = above > delta * 1e-6 / count
    return losses[keep], probs[keep]


class Line:
    """The integrand on the line Re z = t, sampled once; then delta at any epsilon near the given one is one sum.

    Panels double in length away from the real axis, because a loss has features of all sizes (the bulk of a rarely
    sampled release is thousands of times narrower than its tail) and the wide ones die out first. A panel whose
    Legendre coefficients have not died out is cut in two.
    """

    def __init__(self, terms: Terms, direction: str, t: float, epsilon: float) -> None:
        self.t, self.near = t, epsilon
        self.terms, self.direction = terms, direction
        self.k = real_curve(terms, direction)(t)
        self.work = 0.0
        self._z: list[Array] = []
        self._k: list[Array] = []
        self._w: list[Array] = []
        blur = self._follow()
        z, k, w = (np.concatenate(part) for part in (self._z, self._k, self._w))
        if blur:
            k = k + GaussianPair(mu=blur).log_mgf(z, direction)
        self.z, self.value = z, w * np.exp(k - self.k) / (z * (1 + z))

    def _follow(self) -> float:
        """Samples outwards until the integrand is negligible; the size of the extra release needed for that."""
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
            self.work += sum(z.size * pair.work(z, self.direction) for pair, _ in self.terms.pairs)
            if self.work > _WORK:
                raise TooSlow
            k = np.zeros(z.size, dtype=complex)
            for pair, n in self.terms.pairs:
                k += n * pair.log_mgf(z, self.direction)
            count += z.size
            f = np.exp(k - self.k + (self.t - z) * self.near) / (z * (1 + z))
            rough = np.abs(f.reshape(v.shape) @ tail).max(axis=1) * half[:, 0]
            coarse = rough * self.t > 1e-9 if count < _MOST else np.zeros(len(edges), dtype=bool)
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
        """Whether the sum at `epsilon` stands well above rounding: far from the saddle its terms cancel."""
        total = float(np.sum(self.value * np.exp((self.t - self.z) * epsilon)).real)
        return total * (1 + self.t) > 1e-5

    def delta(self, epsilon: float) -> float:
        return math.exp(min(self.log_delta(epsilon), 0.0))

    def epsilon(self, aim: float, low: float, high: float) -> float:
        """Where ln delta equals `aim`, between `low` (delta too large) and `high`."""
        from scipy import optimize

        def gap(epsilon: float) -> float:
            return self.log_delta(epsilon) - aim

        while gap(high) > 0:  # the bound does not know of the extra release
            high += 1 / self.t
        return float(optimize.brentq(gap, low, high, rtol=1e-10, xtol=1e-300))


@lru_cache(maxsize=1)
def _rule() -> tuple[Array, Array, Array]:
    """Gauss-Legendre nodes and weights, and what extracts the last four Legendre coefficients."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    vander = np.polynomial.legendre.legvander(nodes, _NODES - 1)
    return nodes, weights, (vander * weights[:, None])[:, -4:]
