"""Rows with a constant column and a declared length, their targets, and the linear model they lead to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privaware.data import Data
from privaware.errors import WrongInput
from privaware.learners._rows import feature_for, linear_model, softmax
from privaware.model import Model, scaled
from privaware.noise import Rng
from privaware.schema import Schema

CONSTANT = 0.5
"""The constant column: smaller than a row, since every row pays for its length with noise."""

NORM = math.hypot(1.0, CONSTANT)
"""The declared length of a row with its constant."""


def with_constant(rows: np.ndarray) -> np.ndarray:
    """Rows as double precision, shortened to length 1 where rounding passed it, then the constant."""
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:])).astype(float)
    wide = np.nan_to_num(flat, posinf=0.0, neginf=0.0)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    wide = wide * np.minimum(1.0, (1 - 1e-12) / np.maximum(length, 1e-300))
    return np.concatenate([wide, np.full((len(wide), 1), CONSTANT)], axis=1)


WIDEST = 2000
"""Columns beyond which a matrix of their moments takes minutes and drowns in noise."""


def expect_few(schema: Schema, name: str) -> None:
    """Refuses, before anything is charged, what a learner of few columns cannot do."""
    width = feature_for(schema).width(schema)
    if width > WIDEST:
        raise WrongInput(f"{name}: expected rows of at most {WIDEST} numbers, got {width}; take linear or objective")


def outputs(schema: Schema) -> int:
    """Problems to solve: one for numbers and for two classes, else one a class."""
    return len(schema.classes) if len(schema.classes) > 2 else 1


def signs(data: Data) -> np.ndarray:
    """Targets (problems, rows): -1 and 1 for each class against the rest."""
    classes = len(data.schema.classes)
    codes = np.arange(classes) if classes > 2 else np.array([1])
    return np.where(data.y[None, :] == codes[:, None], 1.0, -1.0)


def goals(data: Data, reach: float) -> np.ndarray:
    """Signs of classes, or the target scaled to [-1, 1] and measured in `reach`."""
    if data.schema.classes:
        return signs(data)
    numbers = scaled(np.nan_to_num(data.y.astype(float)), data.schema)
    return np.asarray(numbers / reach)[None, :]


def affine_model(schema: Schema, feature: Any, weights: np.ndarray, reach: float = 1.0) -> Model:
    """The model of weights (problems, width + 1) on rows with a constant."""
    weights = weights if schema.classes else weights * reach
    if len(schema.classes) == 2 and len(weights) == 1:
        weights = np.concatenate([-weights / 2, weights / 2])
    return linear_model(schema, feature, weights[:, :-1], CONSTANT * weights[:, -1])


def slope_bounds(schema: Schema) -> tuple[float, float]:
    """The largest slope and second derivative of the loss: logistic, softmax, or log cosh for numbers."""
    if not schema.classes:
        return 1.0, 1.0
    return (math.sqrt(2.0), 0.5) if len(schema.classes) > 2 else (1.0, 0.25)


def slopes(schema: Schema, margins: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """The loss's slope in each output (problems, rows), from margins (rows, problems) and `goals`."""
    if not schema.classes:
        return np.tanh(margins.T - goal)
    if len(goal) == 1:
        return -goal * (0.5 - 0.5 * np.tanh(0.5 * margins.T * goal))
    return softmax(margins).T - (goal + 1) / 2


def moments(rows: np.ndarray, noise: float, rng: Rng) -> np.ndarray:
    """The sum of x x' with symmetric Gaussian noise: a row of length `NORM` is NORM^2 long in Frobenius norm.

    Released is the upper triangle with its off-diagonal entries times sqrt 2, which has the same length.
    """
    width = rows.shape[1]
    upper = np.triu_indices(width)
    weight = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
    exact_triangle = (rows.T @ rows)[upper] * weight
    noisy = rng.gaussian(exact_triangle, noise=noise, sensitivity=NORM**2) / weight
    made = np.zeros((width, width))
    made[upper] = made.T[upper] = noisy
    return made
