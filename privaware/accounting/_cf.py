"""The second accountant: delta as an inverse Laplace transform, along a line through the saddle point.

With `K(z) = sum_i n_i ln E[exp(z l_i)]` over all releases, and any t > 0,

    delta(eps) = E[(1 - exp(eps - L))_+] = 1/(2 pi) * integral over v of exp(K(z) - z eps) / (z (1 + z)),

z = t + i v. Every t gives the same value, but not the same work. Where K'(t) = eps (the saddle) the integrand is
largest at v = 0 and falls off like a Gaussian, with no cancellation: thirty nodes can give ten digits, and a delta of
1e-30 is as easy as one of 0.1, because exp(K(t) - t eps) carries the smallness. There is no grid of losses and no
truncation of tails. Events are read by `_cf_tree.py` and their losses written down in `_cf_losses.py`; nothing of the
first accountant is used, so that agreement of the two is evidence.

Losses with atoms (Laplace, randomised response) fall off like 1/v^2 only; there an extra Gaussian release of
negligible size b is added, which makes the integrand die out and can only increase the result: by about
b^2 (1 + t) / 2, kept below 2e-4 of epsilon. A handful of rarely sampled steps is the one case the line does not suit
(bulk and tail of the loss differ by orders of magnitude); there the characteristic function is inverted on a lattice
instead, by a plain Fourier transform of a finely rounded loss.
"""

from __future__ import annotations

import math

import numpy as np

from privaware.accounting._cf_inversion import Line, LossLattice
from privaware.accounting._cf_sum import LossSum, TooSlow
from privaware.accounting._chernoff import bound_on_epsilon, guess, saddle
from privaware.accounting._quadrature import Array


def epsilon(total: LossSum, delta: float) -> float:
    """The epsilon of the composition."""
    if total.failure >= delta:
        return math.inf
    if not total.losses:
        return 0.0
    rest = (delta - total.failure) / (1 - total.failure)
    return min(_one(total, rest), total.largest)


def deltas(total: LossSum, epsilons: Array) -> Array:
    """The delta of the composition, but for failures, at ascending epsilons >= 0.

    One line serves the epsilons near its own; then the next one takes over. A loss with a largest value has atoms, for
    which a line serves next to none.
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
    """Walks down from the Chernoff bound in steps of 1/t, on which delta changes by about a factor e."""
    aim = math.log(delta)
    t = saddle(total.curve, lambda t, k: bound_on_epsilon(t, k, delta), guess(total.variance, delta))
    if math.isfinite(total.largest):  # a loss with a largest value draws t to infinity; beyond this nothing is gained
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
            # The extra release was sized for a larger epsilon: once more.
            return Line(total, t, epsilon).epsilon(aim, low, high)
        high, step = low, 2 * step
    return 0.0


def _saddle_at(total: LossSum, epsilon: float, near: float) -> float:
    return saddle(total.curve, lambda t, k: k - t * epsilon, near)
