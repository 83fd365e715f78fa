"""Results of studies: values that can be written as JSON and plotted, most of them named curves of scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privaware.report import _charts
from privaware.workflow._curves import Point, lines, point
from research.studies._trials import Outcome

__all__ = ["Curves", "Result", "points"]


@dataclass(frozen=True, kw_only=True)
class Result:
    """Base class of results that can be written as JSON and plotted."""

    def json(self) -> dict[str, Any]:
        """Return the fields by name as plain values for JSON; nested results become dictionaries."""
        return {item.name: _plain(getattr(self, item.name)) for item in fields(self)}

    def chart(self) -> Any:
        """Return the result as an Altair chart; raise `TypeError` unless the subclass defines a chart."""
        raise TypeError(f"{type(self).__name__} has no chart of its own")

    def plot(self, path: str | Path) -> Path:
        """Write the chart to `path` as PNG, SVG or PDF, by the suffix of `path`, and return the path."""
        return _charts.save(self.chart(), Path(path))


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


def _plain(value: Any) -> Any:
    if hasattr(value, "json"):
        return value.json()
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value
