"""The arithmetic of many convex problems over the same rows: losses, margins, Hessians and certified gradients.

A certified gradient is the gradient of the objective of problem p (`_convex/solver.py` defines it) up to a proven
rounding error. Here norm_p is the norm to which the problem clips rows, and x_ip is row i after that.
1. Rows lie on a public lattice (`lattice_rows`), so their norms, and with them x_ip, are functions of a row alone.
2. Weights and derivatives are each split into two lattices. Margins and sums are then exact except for one rounding of
   each margin and of each derivative.
3. The remaining error of a derivative is a few units of 2^-53, as libraries state it, plus 2^-50 for its lattice. Times
   the norm of a row this is below 2^-49 norm_p for each row, or `ROUNDING` norm_p for 2^30 rows. `slack` includes this
   error, and a fraction of the tolerance for adding the ridge term and the linear term of the objective.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from privaware.errors import WrongInput
from privaware.exact_sums import MANTISSA, Lattice, outer_sum, row_lattice

Array = np.ndarray

MAX_COLUMN_PRODUCTS = 2**24
"""Largest number of products of column pairs, over all rows, that are kept in memory.

They give the Hessians of many problems at once. With more products, the Newton directions of two or more problems come
from conjugate gradients, preconditioned by one Hessian for the mean of all problems.
"""

ROUNDING = 2.0**-19
"""Upper bound on the rounding error of a certified gradient, in norm, divided by the norm bound of a row."""

TOLERANCE = 2.0**-20
"""Gradient norm at which learners stop the solver, divided by the norm bound of a row."""

HIGH = Lattice(bound=1.0, bits=25)
"""Derivatives of the loss are split into a multiple of 2^-25 and a remainder; this is the lattice of the multiple."""

LOW = Lattice(bound=2.0**-25, bits=25)
"""Remainders of derivatives after rounding to `HIGH` are rounded to multiples of 2^-50."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A convex loss of a margin (row times weights) and a target, as two functions of arrays (margins, targets).

    `value` returns the losses, and `slopes` their first and second derivatives with respect to the margin. For any
    margin and target, the absolute first derivative is at most 1 and the second at most `curvature`.
    """

    value: Callable[[Array, Array], Array]
    slopes: Callable[[Array, Array], tuple[Array, Array]]
    curvature: float


def _logistic_value(margin: Array, target: Array) -> Array:
    right = margin * target
    return np.maximum(-right, 0.0) + np.log(1 + np.exp(-np.abs(right)))


def _logistic_slopes(margin: Array, target: Array) -> tuple[Array, Array]:
    wrong = 0.5 - 0.5 * np.tanh(0.5 * margin * target)  # 1 / (1 + e^z) by tanh, which neither overflows nor branches
    return -target * wrong, wrong * (1 - wrong)


def _logcosh_value(margin: Array, target: Array) -> Array:
    apart = np.abs(margin - target)
    return apart + np.log1p(np.exp(-2 * apart)) - np.log(2.0)


def _logcosh_slopes(margin: Array, target: Array) -> tuple[Array, Array]:
    slope = np.tanh(margin - target)
    return slope, 1 - slope**2


LOSSES = {
    "logistic": Loss(value=_logistic_value, slopes=_logistic_slopes, curvature=0.25),
    "logcosh": Loss(value=_logcosh_value, slopes=_logcosh_slopes, curvature=1.0),
}
"""The losses by name: "logistic" for targets -1 and 1, "logcosh" for numbers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ProblemArrays:
    """Convex problems over the same `rows` (rows, columns), with `targets` (1 or problems, rows) and one `loss`.

    `loss` is "logistic" or "logcosh". `masks` (problems, columns) says which columns a problem uses. `ridge`, the norm
    to which rows are clipped (`norm`) and the gradient norm at which a problem is solved (`tolerance`) hold one number
    above 0 for each problem. Wrong shapes, values and losses raise `WrongInput`.
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
        """For each problem, a bound on the distance of its solved weights from the exact minimiser: (problems,).

        Weights are solved if their certified gradient norm is at most `tolerance`.
        """
        return ((1 + 2.0**-8) * self.tolerance + ROUNDING * self.norm) / self.ridge

    @cached_property
    def lattice(self) -> Lattice:
        """The public lattice of the entries of rows, bounded by the largest `norm` of a problem."""
        return row_lattice(float(self.norm.max()), self.rows.shape[1])

    @cached_property
    def lattice_rows(self) -> Array:
        """The rows, with entries rounded towards zero to multiples of `lattice.step`: (rows, columns).

        A row with an entry beyond `lattice.bound` is first scaled down until its largest absolute entry is the bound.
        """
        bound = self.lattice.bound
        largest = np.abs(self.rows).max(axis=1, keepdims=True, initial=0.0)
        return np.asarray(self.lattice.round(self.rows * np.minimum(1.0, bound / np.maximum(largest, 1e-300))))

    @cached_property
    def products(self) -> Array | None:
        """The products of all pairs of columns of `lattice_rows`, as an array (rows, pairs).

        A pair may hold the same column twice. The value is None if the array would have more than `MAX_COLUMN_PRODUCTS`
        entries.
        """
        rows, columns = self.rows.shape
        if rows * columns * (columns + 1) // 2 > MAX_COLUMN_PRODUCTS:
            return None
        upper = np.triu_indices(columns)
        return np.asarray(self.lattice_rows[:, upper[0]] * self.lattice_rows[:, upper[1]])


class ProblemGroup:
    """The convex problems at the positions `at` (an integer array) in `problems`.

    The methods compute their margins, gradients and Hessians.
    """

    def __init__(self, problems: ProblemArrays, at: Array) -> None:
        self.problems, self.at, self.x = problems, at, problems.lattice_rows
        self.loss = LOSSES[problems.loss]
        self.mask = problems.masks[at].astype(float)
        self.ridge = problems.ridge[at][:, None]
        several = len(problems.targets) > 1
        self.target = problems.targets[at] if several else problems.targets
        length = np.sqrt(np.maximum(self.mask @ (self.x**2).T, 0.0))
        limit = problems.norm[at][:, None]
        # A clipped row must not exceed the norm even after rounding, hence the factor 1 - 1e-12.
        self.scale = np.minimum(1.0, limit * (1 - 1e-12) / np.maximum(length, 1e-300))
        if (self.scale == 1.0).all():
            self.scale = np.ones((1, 1))

    def take(self, keep: Array) -> Self:
        return type(self)(self.problems, self.at[keep])

    def margins(self, weights: Array) -> Array:
        return (weights @ self.x.T) * self.scale

    def back(self, values: Array) -> Array:
        """Return, for each problem, the sum over rows of value times row: (problems, columns).

        `values` are (problems, rows). Rows are clipped to the norm of the problem, and columns outside its mask are 0.
        """
        return ((values * self.scale) @ self.x) * self.mask

    def certified(self, weights: Array, tilt: Array) -> Array:
        """Return the gradients of the objectives at `weights`; both are (problems, columns).

        The rounding error of the gradients is proven to be within a bound that `ProblemArrays.slack` includes. `tilt`
        (problems, columns) holds the linear terms of the objectives.
        """
        lattice, half_width = self.problems.lattice, math.ceil(math.log2(max(self.x.shape[1], 1)) / 2)
        bits = MANTISSA - lattice.bits - half_width - 1
        length = max(float(np.linalg.norm(weights, axis=1).max(initial=0.0)), 2.0**-99)
        coarse = Lattice(bound=length, bits=bits)
        high = coarse.round(weights)
        low = Lattice(bound=coarse.step, bits=bits).round(weights - high)
        margin = (high @ self.x.T + low @ self.x.T) * self.scale
        values = self.slopes(margin)[0] * self.scale
        high = HIGH.round(values)
        low = LOW.round(values - high)
        sums = outer_sum(high.T, self.x, HIGH, lattice) + outer_sum(low.T, self.x, LOW, lattice)
        return np.asarray((sums + self.ridge * weights + tilt) * self.mask)

    def slopes(self, margin: Array) -> tuple[Array, Array]:
        return self.loss.slopes(margin, self.target)

    def values(self, margin: Array, weights: Array, tilt: Array) -> Array:
        quadratic = (0.5 * self.ridge * weights + tilt) * weights
        return self.loss.value(margin, self.target).sum(axis=1) + quadratic.sum(axis=1)

    def hessians(self, curvature: Array) -> Array:
        """Return the Hessian of each problem (problems, columns, columns), ridge included.

        `curvature` (problems, rows) holds the second derivatives of the losses. Columns outside a problem's mask have a
        1 on the diagonal and zeros elsewhere.
        """
        columns, problems = self.x.shape[1], self.problems
        weight = curvature * self.scale**2
        if len(self.at) == 1 or problems.products is None:
            return self._regularised(np.stack([(self.x * line[:, None]).T @ self.x for line in weight]))
        hessians = (weight @ problems.products).take(_square(columns), axis=1)
        return self._regularised(hessians.reshape(len(self.at), columns, columns))

    def preconditioner(self, curvature: Array) -> Array:
        """Return an approximate inverse Hessian of each problem: (problems, columns, columns).

        The Hessian has the mask and the ridge of the problem, but `curvature` (problems, rows), the second derivatives
        of the losses, is averaged over problems. If any of these Hessians is singular in float64, the result for every
        problem is the inverse of the diagonal of its Hessian.
        """
        line = (curvature * self.scale**2).mean(axis=0)
        shared = (self.x * line[:, None]).T @ self.x
        regularised = self._regularised(np.repeat(shared[None], len(self.at), axis=0))
        try:
            return np.linalg.inv(regularised)
        except np.linalg.LinAlgError:  # singular in float64: use the diagonal only
            return np.eye(len(shared)) / regularised.diagonal(axis1=1, axis2=2)[:, :, None]

    def _regularised(self, hessians: Array) -> Array:
        if not self.mask.all():
            hessians *= self.mask[:, :, None] * self.mask[:, None, :]
        diagonal = np.arange(hessians.shape[1])
        hessians[:, diagonal, diagonal] += np.where(self.mask > 0, self.ridge, 1.0)
        return hessians


def _square(columns: int) -> Array:
    """Return, for each entry of a symmetric matrix, its index in the list of the entries of the upper triangle.

    Both the matrix (columns, columns) and its upper triangle are read row by row. The result is (columns * columns,).
    """
    upper = np.triu_indices(columns)
    at = np.zeros((columns, columns), dtype=np.intp)
    at[upper] = at.T[upper] = np.arange(len(upper[0]))
    return at.ravel()
