"""Newton's method for thousands of small regularised convex problems over the same rows, each certified.

Problem p is a generalised linear model in sum form, with its own columns, ridge and linear term:

    F_p(w) = sum_i loss(w . x_ip, y_ip) + ridge_p / 2 |w|^2 + tilt_p . w

where x_ip is row i with the columns outside mask p set to zero, then clipped to the declared
norm_p. The sum form has no number of rows in it, so one more row is one more term and nothing else.

All problems take damped Newton steps side by side: margins and gradients are single matrix products,
and for few columns so are all Hessians (weights times products of columns), in float32 where
the problems are well conditioned: that perturbs a step, never its limit. A problem is
solved when its gradient norm, in double precision, is below its tolerance, which bounds the distance
to the true minimiser by tolerance / ridge (strong convexity).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privaware.errors import Refused, WrongInput

__all__ = ["LOSSES", "Loss", "Problems", "solve"]

Array = np.ndarray

ENTRIES = 2**21
"""Margins in memory: problems are taken in groups whose margins fit a processor's cache."""

PRODUCTS = 2**24
"""Products of columns in memory, for the Hessians of many problems in one matrix product.

With more rows than that, directions come from conjugate gradients, preconditioned by one Hessian for the mean of
all problems.
"""

DIRECT = 768
"""With more columns than this, steps come from conjugate gradients instead of Hessians."""

CONDITION = 1e4
"""Condition numbers up to which float32 is precise enough for a Newton step."""

STEPS = 300


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A convex loss of (margin, target): its value and first two derivatives in the margin.

    `slope` bounds the first derivative and `curvature` the second, for any margin and target.
    """

    value: Callable[[Array, Array], Array]
    slopes: Callable[[Array, Array], tuple[Array, Array]]
    slope: float
    curvature: float


def _logistic_value(margin: Array, target: Array) -> Array:
    right = margin * target
    return np.maximum(-right, 0.0) + np.log(1 + np.exp(-np.abs(right)))


def _logistic_slopes(margin: Array, target: Array) -> tuple[Array, Array]:
    # 1 / (1 + e^z) by tanh, which neither overflows nor branches
    wrong = 0.5 - 0.5 * np.tanh(0.5 * margin * target)
    return -target * wrong, wrong * (1 - wrong)


def _logcosh_value(margin: Array, target: Array) -> Array:
    apart = np.abs(margin - target)
    return apart + np.log1p(np.exp(-2 * apart)) - np.log(2.0)


def _logcosh_slopes(margin: Array, target: Array) -> tuple[Array, Array]:
    slope = np.tanh(margin - target)
    return slope, 1 - slope**2


def _squared_slopes(margin: Array, target: Array) -> tuple[Array, Array]:
    return margin - target, np.ones_like(margin)


LOSSES = {
    "logistic": Loss(value=_logistic_value, slopes=_logistic_slopes, slope=1.0, curvature=0.25),
    "logcosh": Loss(value=_logcosh_value, slopes=_logcosh_slopes, slope=1.0, curvature=1.0),
    "squared": Loss(value=lambda m, y: 0.5 * (m - y) ** 2, slopes=_squared_slopes, slope=np.inf, curvature=1.0),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Problems:
    """`rows` (rows, columns), `targets` (1 or problems, rows), and one of each for every problem.

    The argument of `Rng.perturb`, which draws the linear terms (`tilt`) and has them solved; `implied` returns the
    linear term of which some weights are the minimiser, and the log-determinant there.
    """

    rows: Array
    targets: Array
    loss: str
    ridge: Array
    masks: Array
    norm: Array
    tolerance: Array

    def __post_init__(self) -> None:
        count, (rows, columns) = len(self.ridge), self.rows.shape
        fits = self.masks.shape == (count, columns) and self.targets.shape[1:] == (rows,)
        if not fits or len(self.targets) not in (1, count) or self.loss not in LOSSES:
            raise WrongInput(
                f"expected masks ({count}, {columns}), targets (1 or {count}, {rows}) and a loss among "
                f"{', '.join(LOSSES)}, got {self.masks.shape}, {self.targets.shape} and {self.loss!r}"
            )
        for name in ("ridge", "norm", "tolerance"):
            value = getattr(self, name)
            if value.shape != (count,) or not (np.isfinite(value) & (value > 0)).all():
                raise WrongInput(f"expected {name} above 0 for each of {count} problems")

    @property
    def slack(self) -> Array:
        """A bound on the distance of what `solve` returns from the true minimiser."""
        return self.tolerance / self.ridge

    def solve(self, tilt: Array) -> Array:
        """The minimisers (problems, columns)."""
        return solve(self, tilt)

    def implied(self, weights: Array) -> tuple[Array, Array]:
        """The tilt of which `weights` is the exact minimiser, and the log-determinant of the Hessian."""
        tilts, volumes = np.empty_like(weights), np.empty(len(weights))
        for at in range(len(weights)):
            group = _Group(self, np.array([at]))
            margin = group.margins(weights[[at]])
            slope, curvature = group.slopes(margin)
            tilts[at] = -(group.back(slope) + group.ridge * weights[[at]])[0]
            volumes[at] = np.linalg.slogdet(group.hessians(curvature))[1][0]
        return tilts * self.masks, volumes

    @cached_property
    def products(self) -> Array | None:
        """Products of pairs of columns for each row; none where they would not fit."""
        rows, columns = self.rows.shape
        if rows * columns * (columns + 1) // 2 > PRODUCTS:
            return None
        upper = np.triu_indices(columns)
        return (self.rows[:, upper[0]] * self.rows[:, upper[1]]).astype(self.kind)

    @cached_property
    def kind(self) -> type[np.floating]:
        """float32 for Hessians unless public facts allow a large condition number."""
        curvature = LOSSES[self.loss].curvature * self.norm**2 * (len(self.rows) + 1) / self.ridge
        return np.float32 if float(curvature.max()) < CONDITION else np.float64


class _Group:
    """Some of the problems, with the arithmetic of their margins, gradients and Hessians."""

    def __init__(self, problems: Problems, at: Array) -> None:
        self.problems, self.at, self.x = problems, at, problems.rows
        self.loss = LOSSES[problems.loss]
        self.mask = problems.masks[at].astype(float)
        self.ridge = problems.ridge[at][:, None]
        several = len(problems.targets) > 1
        self.target = problems.targets[at] if several else problems.targets
        length = np.sqrt(np.maximum(self.mask @ (self.x**2).T, 0.0))
        limit = problems.norm[at][:, None]
        # Rounding must not exceed the norm, hence the margin of 1e-12.
        self.scale = np.minimum(1.0, limit * (1 - 1e-12) / np.maximum(length, 1e-300))
        if (self.scale == 1.0).all():
            self.scale = np.ones((1, 1))

    def take(self, keep: Array) -> _Group:
        return _Group(self.problems, self.at[keep])

    def margins(self, weights: Array) -> Array:
        return (weights @ self.x.T) * self.scale

    def back(self, values: Array) -> Array:
        """Sums of value times row."""
        return ((values * self.scale) @ self.x) * self.mask

    def slopes(self, margin: Array) -> tuple[Array, Array]:
        return self.loss.slopes(margin, self.target)

    def values(self, margin: Array, weights: Array, tilt: Array) -> Array:
        quadratic = (0.5 * self.ridge * weights + tilt) * weights
        return self.loss.value(margin, self.target).sum(axis=1) + quadratic.sum(axis=1)

    def hessians(self, curvature: Array) -> Array:
        """One matrix a problem; columns outside the mask have only a 1 on the diagonal."""
        columns, problems = self.x.shape[1], self.problems
        weight = (curvature * self.scale**2).astype(problems.kind)
        if len(self.at) == 1 or problems.products is None:
            return self._regularised(np.stack([(self.x * line[:, None]).T @ self.x for line in weight]))
        hessians = (weight @ problems.products).take(_square(columns), axis=1)
        return self._regularised(hessians.reshape(len(self.at), columns, columns))

    def preconditioner(self, curvature: Array) -> Array:
        """The inverse Hessian of the mean of all problems, with each problem's mask and ridge."""
        line = (curvature * self.scale**2).mean(axis=0)
        shared = (self.x * line[:, None]).T @ self.x
        return np.linalg.inv(self._regularised(np.repeat(shared[None], len(self.at), axis=0)))

    def _regularised(self, hessians: Array) -> Array:
        if not self.mask.all():
            hessians *= self.mask[:, :, None] * self.mask[:, None, :]
        diagonal = np.arange(hessians.shape[1])
        hessians[:, diagonal, diagonal] += np.where(self.mask > 0, self.ridge, 1.0)
        return hessians


