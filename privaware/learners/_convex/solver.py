"""Newton's method for thousands of small regularised convex problems over the same rows, each certified.

Problem p is a generalised linear model in sum form, with its own columns, ridge and linear term:

    F_p(w) = sum_i loss(w . x_ip, y_ip) + ridge_p / 2 |w|^2 + tilt_p . w

where x_ip is row i with the columns outside mask p set to zero, then clipped to the declared
norm_p. The sum form has no number of rows in it, so one more row is one more term and nothing else.

All problems take damped Newton steps side by side: margins and gradients are single matrix products,
and for few columns so are all Hessians (weights times products of columns), in float32 where
the problems are well conditioned: that perturbs a step, never its limit. A problem is
solved when its gradient norm, computed by `ProblemGroup.certified`, is below its tolerance, which bounds the distance
to the true minimiser by `slack` (strong convexity). Newton's steps are at most `STEPS`. What has not reached its
tolerance by then takes accelerated gradient steps, whose number is known to suffice in real arithmetic
(`_State.gradient_steps`). Weights that have no certificate even then are refused: no noise would cover their distance.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import numpy as np

from privaware.errors import Refused
from privaware.learners._convex.losses import LOSSES
from privaware.learners._convex.problems import ROUNDING, TOLERANCE, ProblemArrays, ProblemGroup

__all__ = ["LOSSES", "ROUNDING", "TOLERANCE", "Problems", "solve"]

Array = np.ndarray

ENTRIES = 2**21
"""Margins in memory: problems are taken in groups whose margins fit a processor's cache."""

DIRECT = 768
"""With more columns than this, steps come from conjugate gradients instead of Hessians."""

STEPS = 300

