"""Newton's method for thousands of small regularised convex problems over the same rows, each certified.

Problem p is a generalised linear model in sum form, with its own columns, ridge and linear term:

    F_p(w) = sum_i loss(w . x_ip, y_ip) + ridge_p / 2 |w|^2 + tilt_p . w

Here x_ip is row i with the columns outside mask p set to zero, then clipped to the declared norm_p. The sum form does
not contain the number of rows, so one more row adds one term and changes nothing else.

All problems take damped Newton steps together. Margins and gradients are single matrix products. For few columns all
Hessians are one matrix product too (weights times products of columns).

A problem is solved when its gradient norm, computed by `ProblemGroup.certified`, is below its tolerance. By strong
convexity this bounds the distance to the true minimiser by `slack`. After at most `STEPS` Newton steps, unsolved
problems take accelerated gradient steps, whose number is known to suffice in real arithmetic (`_State.gradient_steps`).
Weights without a certificate after these steps are refused, because no noise would cover their distance.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import numpy as np

from privaware.errors import Refused
from privaware.learners._convex.problems import LOSSES, TOLERANCE, ProblemArrays, ProblemGroup

__all__ = ["LOSSES", "TOLERANCE", "Problems", "solve"]

Array = np.ndarray

MAX_MARGINS_PER_GROUP = 2**21
"""Bound on the size of a group of problems that are solved together, chosen to fit a processor's cache.

The number of problems times the larger of the number of rows and the squared number of columns is at most this.
"""

MAX_HESSIAN_COLUMNS = 768
"""Largest number of columns for which Hessians are formed; beyond it, steps come from conjugate gradients."""

STEPS = 300
"""Largest number of Newton steps, after which gradient steps follow."""

STEPS_PER_CHECK = 100
"""Number of gradient steps after which the gradient norm is compared with the tolerance."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Problems(ProblemArrays):
    """Convex problems in the form that `Rng.perturb` expects.

    `Rng.perturb` draws the linear terms (`tilt`) and calls `solve`.
    """

    def solve(self, tilt: Array) -> Array:
        """Return the minimisers (problems, columns) of the objectives with the linear terms `tilt` (problems, columns).

        Raise `Refused` if a minimiser is not certified.
        """
        return solve(self, tilt)

    def implied(self, weights: Array) -> tuple[Array, Array]:
        """Return the linear terms whose exact minimisers are `weights`, and the log-determinants of the Hessians there.

        The linear terms have the shape of `weights`, (problems, columns), and are 0 outside a problem's mask. The
        log-determinants (problems,) are of the Hessians over the columns in the mask.
        """
        tilts, volumes = np.empty_like(weights), np.empty(len(weights))
        for at in range(len(weights)):
            group = ProblemGroup(self, np.array([at]))
            margin = group.margins(weights[[at]])
            slope, curvature = group.slopes(margin)
            tilts[at] = -(group.back(slope) + group.ridge * weights[[at]])[0]
            volumes[at] = np.linalg.slogdet(group.hessians(curvature))[1][0]
        return tilts * self.masks, volumes


def solve(problems: Problems, tilt: Array, *, steps: int = STEPS) -> Array:
    """Return the minimisers (problems, columns), each with a certified gradient norm of at most its tolerance.

    `tilt` (problems, columns) holds the linear terms. After `steps` Newton steps the solver takes gradient steps. It
    raises `Refused` if a problem then has no certificate.
    """
    from concurrent.futures import ThreadPoolExecutor

    from threadpoolctl import threadpool_limits

    weights = np.zeros(problems.masks.shape)
    size = max(1, MAX_MARGINS_PER_GROUP // max(problems.rows.shape[0], problems.rows.shape[1] ** 2, 1))
    groups = [np.arange(at, min(at + size, len(weights))) for at in range(0, len(weights), size)]

    def solve_group(at: Array) -> None:
        weights[at] = _descend(ProblemGroup(problems, at), tilt[at] * problems.masks[at], steps)

    if len(groups) == 1:
        solve_group(groups[0])
        return weights
    # Many small factorisations are fastest with one thread for each group of problems.
    with threadpool_limits(1), ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(solve_group, groups))
    return weights


