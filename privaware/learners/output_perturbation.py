"""Output perturbation: logistic (or robust linear) regression, solved exactly, and noise added to the weights.

Paper: Chaudhuri, Monteleoni, Sarwate 2011, Differentially Private Empirical Risk Minimization, algorithm 1.
Privacy: for one row added or removed. The objective is the sum of the losses plus ridge / 2 |w|^2 and does not contain
the number of rows. It is ridge-strongly convex, and one row adds a term whose gradient has norm at most R, the declared
row norm. The minimiser therefore moves by at most R / ridge (2 R / ridge when a row is replaced). The solver stops near
the minimiser, at a gradient of proven rounding error, which adds twice `slack` to the sensitivity. Weights without this
certificate are refused (`_convex/solver.py`). distribution="gaussian" is a Gaussian mechanism, accounted exactly.
distribution="gamma" (noise whose density decreases with its norm) is pure, with epsilon = 1 / noise.
Use when: comparing with objective perturbation, which is better in most settings.

>>> from privaware.schema import Schema
>>> OutputPerturbation(distribution="gamma").cost(Schema(classes=("no", "yes"), rows=100), noise=2.0)
Pure(epsilon=0.5)
>>> classic_noise(2.0, delta=1e-5)
Traceback (most recent call last):
privaware.errors.WrongInput: the classic Gaussian calibration is proved for epsilon below 1 only...
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaware._validate import expect_between, expect_one_of
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Event, Gaussian, Pure
from privaware.learners import Learner
from privaware.learners._convex.bounded_rows import NORM, affine_model, default_ridge, encoded, outputs
from privaware.learners._convex.solver import TOLERANCE, Problems
from privaware.model import Model
from privaware.noise import SMEAR, Rng
from privaware.schema import Schema

__all__ = ["OutputPerturbation", "classic_noise"]

MAX_NOISE_NORM = 1.5
"""The default ridge is so large that the noise gives the weights a norm of about this at most.

docs/results/convex.md compares other values.
"""


@dataclass(frozen=True, kw_only=True)
class OutputPerturbation(Learner):
    """Logistic or robust linear regression with noise added to the exact weights.

    Parameters
    ----------
    distribution : str
        Distribution of the noise: "gaussian" or "gamma".
    ridge : float, optional
        Ridge penalty: `ridge / 2 * |weights|**2` is added to the sum of the losses. By default it follows from the
        noise multiplier.
    reach : float
        Scale of residuals: the loss of a regression is log cosh(residual / reach), for targets scaled to [-1, 1]. Not
        used for classes.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    guarantee: ClassVar[str] = "(epsilon, delta), or epsilon with gamma noise"

    distribution: str = "gaussian"
    ridge: float | None = None
    reach: float = 0.5

    def __post_init__(self) -> None:
        expect_one_of("output_perturbation", ("gaussian", "gamma"), distribution=self.distribution)
        expect_between("output_perturbation", 1e-3, 1e12, optional=True, ridge=self.ridge)
        expect_between("output_perturbation", 1e-3, 1e3, reach=self.reach)

    def cost(self, schema: Schema, noise: float) -> Event:
        per_problem = self._noise(schema, noise)
        event = Gaussian(noise=per_problem) if self.distribution == "gaussian" else Pure(epsilon=1 / per_problem)
        return outputs(schema) * event

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        schema, count = data.schema, outputs(data.schema)
        feature, rows, goal = encoded(data, self.reach)
        noise = self._noise(schema, noise)
        ridge = self.ridge or default_ridge(noise, rows.shape[1], self.distribution, MAX_NOISE_NORM)
        problems = Problems(
            rows=rows,
            targets=goal,
            loss="logistic" if schema.classes else "logcosh",
            ridge=np.full(count, ridge),
            masks=np.ones((count, rows.shape[1]), bool),
            norm=np.full(count, NORM),
            tolerance=np.full(count, TOLERANCE * NORM),
        )
        exact_weights = problems.solve(np.zeros((count, rows.shape[1])))
        sensitivity = NORM / ridge + 2 * float(problems.slack[0])
        if self.distribution == "gaussian":
            noisy = [rng.gaussian(w, noise=noise, sensitivity=sensitivity) for w in exact_weights]
            return affine_model(schema, feature, np.array(noisy), self.reach)
        weights = rng.perturb(
            _AddedNoise(exact=exact_weights),
            distribution="gamma",
            noise=np.full(count, noise * (1 + 1 / SMEAR)),
            sensitivity=np.full(count, sensitivity),
            volume=np.full(count, 1e-9),
            price=(Pure(epsilon=1 / noise),) * count,
        )
        return affine_model(schema, feature, weights, self.reach)

    def _noise(self, schema: Schema, noise: float) -> float:
        """Return the noise multiplier of each problem at which all problems together cost one release at `noise`.

        There is one problem, or one for each class if there are more than two. The result is `noise` times their number
        for "gamma", or times its square root for "gaussian".
        """
        count = outputs(schema)
        return noise * (count if self.distribution == "gamma" else math.sqrt(count))


@dataclass(frozen=True, kw_only=True, eq=False)
class _AddedNoise:
    """The problem for `Rng.perturb` whose solution is the sum of the weights `exact` and a random vector.

    The map from the random vector to the solution is a translation. So the logarithm of its Jacobian determinant, the
    log volume of `Rng.perturb`, is 0.
    """

    exact: np.ndarray

    @property
    def masks(self) -> np.ndarray:
        return np.ones(self.exact.shape, bool)

    @property
    def tolerance(self) -> np.ndarray:
        return np.full(len(self.exact), 1e-9)

    @property
    def slack(self) -> np.ndarray:
        return self.tolerance  # the sum is exact up to rounding

    def solve(self, vectors: np.ndarray) -> np.ndarray:
        return self.exact + vectors

    def implied(self, released: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return released - self.exact, np.zeros(len(released))


def classic_noise(epsilon: float, delta: float) -> float:
    """Return the classic noise multiplier of the Gaussian mechanism, sqrt(2 ln(1.25 / delta)) / epsilon.

    The formula is proved for epsilon below 1 and false for epsilon above 8.

    Parameters
    ----------
    epsilon : float
        Epsilon, above 0 and below 1; any other raises `WrongInput`.
    delta : float
        Delta.

    Returns
    -------
    float
        The noise multiplier.

    >>> round(classic_noise(0.5, delta=1e-5), 3)
    9.69
    """
    if not 0 < epsilon < 1:
        raise WrongInput(
            f"the classic Gaussian calibration is proved for epsilon below 1 only, got {epsilon!r}; "
            "use privaware.accounting.calibrate, which is exact for any epsilon"
        )
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon
