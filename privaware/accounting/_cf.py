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

import numpy as np

from privaware.accounting._cf_inversion import Line, LossLattice
from privaware.accounting._cf_sum import LossSum, TooSlow
from privaware.accounting._chernoff import bound_on_epsilon, guess, saddle
from privaware.accounting._quadrature import Array


def epsilon(total: LossSum, delta: float) -> float:
    """Return the epsilon of the composition `total` at `delta`.

    It is infinite if the failure probability of `total` is at least `delta`. Raise `TooSlow` if neither a line nor a
    lattice resolves the losses.
    """
    if total.failure >= delta:
        return math.inf
    if not total.losses:
        return 0.0
    rest = (delta - total.failure) / (1 - total.failure)
    return min(_one(total, rest), total.largest)


def deltas(total: LossSum, epsilons: Array) -> Array:
    """Return the delta of the composition `total` if no release fails, at ascending `epsilons` >= 0.

    One line gives delta at epsilons near its own; further epsilons need another line. A lattice is used instead if
    few rows are sampled (`rare`), if there are few steps (`few`), or if the loss has a largest value: then it has
    atoms, and a line would give delta at very few epsilons. Raise `TooSlow` if no lattice resolves the losses.
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
    """Return epsilon by stepping down from the Chernoff bound until delta is too large, then solving in the last step.

    The first step is 1/t, over which delta changes by about a factor e; steps double.
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
