"""The cost of privacy: the error of a privately trained model minus the error of a plainly trained model.

`cost(epsilon, h) = err_epsilon(h) - err(h)`. It is usually positive; clipping can make it negative at a large epsilon.

Paper: Bao, Bauer and Bindschaedler, Eq. (2); the two curves of their Figure 1.
Privacy: this only computes with scores. Scores on private rows must be noised and charged before they are used here,
and the score of the plain model has no guarantee at all: use public rows.
Use when: you want to know which epsilon to ask for, or whether a larger model is worth it.

>>> cost = cost_of_privacy([0.1, 1.0], private=[[0.80, 0.93], [0.82, 0.94]], plain=[0.97, 0.97])
>>> [round(point.mean, 3) for point in cost.points]
[0.16, 0.035]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware.errors import WrongInput
from privaware.workflow._curves import Point, lines
from research.studies._result import Result

__all__ = ["cost_of_privacy", "Cost"]


@dataclass(frozen=True, kw_only=True)
class Cost(Result):
    """The cost at each epsilon, with an interval."""

    points: tuple[Point, ...]
    confidence: float

    def at(self, epsilon: float) -> Point:
        """Return the cost at one of the epsilons tried."""
        for point in self.points:
            if point.x == epsilon:
                return point
        raise WrongInput(f"expected one of the epsilons tried, got {epsilon!r}")

    def chart(self) -> Any:
        return lines(self.points, y="cost of privacy (accuracy lost)")


def cost_of_privacy(
    epsilons: Sequence[float],
    private: Any,
    plain: Sequence[float],
    *,
    confidence: float = 0.95,
    name: str = "cost of privacy",
) -> Cost:
    """Compute the cost from scores of private models, of shape (repeats, epsilons), and scores of plain models.

    The intervals are by Welch's t-test.
    """
    noisy, reference = np.asarray(private, dtype=float), np.asarray(plain, dtype=float)
    if noisy.ndim != 2 or noisy.shape[1] != len(epsilons) or reference.ndim != 1 or not reference.size:
        raise WrongInput(
            f"expected scores of shape (repeats, {len(epsilons)}) and at least one plain score, "
            f"got {noisy.shape} and {reference.shape}"
        )
    costs = []
    for at, epsilon in enumerate(epsilons):
        cost = reference.mean() - noisy[:, at]
        reach = _reach(noisy[:, at], reference, confidence)
        mean = float(cost.mean())
        spread = float(cost.std(ddof=1)) if len(cost) > 1 else 0.0
        scores = tuple(cost.tolist())
        costs.append(
            Point(
                curve=name,
                x=float(epsilon),
                mean=mean,
                spread=spread,
                low=mean - reach,
                high=mean + reach,
                scores=scores,
            )
        )
    return Cost(points=tuple(costs), confidence=confidence)


def _reach(first: np.ndarray, second: np.ndarray, confidence: float) -> float:
    """Return half of the width of Welch's interval for the difference of two means."""
    from scipy import stats

    parts = [values.var(ddof=1) / len(values) for values in (first, second) if len(values) > 1]
    sizes = [len(values) for values in (first, second) if len(values) > 1]
    total = sum(parts)
    if not total:
        return 0.0
    freedom = total**2 / sum(part**2 / (n - 1) for part, n in zip(parts, sizes))
    return float(stats.t.ppf((1 + confidence) / 2, freedom) * math.sqrt(total))
