"""Noisy Newton steps for softmax or robust linear regression, for tables of few columns.

The second-moment matrix of the rows is released once. Multiplied by the largest second derivative of the loss it is an
upper bound of every Hessian, so without noise a step with this matrix never increases the loss. Each step then costs
one noisy gradient, and ten steps achieve what gradient descent achieves in a hundred. Eigenvalues below the noise level
are raised to the noise level.

Paper: Ganesh, Haghifam, Steinke, Thakurta 2023, Faster Differentially Private Convex Optimization via Second-Order
Methods, arXiv:2305.13209; the bound after Boehning and Lindsay 1988, released once here.
Privacy: (epsilon, delta) for one row added or removed, by steps + 1 Gaussian releases. A row x of norm at most R
changes the sum of x x' by at most R^2 in Frobenius norm (off-diagonal entries count twice, and have half the variance
each). It changes the sum of gradients by R times the derivative of its loss, which is at most 1, or sqrt(2) for a
softmax of more than two classes. Rows and derivatives lie on public lattices and their sums are exact in any order, so
one row does not change the terms of other rows (`_convex/bounded_rows.py`).
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
    encoded,
    expect_few_columns,
    noisy_moments,
    outputs,
    slope_bounds,
    slope_sums,
)
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Newton"]


@dataclass(frozen=True, kw_only=True)
class Newton(Learner):
    """Softmax or robust linear regression by noisy Newton steps.

    Parameters
    ----------
    steps : int
        Number of Newton steps.
    ridge : float
        Ridge penalty: `ridge / 2 * |weights|**2` is added to the sum (not the mean) of the losses.
    reach : float
        Scale of residuals: the loss of a regression is log cosh(residual / reach), for targets scaled to [-1, 1]. Not
        used for classes.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    sums: ClassVar[str] = "exact"

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
        feature, rows, goal = encoded(data, self.reach)
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
