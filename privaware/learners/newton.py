"""Softmax or robust linear regression by noisy Newton steps, for tables of few columns.

The matrix of second moments of the rows is released once; times the largest second derivative of the
loss it bounds every Hessian from above, so that each step of the length it allows goes downhill. The steps
then cost one noisy gradient each, and ten do what descent does in a hundred. Eigenvalues below the edge of
the noise are lifted to it.

Paper: Ganesh, Haghifam, Steinke, Thakurta 2023, Faster Differentially Private Convex Optimization via
Second-Order Methods, arXiv:2305.13209; the bound after Boehning and Lindsay 1988, released once here.
Privacy: (epsilon, delta) for one row added or removed: steps + 1 Gaussian releases. A row of length R moves the
sum of x x' by R^2 in Frobenius norm (off-diagonal entries count twice, and have half the variance each), and
the gradients' sum by R times its slope, at most 1, or sqrt 2 for a softmax of more than two classes.
Use when: columns are few (tens) and rows many.

>>> from privaware.schema import Column, Schema
>>> schema = Schema(columns=(Column(name="age", low=0, high=99),), classes=("no", "yes"), rows=1000)
>>> Newton(steps=6).cost(schema, noise=8.0)
Repeated(event=Gaussian(noise=8.0), count=7)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Event, Gaussian
from privaware.learners import Learner
from privaware.learners._affine import (
    NORM,
    affine_model,
    expect_few,
    goals,
    moments,
    outputs,
    slope_bounds,
    slopes,
    with_constant,
)
from privaware.learners._rows import feature_for, rows_of
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Newton"]


@dataclass(frozen=True, kw_only=True)
class Newton(Learner):
    """`ridge` is the least curvature of any direction, in rows; `reach` the unit of residuals in regression."""

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")

    steps: int = 8
    ridge: float = 1.0
    reach: float = 0.5

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise WrongInput(f"newton: expected steps >= 1, got {self.steps!r}")
        if not 1e-3 <= self.ridge <= 1e12 or not 1e-3 <= self.reach <= 1e3:
            raise WrongInput(
                "newton: expected ridge from 0.001 to 1e12 and reach from 0.001 to 1000, got "
                f"{self.ridge!r} and {self.reach!r}"
            )

    def cost(self, schema: Schema, noise: float) -> Event:
        expect_few(schema, "newton")
        return (self.steps + 1) * Gaussian(noise=noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        schema, many = data.schema, outputs(data.schema)
        feature = feature_for(schema)
        rows, goal = with_constant(rows_of(data, feature)), goals(data, self.reach)
        slope, bend = slope_bounds(schema)
        values, vectors = np.linalg.eigh(moments(rows, noise, rng))
        edge = noise * NORM**2 * math.sqrt(rows.shape[1])
        curves = bend * np.maximum(values, edge) + self.ridge
        weights = np.zeros((many, rows.shape[1]))
        for _ in range(self.steps):
            exact_gradient = slopes(schema, rows @ weights.T, goal) @ rows
            noisy = rng.gaussian(exact_gradient, noise=noise, sensitivity=slope * NORM)
            step = (noisy + self.ridge * weights) @ vectors / curves
            weights = weights - step @ vectors.T
        return affine_model(schema, feature, weights, self.reach)
