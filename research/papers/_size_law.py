"""Estimate which epsilon, or how many rows, reach an accuracy, with a law fitted to recorded runs on public data.

The sample-size law is `epsilon = (base / rows) ** power`, a line in logarithms. Noise calibrated to epsilon moves a
mean over rows by about `1 / (rows * epsilon)`, so `power` is near 1. (Bao et al. fix the noise multiplier instead, and
fit `ln(alpha + beta / rows)`.) `power` is 1 for a data set measured at only one number of rows. The 95% intervals
combine three errors: resampled seeds, the misfit of the law, and the spread of `power` between data sets, which grows
with the distance from the measured numbers of rows.

>>> law = fit_law({1000: 1.0, 10_000: 0.1})
>>> round(law.power, 3), round(law.epsilon(2000), 3), round(law.rows(0.01))
(1.0, 0.5, 100000)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware.workflow._advice_rules import stored_evidence

__all__ = ["Range", "SizeLaw", "epsilon_at", "estimates", "fit_law"]

BOOTSTRAP_FITS = 200
"""Number of fits to resampled scores behind an interval."""
POWER_SPREAD = 0.2
"""Standard deviation of `power` between data sets."""
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


@dataclass(frozen=True)
class Range:
    """An estimate with its 95% interval."""

    value: float
    low: float
    high: float

    def json(self) -> dict[str, float]:
        return {name: float(f"{value:.3g}") for name, value in vars(self).items()}


def estimates(data: str, form: str, *, accuracy: float, rows: int, epsilon: float) -> list[dict[str, Any]]:
    """Estimate, from each recorded data set of this form, what reaches `accuracy`.

    Each estimate has the epsilon needed with `rows` rows, and the number of rows needed at `epsilon`. If `data` is
    itself a recorded data set, only its own record is used.
    """
    curves = [curve for curve in stored_evidence()["curves"] if curve["form"] == form]
    if any(curve["data"] == data for curve in curves):
        curves = [curve for curve in curves if curve["data"] == data]
    names = list(dict.fromkeys(curve["data"] for curve in curves))
    return [_estimate([c for c in curves if c["data"] == name], accuracy, rows, epsilon) for name in names]


def _estimate(curves: list[dict[str, Any]], accuracy: float, rows: int, epsilon: float) -> dict[str, Any]:
    sizes = {curve["rows"]: curve["scores"] for curve in curves}
    result: dict[str, Any] = {
        "data": curves[0]["data"],
        "learner": curves[0]["learner"],
        "measured_rows": sorted(sizes),
        "best_accuracy": round(max(_mean(each) for scores in sizes.values() for each in scores.values()), 4),
        "epsilon": None,
        "rows": None,
        "note": "",
    }
    spent = {n: reached for n, scores in sizes.items() if (reached := epsilon_at(scores, accuracy)) is not None}
    if not spent:
        return {**result, "note": _outside(sizes, accuracy)}
    law = fit_law(spent)
    rng = np.random.default_rng(0)
    resampled = []
    for _ in range(BOOTSTRAP_FITS):
        again = {n: epsilon_at(_resampled(sizes[n], rng), accuracy) for n in spent}
        if kept := {n: value for n, value in again.items() if value is not None}:
            resampled.append(fit_law(kept))
    far = POWER_SPREAD * abs(math.log(rows) - law.centre)
    result["power"] = round(law.power, 3)
    result["note"] = "" if min(sizes) <= rows <= max(sizes) else "your number of rows is outside of those measured"
    result["epsilon"] = _range(law.epsilon(rows), [fit.epsilon(rows) for fit in resampled], law.misfit, far).json()
    more = law.rows(epsilon)
    far = POWER_SPREAD * abs(math.log(more) - law.centre)
    result["rows"] = _range(more, [fit.rows(epsilon) for fit in resampled], law.misfit, far).json()
    return result


def _outside(sizes: Mapping[int, Scores], accuracy: float) -> str:
    """Say why no measured curve crosses `accuracy`."""
    rows = min(sizes)
    least = min(sizes[rows], key=float)
    if float(np.mean(sizes[rows][least])) > accuracy:
        return f"reached already at epsilon {least} with {rows:,} rows, the smallest measured"
    return "not reached at any epsilon and number of rows that was measured"


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


def _resampled(scores: Scores, rng: np.random.Generator) -> Scores:
    """Resample the scores of each epsilon with replacement.

    If only mean and deviation were stored, draw a new mean from a normal distribution.
    """
    return {epsilon: _drawn_again(values, rng) for epsilon, values in scores.items()}


def _drawn_again(scores: Any, rng: np.random.Generator) -> Any:
    if isinstance(scores, dict):
        return {**scores, "mean": rng.normal(scores["mean"], scores["deviation"] / math.sqrt(scores["seeds"]))}
    return rng.choice(scores, len(scores)).tolist()


def _range(value: float, resampled: Sequence[float], misfit: float, far: float) -> Range:
    """Return a 95% interval around `value`, with 1.96 standard deviations of its logarithm on each side.

    The standard deviation combines the resampled fits, `misfit` and `far`, the error of `power`.
    """
    deviation = math.hypot(float(np.std(np.log(resampled))) if resampled else 0.0, misfit, far)
    factor = math.exp(1.96 * deviation)
    return Range(value, value / factor, value * factor)
