"""The accountant of our own: delta as an inverse Laplace transform, along a line through the saddle point.

With `K(z) = sum_i n_i ln E[exp(z l_i)]` over all releases, and any t > 0,

    delta(eps) = E[(1 - exp(eps - L))_+] = 1/(2 pi) * integral over v of exp(K(z) - z eps) / (z (1 + z)),  z = t + i v.

Every t gives the same value, but not the same work. Where K'(t) = eps (the saddle) the integrand is largest at v = 0 and
falls off like a Gaussian, with no cancellation: thirty nodes can give ten digits, and a delta of 1e-30 is as easy as one of
0.1, because exp(K(t) - t eps) carries the smallness. There is no grid of losses and no truncation of tails, hence nothing
in common with the accounting library except the definition of the pairs; agreement of the two is evidence.

Losses with atoms
(Laplace, randomised response) fall off like 1/v^2 only; there an extra Gaussian release of negligible size b is added, which
makes the integrand die out and can only increase the result: by about b^2 (1 + t) / 2, kept below 2e-4 of epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privaware.accounting._laws import DIRECTIONS, Array, Normal, Terms

_FAR = 26.0  # the integrand is followed until it is exp(-26) of its peak
_MOST = 1 << 16
_NODES = 24


def epsilon(terms: Terms, delta: float) -> float:
    """The epsilon of the composition, the larger direction."""
    rest = (delta - terms.failure) / (1 - terms.failure) if terms.failure < 1 else -1.0
    if rest <= 0:
        return math.inf
    if not terms.laws:
        return 0.0
    return max(_one(terms, rest, direction) for direction in directions(terms))


def delta(terms: Terms, epsilon: float) -> float:
    """The delta of the composition at `epsilon`, the larger direction."""
    if not terms.laws:
        return terms.failure
    worst = 0.0
    for direction in directions(terms):
        curve = real_curve(terms, direction)
        t = saddle(curve, lambda t, k: k - t * epsilon)
        worst = max(worst, _Line(terms, direction, t, epsilon).delta(epsilon))
    return terms.failure + (1 - terms.failure) * min(worst, 1.0)


def directions(terms: Terms) -> tuple[str, ...]:
    return DIRECTIONS[:1] if all(law.symmetric for law, _ in terms.laws) else DIRECTIONS


def real_curve(terms: Terms, direction: str) -> Callable[[float], float]:
    def curve(t: float) -> float:
        z = np.array([t])
        with np.errstate(over="ignore", invalid="ignore"):
            return sum(n * float(law.log_mgf(z, direction)[0]) for law, n in terms.laws)

    return curve


def bound_on_epsilon(t: float, k: float, delta: float) -> float:
    """Chernoff: delta(eps) <= exp(K(t) - t eps) t^t / (1+t)^(1+t), solved for eps (the RDP conversion, order 1+t)."""
    return (k - math.log(delta) + t * math.log(t) - (1 + t) * math.log1p(t)) / t


def saddle(curve: Callable[[float], float], height: Callable[[float, float], float]) -> float:
    """The t > 0 that minimises `height(t, K(t))`, to a few per cent: any t is right, a near one is quick."""
    grid = [10.0**p for p in np.arange(-4, 6.5, 0.5)]
    values = []
    for t in grid:
        value = height(t, curve(t))
        values.append(value if math.isfinite(value) else math.inf)
        if len(values) > 3 and values[-1] > values[-2] > values[-3] and value > min(values) + 1e-12:
            break
    best = int(np.argmin(values))
    low, high = math.log(grid[max(best - 1, 0)]), math.log(grid[min(best + 1, len(values) - 1)])
    ratio = (math.sqrt(5) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    fa, fb = (height(math.exp(x), curve(math.exp(x))) for x in (a, b))
    for _ in range(8):
        if fa < fb:
            high, b, fb = b, a, fa
            a = high - ratio * (high - low)
            fa = height(math.exp(a), curve(math.exp(a)))
        else:
            low, a, fa = a, b, fb
            b = low + ratio * (high - low)
            fb = height(math.exp(b), curve(math.exp(b)))
    return math.exp(a if fa < fb else b)


def _one(terms: Terms, delta: float, direction: str) -> float:
    """Walks down from the Chernoff bound in steps of 1/t, on which delta changes by about a factor e."""
    curve, aim = real_curve(terms, direction), math.log(delta)
    t = saddle(curve, lambda t, k: bound_on_epsilon(t, k, delta))
    high = bound_on_epsilon(t, curve(t), delta)
    line = _Line(terms, direction, t, high)
    step = 1 / t
    while high > 0:
        low = max(high - step, 0.0)
        if not line.trusted(low):
            t = saddle(curve, lambda t, k, low=low: k - t * low)  # type: ignore[misc]
            line = _Line(terms, direction, t, low)
        if line.log_delta(low) > aim:
            return _root(lambda e: line.log_delta(e) - aim, low, high)
        high, step = low, 2 * step
    return 0.0


def _root(f: Callable[[float], float], low: float, high: float) -> float:
    from scipy import optimize

    while f(high) > 0:
        high *= 1.5
        if high > 1e300:
            return math.inf
    return float(optimize.brentq(f, low, high, rtol=1e-10, xtol=1e-300))


class _Line:
    """The integrand on the line Re z = t, sampled once; then delta at any epsilon near `epsilon` is one sum.

    Panels double in length away from the real axis, because a loss law has features of all sizes (the bulk of a rarely
    sampled release is thousands of times narrower than its tail) and the wide ones die out first. A panel whose
    Legendre coefficients have not died out is cut in two.
    """

    def __init__(self, terms: Terms, direction: str, t: float, epsilon: float) -> None:
        self.t, self.epsilon = t, epsilon
        self.terms, self.direction = terms, direction
        self.k = real_curve(terms, direction)(t)
        self._z: list[Array] = []
        self._k: list[Array] = []
        self._w: list[Array] = []
        blur = self._follow()
        z, k, w = (np.concatenate(part) for part in (self._z, self._k, self._w))
        if blur:
            k = k + Normal(mu=blur).log_mgf(z, direction)
        self.z, self.value = z, w * np.exp(k - self.k) / (z * (1 + z))

    def _follow(self) -> float:
        """Samples outwards until the integrand is negligible; the size of the extra release needed for that."""
        enough = 2e-2 * math.sqrt(max(self.epsilon, 1e-9) / (1 + self.t))
        low, high, count = 0.0, self.t / 4, 0
        while True:
            count += self._octave(low, high)
            level = float(np.max(self._k[-1].real)) - self.k + 2 * math.log(self.t / high)
            if level < -_FAR:
                return 0.0
            need = math.sqrt(2 * (level + _FAR)) / high
            if need <= enough or count >= _MOST:
                return need
            low, high = high, 2 * high

    def _octave(self, low: float, high: float) -> int:
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        tail = (np.polynomial.legendre.legvander(nodes, _NODES - 1) * weights[:, None])[:, -4:]
        edges = np.array([[low, high]])
        count = 0
        while len(edges):
            half = (edges[:, 1] - edges[:, 0])[:, None] / 2
            v = edges.mean(axis=1)[:, None] + half * nodes
            z = (self.t + 1j * v).ravel()
            k = np.zeros(z.size, dtype=complex)
            for law, n in self.terms.laws:
                k += n * law.log_mgf(z, self.direction)
            count += z.size
            f = np.exp(k - self.k + (self.t - z) * self.epsilon) / (z * (1 + z))
            rough = np.abs(f.reshape(v.shape) @ tail).max(axis=1) * half[:, 0]
            coarse = rough * self.t > 1e-9 if count < _MOST else np.zeros(len(edges), dtype=bool)
            keep = np.repeat(~coarse, _NODES)
            self._z.append(z[keep])
            self._k.append(k[keep])
            self._w.append((half * weights).ravel()[keep])
            left = edges[coarse]
            middle = left.mean(axis=1)
            edges = np.concatenate(
                [np.stack([left[:, 0], middle], 1), np.stack([middle, left[:, 1]], 1)]
            )
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
