"""Rows of bounded norm with a constant column, their targets, and the linear model of weights on such rows.

Rows and derivatives of losses lie on public lattices. Derivatives are functions of a row alone, bit for bit: margins
are exact, and `_row_functions` compute the derivatives. Sums of products of rows and derivatives are therefore exact in
any order, and one row changes a sum by its own term only (`exact_sums`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privaware.data import Data
from privaware.errors import WrongInput
from privaware.exact_sums import MANTISSA, Lattice, clip_rows, outer_sum, row_lattice
from privaware.learners._fixed_features import feature_for, linear_model, rows_of, softmax
from privaware.learners._row_functions import LOG2E, softmax_numerators, tanh
from privaware.model import Model, scaled
from privaware.noise import Rng
from privaware.schema import Schema

CONSTANT = 0.5
"""Last entry of every row, whose weight gives the bias; it is small, since noise grows with the norm of a row."""

NORM = math.hypot(1.0, CONSTANT)
"""Norm bound of a row with its constant."""


def with_constant(rows: np.ndarray) -> np.ndarray:
    """Return rows in float64 (rows, width + 1): flattened, with L2 norm clipped to 1, and 0.5 as last column.

    Entries are rounded to multiples of the step of a public lattice, which `lattice_of` returns for the result. After
    rounding, the norm without the last column is still at most 1.
    """
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    clipped = clip_rows(flat, 1.0, row_lattice(1.0, flat.shape[1] + 1))
    return np.concatenate([clipped, np.full((len(clipped), 1), CONSTANT)], axis=1)


def lattice_of(rows: np.ndarray) -> Lattice:
    """Return the lattice of `rows`, a result of `with_constant`: the numbers to whose multiples entries are rounded.

    It follows from the width of the rows alone, so it is public.
    """
    return row_lattice(1.0, rows.shape[1])


MOST_COLUMNS = 2000
"""Largest width of rows whose second-moment matrix is released; a larger one takes minutes and is mostly noise."""


def expect_few_columns(schema: Schema, name: str) -> None:
    """Raise `WrongInput` if the rows of `schema` have more than `MOST_COLUMNS` columns after encoding.

    `name` is the learner in the message.
    """
    width = feature_for(schema).width(schema)
    if width > MOST_COLUMNS:
        raise WrongInput(
            f"{name}: expected rows of at most {MOST_COLUMNS} numbers, got {width}; "
            "take linear or objective_perturbation"
        )


def outputs(schema: Schema) -> int:
    """Return the number of problems to solve, each with weights of its own.

    It is 1 for a regression and for two classes, and the number of classes if there are more.
    """
    return len(schema.classes) if len(schema.classes) > 2 else 1


def encoded(data: Data, reach: float) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the default feature of `data`, its rows after this feature with a constant column, and its targets.

    The rows (rows, width + 1) are as `with_constant` returns them, and the targets (problems, rows) as `targets`
    returns them. The targets of a regression, scaled to [-1, 1], are divided by `reach`, a setting of the learner.
    """
    feature = feature_for(data.schema)
    return feature, with_constant(rows_of(data, feature)), targets(data, reach)


def targets(data: Data, reach: float) -> np.ndarray:
    """Return targets (problems, rows); for regression they are scaled to [-1, 1] and then divided by `reach`.

    For classes `reach` is not used, and a target is 1 for rows of the problem's class and -1 for all other rows. Two
    classes are one problem, whose class is the second one.
    """
    classes = len(data.schema.classes)
    if not classes:
        values = scaled(np.nan_to_num(data.y.astype(float)), data.schema)
        return np.asarray(values / reach)[None, :]
    codes = np.arange(classes) if classes > 2 else np.array([1])
    return np.where(data.y[None, :] == codes[:, None], 1.0, -1.0)


def default_ridge(noise: float, width: int, distribution: str, most: float) -> float:
    """Return a ridge of at least 1 at which the noise in `width` weights has a norm of about `most`, or less.

    It is `noise * NORM * width / most` if `distribution` is "gamma", and `noise * NORM * sqrt(width) / most` if it is
    "gaussian". `noise` is the noise multiplier of output or objective perturbation for rows of norm at most `NORM`.
    """
    return max(1.0, noise * NORM * (width if distribution == "gamma" else math.sqrt(width)) / most)


