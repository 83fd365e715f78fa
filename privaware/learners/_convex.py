"""Thousands of small regularised convex problems over the same rows, minimised together and certified.

Problem p is a generalised linear model in sum form, with its own columns, ridge and linear term:

    F_p(w) = sum_i loss(w . x_ip, y_ip) + ridge_p / 2 |w|^2 + tilt_p . w

where x_ip is row i with the columns outside mask p put to zero, then shortened to the declared
norm_p. The sum form has no number of rows in it, so one more row is one more term and nothing else.

All problems take damped Newton steps side by side: margins and gradients are single matrix products,
and for few columns so are all Hessians (weights times products of columns), in single precision where
the problems are well conditioned: that bends a step a little, never what it converges to. A problem is
finished when its gradient norm, in double precision, is below its tolerance, which bounds the distance
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
"""Margins held at once: problems are taken in groups whose margins fit a processor's cache."""

PRODUCTS = 2**24
"""Products of columns held at once, for the Hessians of many problems in one matrix product.

Where rows are too many for that, directions come from conjugate gradients, which one Hessian for the mean of
all problems makes quick.
"""

DIRECT = 768
"""With more columns than this, steps come from conjugate gradients instead of Hessians."""

CONDITION = 1e4
"""Condition numbers up to this leave single precision enough digits for a Newton step."""

STEPS = 300


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A convex loss of (margin, target): its value and first two derivatives in the margin.

    `slope` bounds the first derivative and `bend` the second, for any margin and target.
    """

    value: Callable[[Array, Array], Array]
    slopes: Callable[[Array, Array], tuple[Array, Array]]
    slope: float
    bend: float


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
    "logistic": Loss(value=_logistic_value, slopes=_logistic_slopes, slope=1.0, bend=0.25),
    "logcosh": Loss(value=_logcosh_value, slopes=_logcosh_slopes, slope=1.0, bend=1.0),
    "squared": Loss(value=lambda m, y: 0.5 * (m - y) ** 2, slopes=_squared_slopes, slope=np.inf, bend=1.0),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Problems:
    """`rows` (rows, columns), `targets` (1 or problems, rows), and one of each for every problem.

    What `Rng.perturb` is given: it draws the tilts, has them solved, and `implied` says which tilt
    would have led to some weights, and how the volume changes there.
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
        """How far what `solve` returns may be from the true minimiser, at most."""
        return self.tolerance / self.ridge

    def solve(self, tilt: Array) -> Array:
        """The minimisers, one line a problem."""
        return solve(self, tilt)

    def implied(self, weights: Array) -> tuple[Array, Array]:
        """The tilt of which `weights` is the exact minimiser, and the log-determinant of the Hessian."""
        tilts, volumes = np.empty_like(weights), np.empty(len(weights))
        for at in range(len(weights)):
            group = _Group(self, np.array([at]))
            margin = group.margins(weights[[at]])
            slope, bend = group.slopes(margin)
            tilts[at] = -(group.back(slope) + group.ridge * weights[[at]])[0]
            volumes[at] = np.linalg.slogdet(group.hessians(bend))[1][0]
        return tilts * self.masks, volumes

    @cached_property
    def products(self) -> Array | None:
        """Products of pairs of columns, one line a row; none where they would not fit."""
        rows, columns = self.rows.shape
        if rows * columns * (columns + 1) // 2 > PRODUCTS:
            return None
        upper = np.triu_indices(columns)
        return (self.rows[:, upper[0]] * self.rows[:, upper[1]]).astype(self.kind)

    @cached_property
    def kind(self) -> type[np.floating]:
        """Single precision for Hessians unless public facts allow a bad condition."""
        bend = LOSSES[self.loss].bend * self.norm**2 * (len(self.rows) + 1) / self.ridge
        return np.float32 if float(bend.max()) < CONDITION else np.float64


