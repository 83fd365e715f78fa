"""AdaSSP: linear regression from three noisy sufficient statistics, with a ridge that adapts to them.

The second moments of the rows, their products with the targets and the least eigenvalue are released; the
ridge is as large as the noise asks for and the data do not already provide. Classes are regressed on as
-1 and 1 (0 and 1 for more than two) and the outputs scaled to serve as logits.

Paper: Wang 2018, Revisiting Differentially Private Linear Regression, arXiv:1803.02596, algorithm 2. With z its
sqrt(ln(6 / delta)) / (epsilon / 3), the releases and the ridge z R^2 sqrt(width ln(2 width^2 / chance)) less the
least eigenvalue are the paper's, chance 0.05 as there. Ours: z comes from the exact accountant; that eigenvalue is
lowered by z R^2 sqrt(2 ln(1 / chance)), where the paper takes sqrt(ln(6 / delta)) for the root; off the diagonal
noise is smaller by root 2 at the same price; and curvatures left below z R^2 are raised to it.
Privacy: (epsilon, delta) for one row added or removed: three Gaussian releases. A row of length R moves the
sum of x x' by R^2 in Frobenius norm, hence each eigenvalue by at most R^2, and the sum of y x by R, since
targets are scaled to [-1, 1] (or have one entry of 1). Rows and targets are on public lattices and their sums exact
in any order (`_convex/bounded_rows.py`); what the eigenvalue routine rounds is in that release's sensitivity.
Use when: the target is a number and columns are few; also a quick classifier at very small budgets.

>>> from privaware.schema import Column, Schema
>>> schema = Schema(columns=(Column(name="age", low=0, high=99),), low=0, high=10, rows=1000)
>>> Adassp().cost(schema, noise=8.0)
Repeated(event=Gaussian(noise=8.0), count=3)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaware._validate import expect_between
from privaware.data import Data
from privaware.events import Event, Gaussian
from privaware.exact_sums import Lattice, outer_sum
from privaware.learners import Learner
from privaware.learners._convex.bounded_rows import (
    NORM,
    affine_model,
    exact_moments,
    expect_few_columns,
    lattice_of,
    noisy_moments,
    targets,
    with_constant,
)
from privaware.learners._fixed_features import feature_for, rows_of
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Adassp"]

TARGETS = Lattice(bound=1.0, bits=20)

EIGENVALUE_ERROR = 2.0**-17
"""Rounding of an eigenvalue over R^2, for each column: 8 x width x 2^-53 of the matrix's norm on either side, which
is at most R^2 times 2^32 rows."""


@dataclass(frozen=True, kw_only=True)
class Adassp(Learner):
    """`chance` is the probability that the noise exceeds what the ridge allows for."""

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")

    chance: float = 0.05

    def __post_init__(self) -> None:
        expect_between("adassp", 1e-9, 0.5, chance=self.chance)

    def cost(self, schema: Schema, noise: float) -> Event:
        expect_few_columns(schema, "adassp")
        return 3 * Gaussian(noise=noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        schema, feature = data.schema, feature_for(data.schema)
        rows, goal = with_constant(rows_of(data, feature)), targets(data, 1.0)
        goal = (goal + 1) / 2 if len(schema.classes) > 2 else goal
        width = rows.shape[1]
        exact_least = float(np.linalg.eigvalsh(exact_moments(rows))[0])
        least = rng.gaussian(exact_least, noise=noise, sensitivity=NORM**2 * (1 + width * EIGENVALUE_ERROR))
        safe = max(0.0, least - noise * NORM**2 * math.sqrt(2 * math.log(1 / self.chance)))
        noisy = noisy_moments(rows, noise, rng)
        exact_products = outer_sum(TARGETS.round(goal).T, rows, TARGETS, lattice_of(rows))
        products = rng.gaussian(exact_products, noise=noise, sensitivity=NORM)
        spread = noise * NORM**2 * math.sqrt(width * math.log(2 * width**2 / self.chance))
        values, vectors = np.linalg.eigh(noisy)
        curves = np.maximum(values + max(0.0, spread - safe), noise * NORM**2)
        weights = (products @ vectors / curves) @ vectors.T
        logits = 1.0 if not schema.classes else 2.0 if len(schema.classes) == 2 else 4.0
        return affine_model(schema, feature, weights * logits)