def _descend(group: ProblemGroup, tilt: Array, steps: int) -> Array:
    """Return the minimisers of one group: at most `steps` damped Newton steps, then gradient steps.

    `tilt` (problems of the group, columns) holds the linear terms. A solved problem leaves the group. Raise `Refused`
    if a problem ends without a certificate.
    """
    problems, weights = group.problems, np.zeros(tilt.shape)
    first = group.at[0]
    state = _State(group, tilt)
    for _ in range(steps):
        live = state.length > problems.tolerance[state.group.at]
        if not live.all():
            solved = ~live
            weights[state.group.at[solved] - first] = state.weights[solved]
            if solved.all():
                return weights
            state.keep(live)
        state.step()
    state.gradient_steps()
    state.expect_certificates()
    weights[state.group.at - first] = state.weights
    return weights


class _State:
    """Weights, margins, gradients and gradient norms (`length`) of the problems of a group that are not solved yet."""

    length: Array

    def __init__(self, group: ProblemGroup, tilt: Array) -> None:
        self.group, self.tilt = group, tilt
        self.weights = np.zeros(tilt.shape)
        self.margin = np.zeros((len(tilt), len(group.x)))
        self.value = group.values(self.margin, self.weights, tilt)
        self._measure()

    def keep(self, live: Array) -> None:
        """Keep only the problems for which the Boolean array `live` (problems,) is true."""
        self.group = self.group.take(live)
        for name in ("tilt", "weights", "margin", "value", "slope", "curvature", "gradient", "length"):
            setattr(self, name, getattr(self, name)[live])

    def step(self) -> None:
        direction = self._direction()
        along = self.group.margins(direction)
        size = self._line_search(direction, along)[:, None]
        self.weights = self.weights + size * direction
        self.margin = self.margin + size * along
        self._measure()

    def gradient_steps(self) -> None:
        """Update the weights by Nesterov's accelerated gradient method, until all problems are solved.

        With L the smoothness constant of an objective and k = L / ridge, the number of steps is at most
        sqrt(k) log(2 k (|gradient| / tolerance)^2), at the gradient before the first step. These steps suffice in real
        arithmetic (Nesterov 2018, Lectures on Convex Optimization, 2.2.1).
        """
        problems, at = self.group.problems, self.group.at
        norm, tolerance = problems.norm[at][:, None], problems.tolerance[at]
        smooth = self.group.ridge + self.group.loss.curvature * norm**2 * len(self.group.x)
        root = np.sqrt(smooth / self.group.ridge)
        needed = root[:, 0] * np.log(np.maximum(2 * root[:, 0] ** 2 * (self.length / tolerance) ** 2, 1.0))
        ahead = self.weights
        for step in range(math.ceil(needed.max(initial=0.0))):
            slope = self.group.slopes(self.group.margins(ahead))[0]
            gradient = (self.group.back(slope) + self.group.ridge * ahead + self.tilt) * self.group.mask
            before, self.weights = self.weights, ahead - gradient / smooth
            ahead = self.weights + (root - 1) / (root + 1) * (self.weights - before)
            if step % STEPS_PER_CHECK == STEPS_PER_CHECK - 1:
                self.margin = self.group.margins(self.weights)
                self._measure()
                if (self.length <= tolerance).all():
                    return

    def expect_certificates(self) -> None:
        """Raise `Refused` if the distance of any weights from the minimiser is not proven to be within the slack."""
        self.margin = self.group.margins(self.weights)
        self._measure()
        if not (self.length <= self.group.problems.tolerance[self.group.at]).all():
            raise Refused(
                "expected weights that are certified to be near the minimiser, got none within the steps of the "
                "solver; nothing is released: use a larger ridge"
            )

    def _measure(self) -> None:
        """Compute derivatives and gradients from the margins, and store them with the gradients' norms, `length`.

        Where the norm is at most twice the tolerance, the gradient is computed again by `ProblemGroup.certified`.
        """
        self.slope, self.curvature = self.group.slopes(self.margin)
        self.gradient = (self.group.back(self.slope) + self.group.ridge * self.weights + self.tilt) * self.group.mask
        self.length = np.linalg.norm(self.gradient, axis=1)
        near = self.length <= 2 * self.group.problems.tolerance[self.group.at]
        if near.any():
            part = self.group if near.all() else self.group.take(near)
            self.gradient[near] = part.certified(self.weights[near], self.tilt[near])
            self.length = np.linalg.norm(self.gradient, axis=1)
            if (self.length[near] > self.group.problems.tolerance[self.group.at[near]]).any():
                self.margin = self.group.margins(self.weights)  # the updated margin has accumulated rounding errors

    def _direction(self) -> Array:
        """Return the Newton direction of each problem (problems, columns).

        It comes from conjugate gradients if there are many columns or products of columns. Where rounding made the
        solution of the Newton equations an ascent direction, it is the negative gradient divided by the trace of the
        Hessian.
        """
        if self.group.x.shape[1] > MAX_HESSIAN_COLUMNS:
            return _conjugate(self.group, self.curvature, -self.gradient)
        if len(self.length) > 1 and self.group.problems.products is None:
            return _conjugate(self.group, self.curvature, -self.gradient, self.group.preconditioner(self.curvature))
        hessians = self.group.hessians(self.curvature)
        direction = _solution(hessians, -self.gradient[:, :, None]) * self.group.mask
        wrong = (direction * self.gradient).sum(axis=1) >= 0
        direction[wrong] = -self.gradient[wrong] / hessians[wrong].trace(axis1=1, axis2=2)[:, None]
        return direction

    def _line_search(self, direction: Array, along: Array) -> Array:
        """Return the step size of each problem: 1, halved up to 60 times until its objective decreases enough.

        `direction` (problems, columns) is the direction of the step, and `along` (problems, rows) its margins. After 60
        halvings the step size is used as it is. Where the expected decrease is within the rounding error of the
        objective, the step size is 1. The stored values of the objectives are updated.
        """
        size, fall = np.ones(len(direction)), (self.gradient * direction).sum(axis=1)
        blur = 1e-13 * (np.abs(self.value) + np.abs(self.tilt * self.weights).sum(axis=1) + 1)
        rest = np.flatnonzero(-fall > blur)
        before = self.value.copy()
        for _ in range(60):
            if not len(rest):
                break
            part = self.group if len(rest) == len(size) else self.group.take(rest)
            half = size[rest][:, None]
            after = part.values(
                self.margin[rest] + half * along[rest], self.weights[rest] + half * direction[rest], self.tilt[rest]
            )
            self.value[rest] = after
            high = after > before[rest] + 1e-4 * size[rest] * fall[rest] + blur[rest]
            rest = rest[high]
            size[rest] *= 0.5
        return size