def affine_model(schema: Schema, feature: Any, weights: np.ndarray, reach: float = 1.0) -> Model:
    """Return the linear model with `weights` on rows after `feature` and a constant column.

    `weights` are (problems, width + 1). The last column of `weights` is multiplied by `CONSTANT` and becomes the
    biases. The weights of a regression are multiplied by `reach`. One problem for two classes becomes two outputs:
    minus and plus half the weights.
    """
    weights = weights if schema.classes else weights * reach
    if len(schema.classes) == 2 and len(weights) == 1:
        weights = np.concatenate([-weights / 2, weights / 2])
    return linear_model(schema, (feature,), weights[:, :-1], CONSTANT * weights[:, -1])


def slope_bounds(schema: Schema) -> tuple[float, float]:
    """Return bounds on the first and on the second derivative of the loss with respect to the outputs.

    The loss is log cosh in a regression (1, 1), logistic for two classes (1, 1/4), and softmax for more (sqrt(2), 1/2).
    For a softmax the bounds are on the norm of the gradient and on the eigenvalues of the Hessian.
    """
    if not schema.classes:
        return 1.0, 1.0
    return (math.sqrt(2.0), 0.5) if len(schema.classes) > 2 else (1.0, 0.25)


def slopes(schema: Schema, margins: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return the derivatives of the loss with respect to the outputs: (problems, rows).

    `margins` (rows, problems) are the outputs, rows times weights, and `goal` (problems, rows) the targets as `targets`
    returns them. The loss is log cosh in a regression, logistic for two classes, and softmax for more.
    """
    if not schema.classes:
        return np.tanh(margins.T - goal)
    if len(goal) == 1:
        return -goal * (0.5 - 0.5 * np.tanh(0.5 * margins.T * goal))
    return softmax(margins).T - (goal + 1) / 2


SLOPES = Lattice(bound=1.0, bits=20)
"""Derivatives of the loss are rounded towards zero to multiples of 2^-20 in [-1, 1]."""


def slope_sums(schema: Schema, rows: np.ndarray, weights: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return the exact gradient of the sum of the losses at public `weights`, both (problems, width).

    `goal` are targets as `targets` returns them, and `rows` are rows as `with_constant` returns them. It is the sum
    over rows of derivative times row. Derivatives are first rounded towards zero to multiples of 2^-20, and weights are
    rounded so that products with rows are exact in float64.
    """
    lattice = lattice_of(rows)
    length = float(np.linalg.norm(weights, axis=1).max())
    coarse = Lattice(bound=max(length, 2.0**-99), bits=MANTISSA - 1 - lattice.bits).round(weights)
    values = SLOPES.round(lattice_slopes(schema, coarse @ rows.T, goal))
    return np.asarray(outer_sum(values.T, rows, SLOPES, lattice))


def lattice_slopes(schema: Schema, margins: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return the derivatives of the loss with respect to the outputs, (problems, rows), with an error of 1e-5.

    The derivatives are those of `slopes`, but `margins` (problems, rows) are transposed. They are computed entry by
    entry, so each is a function of its own row, bit for bit. `goal` (problems, rows) are targets as `targets` returns
    them.
    """
    if not schema.classes:
        return tanh(margins - goal)
    if len(goal) == 1:
        return -goal * (0.5 - 0.5 * tanh(0.5 * margins * goal))
    numerators = softmax_numerators(LOG2E * margins).astype(np.float64)
    return np.asarray(numerators / numerators.sum(axis=0) - (goal + 1) / 2)


def noisy_moments(rows: np.ndarray, noise: float, rng: Rng) -> np.ndarray:
    """Return the second-moment matrix `rows.T @ rows` (width, width) plus symmetric Gaussian noise.

    `noise` is the noise multiplier. One row changes the exact matrix by at most `NORM**2` in Frobenius norm. Noise of
    standard deviation `noise * NORM**2` is added to the upper triangle with its off-diagonal entries multiplied by
    sqrt(2), which has the same norm as the matrix.
    """
    width = rows.shape[1]
    upper = np.triu_indices(width)
    weight = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
    exact_triangle = exact_moments(rows)[upper] * weight
    noisy = rng.gaussian(exact_triangle, noise=noise, sensitivity=NORM**2) / weight
    matrix = np.zeros((width, width))
    matrix[upper] = matrix.T[upper] = noisy
    return matrix


def exact_moments(rows: np.ndarray) -> np.ndarray:
    """Return the second-moment matrix `rows.T @ rows` (width, width), without noise.

    It is exact, so it has the same bits for any order of the rows, which are a result of `with_constant`.
    """
    lattice = lattice_of(rows)
    return np.asarray(outer_sum(rows, rows, lattice, lattice))
