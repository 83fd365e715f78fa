"""AdaSSP: linear regression from three noisy sufficient statistics, with a ridge that adapts to them.

Three statistics are released: the second-moment matrix of the rows, the products of rows and targets, and the smallest
eigenvalue of the matrix. The ridge is the amount that the noise requires, minus the part that the smallest eigenvalue
already provides. Two classes are regressed on as -1 and 1, more classes as 0 and 1; the outputs are scaled to serve as
logits.

Paper: Wang 2018, Revisiting Differentially Private Linear Regression, arXiv:1803.02596, algorithm 2. Let z be the
paper's noise multiplier, sqrt(ln(6 / delta)) / (epsilon / 3), and R the norm bound of a row. The three releases are the
paper's, and so is the ridge, z R^2 sqrt(width ln(2 width^2 / chance)) minus the smallest eigenvalue, with chance =
0.05. This implementation differs in four points:
1. z comes from the exact accountant.
2. The eigenvalue is lowered by z R^2 sqrt(2 ln(1 / chance)); the paper has sqrt(ln(6 / delta)) instead of sqrt(2 ln(1 /
   chance)).
3. Noise on off-diagonal entries is smaller by a factor of sqrt(2), at the same cost.
4. Eigenvalues of the regularised matrix below z R^2 are raised to z R^2.
Privacy: (epsilon, delta) for one row added or removed, by three Gaussian releases. A row x of norm at most R changes
the sum of x x' by at most R^2 in Frobenius norm, hence each eigenvalue by at most R^2. It changes the sum of y x by at
most R, since targets are scaled to [-1, 1] or have one entry of 1. Rows and targets lie on public lattices and their
sums are exact in any order (`_convex/bounded_rows.py`). The sensitivity of the eigenvalue includes the rounding error
of the eigenvalue routine.
Use when: the target is a number and columns are few; also as a quick classifier at very small budgets.

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
    encoded,
    exact_moments,
    expect_few_columns,
    lattice_of,
    noisy_moments,
)
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Adassp"]

TARGETS = Lattice(bound=1.0, bits=20)
"""Targets, in [-1, 1], are rounded towards zero to multiples of 2^-20."""

EIGENVALUE_ERROR = 2.0**-17
"""Bound on what rounding adds to the sensitivity of an eigenvalue, divided by `width * R**2`.

`width` is the number of entries of a row and R bounds the norm of a row. The eigenvalue routine errs by at most
`8 * width * 2**-53` times the norm of the second-moment matrix. This norm is at most `R**2` times the number of rows,
for up to 2**32 rows, and the errors of two neighbouring data sets add up.
"""


@dataclass(frozen=True, kw_only=True)
class Adassp(Learner):
    """Linear regression from noisy sufficient statistics.

    Parameters
    ----------
    chance : float
        Failure probability of each of the two bounds on the noise from which the ridge is computed, from 1e-9 to 0.5. A
        smaller value gives a larger ridge.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    sums: ClassVar[str] = "exact"

    chance: float = 0.05

    def __post_init__(self) -> None:
        expect_between("adassp", 1e-9, 0.5, chance=self.chance)

    def cost(self, schema: Schema, noise: float) -> Event:
        expect_few_columns(schema, "adassp")
        return 3 * Gaussian(noise=noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        schema = data.schema
        feature, rows, goal = encoded(data, 1.0)
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