def _solution(matrices: Array, goal: Array) -> Array:
    """Return the solution x of `matrix @ x = goal` for each problem, as (problems, columns).

    `matrices` are (problems, columns, columns), and `goal` is (problems, columns, 1). If any matrix is singular, return
    each goal divided by the trace of its matrix instead.
    """
    try:
        return np.asarray(np.linalg.solve(matrices, goal)[:, :, 0])
    except np.linalg.LinAlgError:
        return goal[:, :, 0] / matrices.trace(axis1=1, axis2=2)[:, None]


def _conjugate(group: ProblemGroup, curvature: Array, goal: Array, inverse: Array | None = None) -> Array:
    """Return the Newton directions by conjugate gradients, preconditioned by `inverse` unless it is None.

    It solves `Hessian @ direction = goal` for each problem of `group`. `curvature` (problems, rows), the second
    derivative of the loss at each margin, determines the Hessians. `goal` and the result are (problems, columns), and
    `inverse` is (problems, columns, columns). The iteration ends at a relative accuracy of 1e-3, or after 500 steps.
    """

    def preconditioned(rest: Array) -> Array:
        return rest if inverse is None else np.matmul(inverse, rest[:, :, None])[:, :, 0]

    solution, rest = np.zeros_like(goal), goal.copy()
    way = preconditioned(rest)
    size = (rest * way).sum(axis=1)
    aim = 1e-6 * size
    for _ in range(500):
        if (size <= aim).all():
            break
        image = group.back(curvature * group.margins(way)) + group.ridge * way
        curve = np.maximum((way * image).sum(axis=1), 1e-300)
        step = (np.where(size > aim, size, 0.0) / curve)[:, None]
        solution, rest = solution + step * way, rest - step * image
        ahead = preconditioned(rest)
        after = (rest * ahead).sum(axis=1)
        way, size = ahead + (after / np.maximum(size, 1e-300))[:, None] * way, after
    return solution