CHECKED = 100
"""Gradient steps between two looks at the tolerance."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Problems(ProblemArrays):
    """The argument of `Rng.perturb`, which draws the linear terms (`tilt`) and has them solved.

    `implied` returns the linear term of which some weights are the minimiser, and the log-determinant there.
    """

    def solve(self, tilt: Array) -> Array:
        """The minimisers (problems, columns)."""
        return solve(self, tilt)

    def implied(self, weights: Array) -> tuple[Array, Array]:
        """The tilt of which `weights` is the exact minimiser, and the log-determinant of the Hessian."""
        tilts, volumes = np.empty_like(weights), np.empty(len(weights))
        for at in range(len(weights)):
            group = ProblemGroup(self, np.array([at]))
            margin = group.margins(weights[[at]])
            slope, curvature = group.slopes(margin)
            tilts[at] = -(group.back(slope) + group.ridge * weights[[at]])[0]
            volumes[at] = np.linalg.slogdet(group.hessians(curvature))[1][0]
        return tilts * self.masks, volumes


def solve(problems: Problems, tilt: Array, *, steps: int = STEPS) -> Array:
    """The minimisers (problems, columns), each with a certified gradient norm of at most its tolerance.

    After `steps` of Newton's method come gradient steps. Without a certificate at their end, `Refused`.
    """
    from concurrent.futures import ThreadPoolExecutor

    from threadpoolctl import threadpool_limits

    weights = np.zeros(problems.masks.shape)
    size = max(1, ENTRIES // max(problems.rows.shape[0], problems.rows.shape[1] ** 2, 1))
    groups = [np.arange(at, min(at + size, len(weights))) for at in range(0, len(weights), size)]

    def solve_group(at: Array) -> None:
        weights[at] = _descend(ProblemGroup(problems, at), tilt[at] * problems.masks[at], steps)

    if len(groups) == 1:
        solve_group(groups[0])
        return weights
    # Many small factorisations: one processor for each group, not all of them for each matrix.
    with threadpool_limits(1), ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(solve_group, groups))
    return weights


def _descend(group: ProblemGroup, tilt: Array, steps: int) -> Array:
    """Damped Newton for one group; solved problems leave it."""
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
    """Weights, margins and gradients of the problems not yet solved."""

    length: Array

    def __init__(self, group: ProblemGroup, tilt: Array) -> None:
        self.group, self.tilt = group, tilt
        self.weights = np.zeros(tilt.shape)
        self.margin = np.zeros((len(tilt), len(group.x)))
        self.value = group.values(self.margin, self.weights, tilt)
        self._measure()

    def keep(self, live: Array) -> None:
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
        """Nesterov's method for functions that are L-smooth and ridge-strongly convex, from where the weights are.

        Its values fall by 1 - 1 / sqrt(k) a step, k = L / ridge. The first excess is at most |gradient|^2 / (2 ridge),
        twice that with the distance, and |gradient|^2 <= 2 L excess at the end: sqrt(k) log(2 k (|gradient| /
        tolerance)^2) steps suffice (Nesterov 2018, Lectures on Convex Optimization, 2.2.1), in real arithmetic.
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
            if step % CHECKED == CHECKED - 1:
                self.margin = self.group.margins(self.weights)
                self._measure()
                if (self.length <= tolerance).all():
                    return

    def expect_certificates(self) -> None:
        """Refuses weights whose distance from the minimiser is not proven to be within the slack."""
        self.margin = self.group.margins(self.weights)
        self._measure()
        if not (self.length <= self.group.problems.tolerance[self.group.at]).all():
            raise Refused(
                "expected weights that are certified to be near the minimiser, got none within the steps of the "
                "solver; nothing is released: use a larger ridge"
            )

    def _measure(self) -> None:
        """The gradient from the margins, certified from the weights before a problem may count as solved."""
        self._gradient()
        near = self.length <= 2 * self.group.problems.tolerance[self.group.at]
        if near.any():
            part = self.group if near.all() else self.group.take(near)
            self.gradient[near] = part.certified(self.weights[near], self.tilt[near])
            self.length = np.linalg.norm(self.gradient, axis=1)
            if (self.length[near] > self.group.problems.tolerance[self.group.at[near]]).any():
                self.margin = self.group.margins(self.weights)  # steps have rounded the one at hand

    def _gradient(self) -> None:
        self.slope, self.curvature = self.group.slopes(self.margin)
        self.gradient = (self.group.back(self.slope) + self.group.ridge * self.weights + self.tilt) * self.group.mask
        self.length = np.linalg.norm(self.gradient, axis=1)

    def _direction(self) -> Array:
        """The Newton direction; the negative gradient where rounding made it an ascent direction."""
        if self.group.x.shape[1] > DIRECT:
            return _conjugate(self.group, self.curvature, -self.gradient)
        if len(self.length) > 1 and self.group.problems.products is None:
            return _conjugate(self.group, self.curvature, -self.gradient, self.group.preconditioner(self.curvature))
        hessians = self.group.hessians(self.curvature)
        unit = np.maximum(self.length, 1e-300)[:, None]  # within the range of float32
        goal = (-self.gradient / unit).astype(hessians.dtype)[:, :, None]
        direction = _solution(hessians, goal) * unit * self.group.mask
        wrong = (direction * self.gradient).sum(axis=1) >= 0
        direction[wrong] = -self.gradient[wrong] / hessians[wrong].trace(axis1=1, axis2=2)[:, None]
        return direction

    def _line_search(self, direction: Array, along: Array) -> Array:
        """Halves the step until the value decreases; within rounding of the minimum full steps are right."""
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
    """Solutions of the linear equations, or the right side itself where a matrix is singular in its number type."""
    try:
        return np.asarray(np.linalg.solve(matrices, goal)[:, :, 0])
    except np.linalg.LinAlgError:
        return goal[:, :, 0] / matrices.trace(axis1=1, axis2=2)[:, None]


def _conjugate(group: ProblemGroup, curvature: Array, goal: Array, inverse: Array | None = None) -> Array:
    """The Newton direction to a thousandth by conjugate gradients; `inverse` preconditions them."""

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