class _Group:
    """Some of the problems, with the arithmetic of their margins, gradients and Hessians."""

    def __init__(self, problems: Problems, at: Array) -> None:
        self.problems, self.at, self.x = problems, at, problems.rows
        self.loss = LOSSES[problems.loss]
        self.mask = problems.masks[at].astype(float)
        self.ridge = problems.ridge[at][:, None]
        own = len(problems.targets) > 1
        self.target = problems.targets[at] if own else problems.targets
        length = np.sqrt(np.maximum(self.mask @ (self.x**2).T, 0.0))
        limit = problems.norm[at][:, None]
        # Rounding must not lengthen a row: those at the limit are shortened by a hair as well.
        self.short = np.minimum(1.0, limit * (1 - 1e-12) / np.maximum(length, 1e-300))
        if (self.short == 1.0).all():
            self.short = np.ones((1, 1))

    def take(self, keep: Array) -> _Group:
        return _Group(self.problems, self.at[keep])

    def margins(self, weights: Array) -> Array:
        return (weights @ self.x.T) * self.short

    def back(self, values: Array) -> Array:
        """Sums of value times row."""
        return ((values * self.short) @ self.x) * self.mask

    def slopes(self, margin: Array) -> tuple[Array, Array]:
        return self.loss.slopes(margin, self.target)

    def values(self, margin: Array, weights: Array, tilt: Array) -> Array:
        quadratic = (0.5 * self.ridge * weights + tilt) * weights
        return self.loss.value(margin, self.target).sum(axis=1) + quadratic.sum(axis=1)

    def hessians(self, bend: Array) -> Array:
        """One matrix a problem; columns outside the mask stand apart with a 1 on the diagonal."""
        columns, problems = self.x.shape[1], self.problems
        weight = (bend * self.short**2).astype(problems.kind)
        if len(self.at) == 1 or problems.products is None:
            return self._own(np.stack([(self.x * line[:, None]).T @ self.x for line in weight]))
        made = (weight @ problems.products).take(_square(columns), axis=1)
        return self._own(made.reshape(len(self.at), columns, columns))

    def alike(self, bend: Array) -> Array:
        """The inverse of a Hessian that all problems share but for mask and ridge: that of their mean."""
        line = (bend * self.short**2).mean(axis=0)
        shared = (self.x * line[:, None]).T @ self.x
        return np.linalg.inv(self._own(np.repeat(shared[None], len(self.at), axis=0)))

    def _own(self, made: Array) -> Array:
        if not self.mask.all():
            made *= self.mask[:, :, None] * self.mask[:, None, :]
        diagonal = np.arange(made.shape[1])
        made[:, diagonal, diagonal] += np.where(self.mask > 0, self.ridge, 1.0)
        return made


def solve(problems: Problems, tilt: Array, *, steps: int = STEPS) -> Array:
    """The minimisers (problems, columns), each with a gradient norm below its tolerance, or Refused."""
    from concurrent.futures import ThreadPoolExecutor

    from threadpoolctl import threadpool_limits

    weights = np.zeros(problems.masks.shape)
    size = max(1, ENTRIES // max(problems.rows.shape[0], problems.rows.shape[1] ** 2, 1))
    groups = [np.arange(at, min(at + size, len(weights))) for at in range(0, len(weights), size)]

    def settle(at: Array) -> None:
        weights[at] = _descend(_Group(problems, at), tilt[at] * problems.masks[at], steps)

    if len(groups) == 1:
        settle(groups[0])
        return weights
    # Many small factorisations: one processor for each group, not all of them for each matrix.
    with threadpool_limits(1), ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(settle, groups))
    return weights


def _square(columns: int) -> Array:
    """Where each entry of a symmetric matrix lies among the products of its upper triangle."""
    upper = np.triu_indices(columns)
    at = np.zeros((columns, columns), dtype=np.intp)
    at[upper] = at.T[upper] = np.arange(len(upper[0]))
    return at.ravel()


