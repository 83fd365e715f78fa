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
"""Value of the constant column; smaller than the norm of a row, since noise grows with the norm of a row."""

NORM = math.hypot(1.0, CONSTANT)
"""Norm bound of a row with its constant."""


def with_constant(rows: np.ndarray) -> np.ndarray:
    """Return the flattened rows in float64, with L2 norm clipped to 1, and with `CONSTANT` as last column.

    Entries are rounded to multiples of the step of a public lattice, which `lattice_of` returns for the result. After
    rounding, the norm without the last column is still at most 1.
    """
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    clipped = clip_rows(flat, 1.0, row_lattice(1.0, flat.shape[1] + 1))
    return np.concatenate([clipped, np.full((len(clipped), 1), CONSTANT)], axis=1)


def lattice_of(rows: np.ndarray) -> Lattice:
    """Return the lattice of rows with a constant column."""
    return row_lattice(1.0, rows.shape[1])


MOST_COLUMNS = 2000
"""Largest width of a row for second moments; beyond it the matrix takes minutes and noise dominates it."""


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
    """Return the number of problems to solve: 1 for regression and for two classes, otherwise one for each class."""
    return len(schema.classes) if len(schema.classes) > 2 else 1


def encoded(data: Data, reach: float) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the default feature of the data, the rows after it with a constant (`with_constant`), and `targets`.

    `reach` is as for `targets`.
    """
    feature = feature_for(data.schema)
    return feature, with_constant(rows_of(data, feature)), targets(data, reach)


def targets(data: Data, reach: float) -> np.ndarray:
    """Return targets (problems, rows); for regression they are scaled to [-1, 1] and then divided by `reach`.

    For classes a target is 1 for rows of the problem's class and -1 for all other rows. Two classes are one problem,
    whose class is the second one.
    """
    classes = len(data.schema.classes)
    if not classes:
        values = scaled(np.nan_to_num(data.y.astype(float)), data.schema)
        return np.asarray(values / reach)[None, :]
    codes = np.arange(classes) if classes > 2 else np.array([1])
    return np.where(data.y[None, :] == codes[:, None], 1.0, -1.0)


def default_ridge(noise: float, width: int, distribution: str, most: float) -> float:
    """Return the ridge at which the noise in `width` weights has norm `most`, but at least 1.

    `noise` is the noise multiplier of this `distribution` ("gamma" or "gaussian"), for rows of norm at most `NORM`.
    """
    return max(1.0, noise * NORM * (width if distribution == "gamma" else math.sqrt(width)) / most)


def affine_model(schema: Schema, feature: Any, weights: np.ndarray, reach: float = 1.0) -> Model:
    """Return the linear model for `weights` (problems, width + 1) on rows after `feature` with a constant column.

    The weights of a regression are multiplied by `reach`. One problem for two classes becomes two opposite outputs.
    """
    weights = weights if schema.classes else weights * reach
    if len(schema.classes) == 2 and len(weights) == 1:
        weights = np.concatenate([-weights / 2, weights / 2])
    return linear_model(schema, (feature,), weights[:, :-1], CONSTANT * weights[:, -1])


def slope_bounds(schema: Schema) -> tuple[float, float]:
    """Return bounds on the first and second derivative of the loss: logistic, softmax, or log cosh for regression.

    For a softmax they bound the norm of its gradient and the eigenvalues of its Hessian, with respect to the outputs.
    """
    if not schema.classes:
        return 1.0, 1.0
    return (math.sqrt(2.0), 0.5) if len(schema.classes) > 2 else (1.0, 0.25)


def slopes(schema: Schema, margins: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return the derivative of the loss with respect to each output (problems, rows), from margins (rows, problems).

    `goal` are targets as `targets` returns them.
    """
    if not schema.classes:
        return np.tanh(margins.T - goal)
    if len(goal) == 1:
        return -goal * (0.5 - 0.5 * np.tanh(0.5 * margins.T * goal))
    return softmax(margins).T - (goal + 1) / 2


SLOPES = Lattice(bound=1.0, bits=20)
"""Lattice to which derivatives of the loss are rounded."""


def slope_sums(schema: Schema, rows: np.ndarray, weights: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return the exact sums over rows of derivative times row (problems, width) at public `weights`.

    `goal` are targets as `targets` returns them, and `rows` are rows as `with_constant` returns them. Derivatives are
    rounded towards zero. Rows and weights lie on lattices that keep their products within 53 bits, so margins are
    exact.
    """
    lattice = lattice_of(rows)
    length = float(np.linalg.norm(weights, axis=1).max())
    coarse = Lattice(bound=max(length, 2.0**-99), bits=MANTISSA - 1 - lattice.bits).round(weights)
    values = SLOPES.round(lattice_slopes(schema, coarse @ rows.T, goal))
    return np.asarray(outer_sum(values.T, rows, SLOPES, lattice))


def lattice_slopes(schema: Schema, margins: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return `slopes` (problems, rows) from margins (problems, rows), with an error of 1e-5, computed entry by entry.

    `goal` are targets as `targets` returns them.
    """
    if not schema.classes:
        return tanh(margins - goal)
    if len(goal) == 1:
        return -goal * (0.5 - 0.5 * tanh(0.5 * margins * goal))
    numerators = softmax_numerators(LOG2E * margins).astype(np.float64)
    return np.asarray(numerators / numerators.sum(axis=0) - (goal + 1) / 2)


def noisy_moments(rows: np.ndarray, noise: float, rng: Rng) -> np.ndarray:
    """Return the sum of x x' over rows x with symmetric Gaussian noise at noise multiplier `noise`.

    One row changes the exact sum by at most NORM^2 in Frobenius norm. Noise is added to the upper triangle with its
    off-diagonal entries multiplied by sqrt(2), which has the same norm as the matrix.
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
    """Return the sum of x x' over rows x, exact in any order."""
    lattice = lattice_of(rows)
    return np.asarray(outer_sum(rows, rows, lattice, lattice))
