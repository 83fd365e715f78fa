"""Privacy costs of objective perturbation: published analyses, and one that bounds slope and curvature together.

Notation: F_D is the objective in sum form for the rows D. Rows have norm at most R. The linear term is b . w, with b of
scale noise * R. `bound` is R^2 / ridge, written k below. The relation is one row added or removed.

Proof of the analysis called tight.
1. F_D is smooth and strongly convex, so b -> w is one to one and smooth in both directions. Its inverse is b_D(w) =
   -(gradient of the unperturbed objective at w). The density of w is the density of b at b_D(w), times det H_D(w),
   where H_D is the Hessian. This needs the exact minimiser; step 5 accounts for an approximate one.
2. Let D' be D with one more row x, at the same w. Let p = |slope| of its loss at w, which is at most 1, and q the
   second derivative of its loss at w. Then b_D' = b_D -+ p x, and det H_D' / det H_D = 1 + q x^T H_D^-1 x lies between
   1 and 1 + q |x|^2 / ridge. For the logistic loss q = p (1 - p), for log cosh q = 1 - p^2: a row of large curvature
   has a small slope, and vice versa. A row of norm c R < R is covered: with p' = c p the terms below are the terms of
   p' with curvature c^2 q <= q(p').
3. Gamma distribution. ||b_D'| - |b_D|| <= p R at any w, so in both directions
       |privacy loss| <= max over p in [0, 1] of  p / noise + ln(1 + q(p) k)
   This maximum is 1 / noise, as if the determinant had no cost, if k <= 1 / noise (logistic; ln(1 + y) <= y, and p /
   noise + p (1 - p) k grows up to p = 1) or 2 k <= 1 / noise (log cosh). Replacing a row is removing one and adding
   one. Only one of the two determinant ratios is above 1, so the cost is at most the maximum plus 1 / noise. The noise
   here is the noise that is drawn, including the `SMEAR` share of step 5.
4. Gaussian distribution, s = 1 / noise. Let N ~ N(0, s^2) be the component of b along x.
   - If the rows are D, the privacy loss against D' is at most p N + p^2 s^2 / 2. It is convex in p, so it is at most
     max(0, N + s^2 / 2). At any epsilon >= 0 it is no worse than the Gaussian mechanism, however p depends on N.
   - If the rows are D', the privacy loss against D is at most p N + p^2 s^2 / 2 + ln(1 + q k). With ln(1 + y) <= y and
     the worst p for each N this gives `tilted_delta`, which from epsilon k - s^2 / 2 on equals the Gaussian mechanism
     exactly.
   - The slope of the logistic loss has one sign, so N appears with one sign. Log cosh has |N|, hence twice the delta,
     from epsilon 2 k - s^2 / 2 on.
   - Both directions lie below the curve of one symmetric Gaussian mechanism (`equivalent`) at epsilon >= 0. The two
     directions mirror each other, so they do at any epsilon. That Gaussian mechanism dominates, and composes as such.
5. Approximate minimiser. The release is w~ + v, where w~ is certified to lie within a slack of w, and v has the same
   distribution as the noise of step 3 or 4. It costs as much as releasing w first and then w~ + v, where w~ moves by at
   most two slacks. v is so large that this costs a thousandth (`SMEAR`) of the main release: costs add for the gamma
   distribution, and their squares add for the Gaussian.

Papers: Chaudhuri, Monteleoni, Sarwate 2011; Kifer, Smith, Thakurta 2012; Redberg, Koskela, Wang 2023, arXiv:2401.00583
(their |N| and -ln(1 - curvature R^2 / ridge) hold for every generalised linear model). Step 2 is this package's own;
research/papers/_ours_convex.py checks it against exact densities, the published bounds and simulated games.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from privaware.errors import WrongInput

LEAST_RIDGE = {"logistic": 1.0, "logcosh": 2.0}
"""If `ridge >= LEAST_RIDGE[loss] * R**2 * noise`, the determinant adds no cost under the gamma distribution."""

PIECES = 48
"""Number of intervals of epsilon on which `equivalent` compares two privacy curves."""

NODES = 64
"""Number of nodes of the Gauss-Legendre rule that integrates a privacy profile."""


def pure_epsilon(noise: float, bound: float, loss: str = "logistic") -> float:
    """Return epsilon of objective perturbation with a random linear term from the gamma distribution (tight analysis).

    The linear term has the scale `noise * R`, where R bounds the norm of a row, and `bound` is `R**2 / ridge`. `loss`
    is "logistic" or "logcosh". Epsilon is for one row added or removed: the maximum over p in [0, 1] of
    `p / noise + ln(1 + q * bound)`, where q is `p * (1 - p)` for "logistic" and `1 - p**2` for "logcosh".

    >>> round(pure_epsilon(1.0, 1.0), 6), round(pure_epsilon(1.0, 4.0), 6)
    (1.0, 1.311397)
    """
    a = 1 / noise
    if loss == "logistic":
        p = 2 * (a + bound) / bound / (2 - a + math.sqrt((a - 2) ** 2 + 4 * a * (a + bound) / bound))
        p = min(p, 1.0)
        return p * a + math.log1p(p * (1 - p) * bound)
    ratio = a * (1 + bound) / bound
    p = min(ratio / (1 + math.sqrt(1 + a * ratio)), 1.0)
    return p * a + math.log1p((1 - p * p) * bound)


def chaudhuri(epsilon: float, ridge: float, norm: float, curvature: float = 0.25) -> tuple[float, float]:
    """Return the part of `epsilon` that is left for the noise, and the ridge to use, by Chaudhuri et al. 2011.

    `epsilon` is for one row replaced. `norm` is the bound R on the norm of a row, and `curvature` the bound on the
    second derivative of the loss. The determinant takes `2 * ln(1 + curvature * R**2 / ridge)` of `epsilon`. If nothing
    is left, the noise gets `epsilon / 2` and the ridge is raised to `curvature * R**2 / (exp(epsilon / 4) - 1)`.

    Rows of norm R enter as `curvature * R**2`, the eigenvalue of x x^T; a well-known library uses `curvature * R`
    instead. The scale of the gamma noise is 2 R divided by the first result. For one row added or removed the same
    release costs `epsilon / 2`.

    >>> [round(value, 5) for value in chaudhuri(1.0, ridge=10.0, norm=1.0)]
    [0.95061, 10.0]
    """
    most = curvature * norm**2
    left = epsilon - 2 * math.log1p(most / ridge)
    if left > 0:
        return left, ridge
    return epsilon / 2, most / math.expm1(epsilon / 4)


def kifer_epsilon(noise: float, delta: float) -> float:
    """Return the epsilon at `delta` that Kifer et al. published for a Gaussian linear term in the objective.

    The linear term has the standard deviation `noise * R`, where R bounds the norm of a row. They state the inverse:
    `noise = sqrt(8 * ln(2 / delta) + 4 * epsilon) / epsilon`. The ridge must be at least
    `2 * curvature * R**2 / epsilon`.
    """
    return (2 + math.sqrt(4 + 8 * noise**2 * math.log(2 / delta))) / noise**2


def redberg_delta(epsilon: float, noise: float, shrink: float) -> float:
    """Return the delta at `epsilon` by Redberg et al. 2023, for a Gaussian linear term in the objective.

    The linear term has the standard deviation `noise * R`, where R bounds the norm of a row, and `shrink` is
    `curvature * R**2 / ridge`. The privacy loss is dominated by -ln(1 - shrink) + s^2 / 2 + |N(0, s^2)|, with s = 1 /
    noise. Delta is 1 if `epsilon` is below `-ln(1 - shrink) + s^2 / 2`. A `shrink` of 1 or more raises `WrongInput`.
    """
    if not 0 <= shrink < 1:
        raise WrongInput(
            f"expected a ridge above the curvature of one row, got a curvature of {shrink:g} times ridge; raise ridge"
        )
    s = 1 / noise
    left = epsilon + math.log1p(-shrink) - s * s / 2
    if left < 0:
        return 1.0
    return min(1.0, 2 * _hockey(left, s, 0.0))


def _hockey(threshold: float, s: float, shift: float) -> float:
    """Return the mean of `max(0, 1 - exp(threshold - N - shift))` over N ~ N(0, s^2).

    It is the delta at epsilon `threshold` of a privacy loss N + shift.
    """
    from scipy.special import log_ndtr, ndtr

    at = threshold - shift
    return float(ndtr(-at / s) - math.exp(at + s * s / 2 + float(log_ndtr(-at / s - s))))


def redberg_epsilon(noise: float, delta: float, shrink: float) -> float:
    """Return the smallest epsilon at which `redberg_delta(epsilon, noise, shrink)` is at most `delta`, rounded up.

    >>> round(redberg_epsilon(4.08, 1e-5, shrink=1 / 20), 2)
    1.0
    """
    return _least(lambda epsilon: redberg_delta(epsilon, noise, shrink), delta)


def gaussian_delta(epsilon: float, noise: float) -> float:
    """Return the delta of the plain Gaussian mechanism with noise multiplier `noise` at `epsilon`."""
    return _hockey(epsilon, 1 / noise, 0.5 / noise**2)


def gaussian_epsilon(noise: float, delta: float, bound: float, loss: str) -> float:
    """Return an epsilon at `delta` of objective perturbation with a Gaussian linear term, by the tight analysis.

    The linear term has the standard deviation `noise * R`, where R bounds the norm of a row, and `bound` is
    `R**2 / ridge`. The result is the epsilon of the plain Gaussian mechanism, at `delta` for the loss "logistic" and at
    `delta / 2` for "logcosh", but at least `LEAST_RIDGE[loss] * bound + 0.5 / noise**2`. `LEAST_RIDGE` is 1 for
    "logistic" and 2 for "logcosh". The proof in the docstring of this module applies to this and every larger epsilon.
    """
    sides = 1 if loss == "logistic" else 2
    least = LEAST_RIDGE[loss] * bound + 0.5 / noise**2
    return max(least, plain_epsilon(noise, delta / sides))


def plain_epsilon(noise: float, delta: float) -> float:
    """Return the epsilon of the plain Gaussian mechanism with noise multiplier `noise` at `delta`.

    >>> round(plain_epsilon(3.7306, 1e-5), 3)
    1.0
    """
    return _least(lambda epsilon: gaussian_delta(epsilon, noise), delta)


def _least(curve: Callable[[float], float], delta: float) -> float:
    """Return the smallest positive argument at which the decreasing function `curve` is at most `delta`.

    The result is rounded up by a relative error of at most 1e-10.
    """
    low, high = 1e-12, 1.0
    while curve(high) > delta:
        low, high = high, 2 * high
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if curve(middle) <= delta else (middle, high)
    return high


def tilted_delta(epsilon: float, noise: float, bound: float) -> float:
    """Return an upper bound on delta at `epsilon >= 0`, for the logistic loss with a Gaussian linear term.

    The bound is for the direction in which the privacy loss also has the determinant: p N + p^2 s^2 / 2 + ln(1 + p (1 -
    p) bound), where p in [0, 1] is the slope of the loss, N ~ N(0, s^2), s = 1 / noise, and `bound` is R^2 / ridge for
    rows of norm at most R. With ln(1 + y) <= y the worst slope p for a given N has a closed form. Let a = bound - s^2 /
    2 > 0. Then p = (N + bound) / (2 a), with a privacy loss of (N + bound)^2 / (4 a), until p reaches 1 at N = bound -
    s^2. If a <= 0 the result is the delta of the plain Gaussian mechanism.
    """
    from scipy.special import log_ndtr, ndtr

    s = 1 / noise
    a = bound - s * s / 2
    if a <= 0:
        return gaussian_delta(epsilon, noise)
    start, turn = -bound + 2 * math.sqrt(a * epsilon), bound - s * s
    if start >= turn:
        return gaussian_delta(epsilon, noise)
    tail = float(ndtr(-turn / s)) - math.exp(epsilon + float(log_ndtr(-turn / s - s)))
    nodes, weights = _nodes()
    t = start + (turn - start) * nodes
    inside = -np.expm1(epsilon - (t + bound) ** 2 / (4 * a)) * np.exp(-0.5 * (t / s) ** 2)
    return tail + float(weights @ inside) * (turn - start) / (s * math.sqrt(2 * math.pi))


@lru_cache(maxsize=1)
def _nodes() -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes and the weights of the Gauss-Legendre rule with `NODES` nodes on [0, 1], two arrays (NODES,)."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return (nodes + 1) / 2, weights / 2


@lru_cache(maxsize=4096)
def equivalent(noise: float, bound: float) -> float:
    """Return the noise multiplier of a plain Gaussian mechanism that is at most as private as objective perturbation.

    The objective has the logistic loss and a Gaussian linear term of standard deviation `noise * R`, where R bounds the
    norm of a row. Its curve of delta by epsilon, `tilted_delta`, is compared with the curve of the Gaussian mechanism.
    Let k be `bound`, R^2 / ridge, and s = 1 / noise. From epsilon = k - s^2 / 2 on, our curve equals the curve of the
    plain Gaussian mechanism with `noise`, so only smaller epsilon are compared, on a grid up to k + s^2 / 2. Both
    curves are convex in e^epsilon: our curve lies below its chords between grid points, the Gaussian curve above its
    tangents. The search finds the largest noise multiplier at which the chord lies below the tangent at both ends of
    every interval. The result never exceeds `noise`; it is `noise` if bound <= s^2 / 2.

    >>> equivalent(1.5, 1.5**-2 / 2), round(equivalent(4.0, 1 / 16), 2), round(equivalent(4.0, 1 / 4), 2)
    (1.5, 3.99, 3.58)
    """
    s = 1 / noise
    if bound <= s * s / 2:
        return noise
    if noise > 1e5:  # for large noise both curves scale with s
        return noise * equivalent(1e5, bound * noise / 1e5) / 1e5 * (1 - 1e-3)
    grid = np.linspace(0.0, bound + s * s / 2, PIECES + 1)
    curve = np.array([tilted_delta(float(epsilon), noise, bound) for epsilon in grid])
    low, high = 1.0, 1 + bound / s  # the loss is at most s N + s^2 / 2 + bound
    while not _covers(high * s, grid, curve):
        high *= 2
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if _covers(middle * s, grid, curve) else (middle, high)
    return noise / high


def _covers(mu: float, grid: np.ndarray, curve: np.ndarray) -> bool:
    """Return whether the privacy curve of a Gaussian mechanism lies above the chords of `curve`, on all of `grid`.

    `grid` holds values of epsilon and `curve` the values of delta there. `mu` is 1 divided by the noise multiplier of
    the Gaussian mechanism. Its curve is represented by the tangent at the middle of each interval.
    """
    from scipy.special import log_ndtr, ndtr

    middle = (grid[:-1] + grid[1:]) / 2
    below = np.exp(middle + log_ndtr(-middle / mu - mu / 2))
    value = ndtr(-middle / mu + mu / 2) - below
    left = value - below * np.expm1(grid[:-1] - middle)
    right = value - below * np.expm1(grid[1:] - middle)
    return bool((curve[:-1] <= left).all() and (curve[1:] <= right).all())