def _descend(group: _Group, tilt: Array, steps: int) -> Array:
    """Damped Newton for one group; finished problems leave it."""
    problems, done = group.problems, np.zeros(tilt.shape)
    first = group.at[0]
    state = _State(group, tilt)
    for _ in range(steps):
        live = state.length > problems.tolerance[state.group.at]
        if not live.all():
            gone = ~live
            done[state.group.at[gone] - first] = state.weights[gone]
            if gone.all():
                return done
            state.keep(live)
        state.step()
    raise Refused(
        f"{len(state.group.at)} of the problems did not reach their tolerance within {steps} steps, "
        "and only exact minimisers may be released; raise ridge, or scale the columns alike"
    )


class _State:
    """Weights, margins and gradients of the problems still at work."""

    def __init__(self, group: _Group, tilt: Array) -> None:
        self.group, self.tilt = group, tilt
        self.weights = np.zeros(tilt.shape)
        self.margin = np.zeros((len(tilt), len(group.x)))
        self.value = group.values(self.margin, self.weights, tilt)
        self._measure()

    def keep(self, live: Array) -> None:
        self.group = self.group.take(live)
        for name in ("tilt", "weights", "margin", "value", "slope", "bend", "gradient", "length"):
            setattr(self, name, getattr(self, name)[live])

    def step(self) -> None:
        direction = self._direction()
        along = self.group.margins(direction)
        size = self._line_search(direction, along)[:, None]
        self.weights = self.weights + size * direction
        self.margin = self.margin + size * along
        self._measure()

    def _measure(self) -> None:
        """The gradient from the margins, and afresh from the weights before a problem may count as done."""
        self._gradient()
        if (self.length <= 2 * self.group.problems.tolerance[self.group.at]).any():
            self.margin = self.group.margins(self.weights)
            self._gradient()

    def _gradient(self) -> None:
        self.slope, self.bend = self.group.slopes(self.margin)
        self.gradient = (self.group.back(self.slope) + self.group.ridge * self.weights + self.tilt) * self.group.mask
        self.length = np.linalg.norm(self.gradient, axis=1)

    def _direction(self) -> Array:
        """The Newton direction; down the gradient where rounding spoilt it."""
        if self.group.x.shape[1] > DIRECT:
            return _conjugate(self.group, self.bend, -self.gradient)
        if len(self.length) > 1 and self.group.problems.products is None:
            return _conjugate(self.group, self.bend, -self.gradient, self.group.alike(self.bend))
        made = self.group.hessians(self.bend)
        unit = np.maximum(self.length, 1e-300)[:, None]  # far from the edges of single precision
        goal = (-self.gradient / unit).astype(made.dtype)[:, :, None]
        direction = np.linalg.solve(made, goal)[:, :, 0] * unit * self.group.mask
        wrong = (direction * self.gradient).sum(axis=1) >= 0
        direction[wrong] = -self.gradient[wrong] / made[wrong].trace(axis1=1, axis2=2)[:, None]
        return direction

    def _line_search(self, direction: Array, along: Array) -> Array:
        """Half the step until the value falls; within rounding of the bottom whole steps are right."""
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


def _conjugate(group: _Group, bend: Array, goal: Array, near: Array | None = None) -> Array:
    """The Newton direction to a thousandth, without Hessians; `near` are inverses of matrices like them."""

    def nearer(rest: Array) -> Array:
        return rest if near is None else np.matmul(near, rest[:, :, None])[:, :, 0]

    found, rest = np.zeros_like(goal), goal.copy()
    way = nearer(rest)
    size = (rest * way).sum(axis=1)
    aim = 1e-6 * size
    for _ in range(500):
        if (size <= aim).all():
            break
        image = group.back(bend * group.margins(way)) + group.ridge * way
        curve = np.maximum((way * image).sum(axis=1), 1e-300)
        step = (np.where(size > aim, size, 0.0) / curve)[:, None]
        found, rest = found + step * way, rest - step * image
        ahead = nearer(rest)
        after = (rest * ahead).sum(axis=1)
        way, size = ahead + (after / np.maximum(size, 1e-300))[:, None] * way, after
    return found
