"""Rows of bounded norm with a constant column, their targets, and the linear model of weights on them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privaware.data import Data
from privaware.errors import WrongInput
from privaware.learners._fixed_features import feature_for, linear_model, softmax
from privaware.model import Model, scaled
from privaware.noise import Rng
from privaware.schema import Schema

CONSTANT = 0.5
"""The constant column: smaller than a row, since noise grows with the norm of a row."""

NORM = math.hypot(1.0, CONSTANT)
"""The norm bound of a row with its constant."""


def with_constant(rows: np.ndarray) -> np.ndarray:
    """Rows in double precision, clipped to norm 1 where rounding exceeded it, then the constant."""
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:])).astype(float)
    finite = np.nan_to_num(flat, posinf=0.0, neginf=0.0)
    norms = np.linalg.norm(finite, axis=1, keepdims=True)
    clipped = finite * np.minimum(1.0, (1 - 1e-12) / np.maximum(norms, 1e-300))
    return np.concatenate([clipped, np.full((len(clipped), 1), CONSTANT)], axis=1)


MOST_COLUMNS = 2000
"""Beyond it, the matrix of second moments takes minutes and is dominated by noise."""


def expect_few_columns(schema: Schema, name: str) -> None:
    """Refuses, before anything is charged, rows with too many columns for second moments."""
    width = feature_for(schema).width(schema)
    if width > MOST_COLUMNS:
        raise WrongInput(
            f"{name}: expected rows of at most {MOST_COLUMNS} numbers, got {width}; "
            "take linear or objective_perturbation"
        )


def outputs(schema: Schema) -> int:
    """Problems to solve: one for regression and for two classes, else one a class."""
    return len(schema.classes) if len(schema.classes) > 2 else 1


def signs(data: Data) -> np.ndarray:
    """Targets (problems, rows): -1 and 1 for each class against the rest."""
    classes = len(data.schema.classes)
    codes = np.arange(classes) if classes > 2 else np.array([1])
    return np.where(data.y[None, :] == codes[:, None], 1.0, -1.0)


def targets(data: Data, reach: float) -> np.ndarray:
    """Signs of classes, or the target scaled to [-1, 1] and divided by `reach`."""
    if data.schema.classes:
        return signs(data)
    values = scaled(np.nan_to_num(data.y.astype(float)), data.schema)
    return np.asarray(values / reach)[None, :]


def affine_model(schema: Schema, feature: Any, weights: np.ndarray, reach: float = 1.0) -> Model:
    """The model of weights (problems, width + 1) on rows with a constant."""
    weights = weights if schema.classes else weights * reach
    if len(schema.classes) == 2 and len(weights) == 1:
        weights = np.concatenate([-weights / 2, weights / 2])
    return linear_model(schema, feature, weights[:, :-1], CONSTANT * weights[:, -1])


def slope_bounds(schema: Schema) -> tuple[float, float]:
    """Bounds on the first and second derivative of the loss: logistic, softmax, or log cosh for regression."""
    if not schema.classes:
        return 1.0, 1.0
    return (math.sqrt(2.0), 0.5) if len(schema.classes) > 2 else (1.0, 0.25)


def slopes(schema: Schema, margins: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Derivatives of the loss in each output (problems, rows), from margins (rows, problems) and `targets`."""
    if not schema.classes:
        return np.tanh(margins.T - goal)
    if len(goal) == 1:
        return -goal * (0.5 - 0.5 * np.tanh(0.5 * margins.T * goal))
    return softmax(margins).T - (goal + 1) / 2


def noisy_moments(rows: np.ndarray, noise: float, rng: Rng) -> np.ndarray:
    """The sum of x x' with symmetric Gaussian noise: a row of norm `NORM` adds a matrix of Frobenius norm NORM^2.

    Released is the upper triangle with its off-diagonal entries times sqrt 2, which has the same norm.
    """
    width = rows.shape[1]
    upper = np.triu_indices(width)
    weight = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
    exact_triangle = (rows.T @ rows)[upper] * weight
    noisy = rng.gaussian(exact_triangle, noise=noise, sensitivity=NORM**2) / weight
    matrix = np.zeros((width, width))
    matrix[upper] = matrix.T[upper] = noisy
    return matrix