def solve(problems: Problems, tilt: Array, *, steps: int = STEPS) -> Array:
    """The minimisers (problems, columns), each with a gradient norm below its tolerance, or Refused."""
    from concurrent.futures import ThreadPoolExecutor

    from threadpoolctl import threadpool_limits

    weights = np.zeros(problems.masks.shape)
    size = max(1, ENTRIES // max(problems.rows.shape[0], problems.rows.shape[1] ** 2, 1))
    groups = [np.arange(at, min(at + size, len(weights))) for at in range(0, len(weights), size)]

    def solve_group(at: Array) -> None:
        weights[at] = _descend(_Group(problems, at), tilt[at] * problems.masks[at], steps)

    if len(groups) == 1:
        solve_group(groups[0])
        return weights
    # Many small factorisations: one processor for each group, not all of them for each matrix.
    with threadpool_limits(1), ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(solve_group, groups))
    return weights


def _square(columns: int) -> Array:
    """The index of each entry of a symmetric matrix among the products of its upper triangle."""
    upper = np.triu_indices(columns)
    at = np.zeros((columns, columns), dtype=np.intp)
    at[upper] = at.T[upper] = np.arange(len(upper[0]))
    return at.ravel()


def _descend(group: _Group, tilt: Array, steps: int) -> Array:
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
    raise Refused(
        f"{len(state.group.at)} of the problems did not reach their tolerance within {steps} steps, "
        "and only exact minimisers may be released; raise ridge, or scale the columns alike"
    )


class _State:
    """Weights, margins and gradients of the problems not yet solved."""

    def __init__(self, group: _Group, tilt: Array) -> None:
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

    def _measure(self) -> None:
        """The gradient from the margins, recomputed from the weights before a problem may count as solved."""
        self._gradient()
        if (self.length <= 2 * self.group.problems.tolerance[self.group.at]).any():
            self.margin = self.group.margins(self.weights)
            self._gradient()

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
        direction = np.linalg.solve(hessians, goal)[:, :, 0] * unit * self.group.mask
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


def _conjugate(group: _Group, curvature: Array, goal: Array, inverse: Array | None = None) -> Array:
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
