"""Named curves of scores, which most studies return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware.workflow._curves import Point, Result, lines, point
from research.studies._trials import Outcome

__all__ = ["Curves", "points"]


@dataclass(frozen=True, kw_only=True)
class Curves(Result):
    """Named curves of scores; `note` says what was released and what it cost."""

    points: tuple[Point, ...]
    note: str
    confidence: float = 0.95

    def curve(self, name: str) -> list[Point]:
        """Return the points of one curve, in order."""
        return sorted((p for p in self.points if p.curve == name), key=lambda point: point.x)

    def table(self, name: str) -> tuple[list[float], np.ndarray]:
        """Return the x values of one curve, and its scores with shape (repeats, values); row i is repeat i."""
        chosen = self.curve(name)
        return [point.x for point in chosen], np.array([point.scores for point in chosen]).T

    def chart(self) -> Any:
        return lines(self.points)


def points(outcomes: Sequence[Outcome], confidence: float = 0.95) -> tuple[Point, ...]:
    """Group the last scores of trials by curve and x, with repeats in the order of their seeds."""
    scores_at: dict[tuple[str, float], list[tuple[int, float]]] = {}
    for outcome in outcomes:
        key = (outcome.trial.curve, outcome.trial.x)
        scores_at.setdefault(key, []).append((outcome.trial.seed, outcome.score))
    return tuple(
        point(curve, x, [score for _, score in sorted(scores)], confidence, share=True)
        for (curve, x), scores in scores_at.items()
    )
