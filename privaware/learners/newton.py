"""Noisy Newton steps for softmax or robust linear regression, for tables of few columns.

The matrix of second moments of the rows is released once; times the largest second derivative of the
loss it bounds every Hessian from above, so that the step it gives never increases the loss. The steps
then cost one noisy gradient each, and ten achieve what gradient descent does in a hundred. Eigenvalues below the
noise level are raised to it.

Paper: Ganesh, Haghifam, Steinke, Thakurta 2023, Faster Differentially Private Convex Optimization via
Second-Order Methods, arXiv:2305.13209; the bound after Boehning and Lindsay 1988, released once here.
Privacy: (epsilon, delta) for one row added or removed: steps + 1 Gaussian releases. A row of length R moves the
sum of x x' by R^2 in Frobenius norm (off-diagonal entries count twice, and have half the variance each), and
the gradients' sum by R times its slope, at most 1, or sqrt 2 for a softmax of more than two classes. Rows and slopes
are on public lattices and their sums exact in any order, so that other rows' terms do not move
(`_convex/bounded_rows.py`).
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

from privaware._validate import expect_between, expect_count
from privaware.data import Data
from privaware.events import Event, Gaussian
from privaware.learners import Learner
from privaware.learners._convex.bounded_rows import (
    NORM,
    affine_model,
    expect_few_columns,
    noisy_moments,
    outputs,
    slope_bounds,
    slope_sums,
    targets,
    with_constant,
)
from privaware.learners._fixed_features import feature_for, rows_of
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
        expect_count("newton", steps=self.steps)
        expect_between("newton", 1e-3, 1e12, ridge=self.ridge)
        expect_between("newton", 1e-3, 1e3, reach=self.reach)

    def cost(self, schema: Schema, noise: float) -> Event:
        expect_few_columns(schema, "newton")
        return (self.steps + 1) * Gaussian(noise=noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        schema, count = data.schema, outputs(data.schema)
        feature = feature_for(schema)
        rows, goal = with_constant(rows_of(data, feature)), targets(data, self.reach)
        slope, curvature = slope_bounds(schema)
        values, vectors = np.linalg.eigh(noisy_moments(rows, noise, rng))
        edge = noise * NORM**2 * math.sqrt(rows.shape[1])
        curves = curvature * np.maximum(values, edge) + self.ridge
        weights = np.zeros((count, rows.shape[1]))
        for _ in range(self.steps):
            exact_gradient = slope_sums(schema, rows, weights, goal)
            noisy = rng.gaussian(exact_gradient, noise=noise, sensitivity=slope * NORM)
            step = (noisy + self.ridge * weights) @ vectors / curves
            weights = weights - step @ vectors.T
        return affine_model(schema, feature, weights, self.reach)
