"""The sample-size law: which epsilon, or how many rows, reach an accuracy, fitted to recorded runs on public data.

The sample-size law is `epsilon = (base / rows) ** power`, a line in logarithms. Noise calibrated to epsilon moves a
mean over rows by about `1 / (rows * epsilon)`, so `power` is near 1. (Bao et al. fix the noise multiplier instead, and
fit `ln(alpha + beta / rows)`.) `power` is 1 for a data set measured at only one number of rows.

>>> law = fit_law({1000: 1.0, 10_000: 0.1})
>>> round(law.power, 3), round(law.epsilon(2000), 3), round(law.rows(0.01))
(1.0, 0.5, 100000)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["SizeLaw", "epsilon_at", "fit_law"]

Scores = Mapping[str, Any]
"""Maps an epsilon to the scores of all seeds, or to their mean, deviation and number if only those were stored."""


@dataclass(frozen=True)
class SizeLaw:
    """The sample-size law for one accuracy.

    `misfit` is the standard deviation of log epsilon around the law. `centre` is the mean of log rows of the fitted
    points.
    """

    power: float
    base: float
    misfit: float = 0.0
    centre: float = 0.0

    def epsilon(self, rows: float) -> float:
        """Return the epsilon that the law predicts for `rows` rows."""
        return (self.base / rows) ** self.power

    def rows(self, epsilon: float) -> float:
        """Return the number of rows that the law predicts for `epsilon`."""
        return self.base / epsilon ** (1 / self.power)


def fit_law(spent: Mapping[int, float]) -> SizeLaw:
    """Fit the law by least squares in logarithms; `spent` maps a number of rows to the epsilon that it needs.

    `power` is 1 if `spent` has one entry, and is limited to [0.5, 2].
    """
    rows, epsilons = np.log(list(spent)), np.log(list(spent.values()))
    slope = float(np.polyfit(rows, epsilons, 1)[0]) if len(spent) > 1 else -1.0
    power = min(max(-slope, 0.5), 2.0)
    centre = float(rows.mean())
    height = float(epsilons.mean()) + power * centre
    rest = epsilons - (height - power * rows)
    misfit = math.sqrt(float(np.sum(rest**2)) / max(len(spent) - 2, 1))
    return SizeLaw(power, math.exp(height / power), misfit, centre)


def epsilon_at(scores: Scores, accuracy: float) -> float | None:
    """Return the epsilon at which the mean score reaches `accuracy`; None outside the measured scores.

    Between two measured epsilons, log epsilon is interpolated linearly.
    """
    at = sorted(scores, key=float)
    means = np.maximum.accumulate([_mean(scores[epsilon]) for epsilon in at])
    if not means[0] <= accuracy <= means[-1]:
        return None
    return float(np.exp(np.interp(accuracy, means, np.log([float(epsilon) for epsilon in at]))))


def _mean(scores: Any) -> float:
    return float(scores["mean"] if isinstance(scores, dict) else np.mean(scores))
