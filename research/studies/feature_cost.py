"""Whether a feature is worth its noise: the exact condition for a linear model with Gaussian noise on coefficients.

A row (x, y) is predicted by `theta' x` with noise N(0, noise^2) on every coefficient. Without feature m, its
coefficient is 0 and all other coefficients have noise N(0, without^2). Let x' be x without feature m, `c = y - theta'
x`, and `d = noise^2 |x|^2 - without^2 |x'|^2`. The expected squared error without the feature is smaller or equal
exactly when `|theta_m x_m + c| <= sqrt(c^2 + d)`.

Paper: Bao, Bauer and Bindschaedler, Lemma 1 and Corollary 1. Their condition |theta_m| <= (sqrt(c^2 + d) - |c|) / |x_m|
is printed as an equivalence but is only sufficient. With c = 0 and equal noise both conditions say |theta_m| <= noise.
Privacy: none, this only computes. On private rows its answer is an exact statistic, so use public rows, or one row at a
time as a thought experiment.
Use when: you want to see why few features win at a small epsilon.

The bound of the paper says keep, although dropping is four times better (c = 1, d = 3, theta_m x_m = -2):

>>> cost = feature_cost(theta=[0.0, -2.0], x=[0.0, 1.0], y=-1.0, noise=3**0.5)
>>> cost.drop, cost.sufficient, round(cost.error_with, 9), cost.error_without
(True, False, 4.0, 1.0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware import accounting
from privaware.errors import WrongInput
from privaware.events import Gaussian
from privaware.workflow._curves import Point, lines
from research.studies._result import Result

__all__ = ["feature_cost", "FeatureCost", "worth"]


@dataclass(frozen=True, kw_only=True)
class FeatureCost(Result):
    """The effect of one feature on the expected squared error of one row."""

    drop: bool
    sufficient: bool
    error_with: float
    error_without: float
    residual: float
    difference: float
    bound: float | None

    def chart(self) -> Any:
        """Return a chart of both errors."""
        ends = [("with the feature", self.error_with), ("without it", self.error_without)]
        points = [
            Point(curve=name, x=1.0, mean=value, spread=0.0, low=value, high=value, scores=(value,))
            for name, value in ends
        ]
        return lines(points, x="", y="expected squared error", log=False)


def feature_cost(
    theta: Sequence[float],
    x: Sequence[float],
    y: float,
    *,
    noise: float,
    without: float | None = None,
    feature: int = -1,
) -> FeatureCost:
    """Compute the errors of one row with and without `feature`, and what both conditions say.

    `noise` is the standard deviation on each coefficient. `without` is the standard deviation in the smaller model
    (default: the same). `bound` is the bound of the paper on |theta_m| (None if x_m is 0). Below `bound` dropping is
    sure to help; above it, the exact condition decides.
    """
    weights, row = np.asarray(theta, dtype=float), np.asarray(x, dtype=float)
    other = noise if without is None else without
    if weights.shape != row.shape or weights.ndim != 1 or not -row.size <= feature < row.size:
        raise WrongInput(
            f"expected one coefficient for each of the row's features, got {weights.shape} and {row.shape}"
        )
    if not noise >= 0 or not other >= 0 or not np.isfinite([*weights, *row, y, noise, other]).all():
        raise WrongInput("expected finite numbers and noise of at least 0")
    rest = np.delete(row, feature)
    residual = float(y - weights @ row)
    share = float(weights[feature] * row[feature])
    difference = float(noise**2 * (row @ row) - other**2 * (rest @ rest))
    edge = math.sqrt(residual**2 + difference) if residual**2 + difference >= 0 else -1.0
    gap = edge - abs(residual)
    bound = float(gap / abs(row[feature])) if row[feature] else None
    return FeatureCost(
        drop=abs(share + residual) <= edge,
        sufficient=gap >= 0 if bound is None else bool(abs(weights[feature]) <= bound),
        error_with=residual**2 + noise**2 * float(row @ row),
        error_without=(share + residual) ** 2 + other**2 * float(rest @ rest),
        residual=residual,
        difference=difference,
        bound=bound,
    )


def worth(epsilon: float, delta: float, *, sensitivity: float = 1.0) -> dict[str, float]:
    """Return the size that a coefficient must exceed to be worth its noise, if the model fits exactly.

    `printed` is the formula of the paper, `sensitivity / epsilon * sqrt(2 * ln(1.25 / delta))`. It is proved for
    epsilon below 1 only, and is too small above 8.3 at delta 1e-5. `exact` is the noise that the Gaussian mechanism
    really needs.

    >>> sizes = worth(1.0, 1e-5)
    >>> round(sizes["exact"], 2), round(sizes["printed"], 2)
    (3.73, 4.84)
    """
    exact = accounting.calibrate(lambda noise: Gaussian(noise=noise), epsilon, delta)
    printed = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    return {"exact": sensitivity * exact, "printed": sensitivity * printed}
