"""Grid search: every candidate of a space once, or an evenly spaced subset.

Paper: none; common practice, charged at its full cost.
Privacy: (epsilon, delta) for one row added or removed. The number of trials is not secret, so all trials are charged by
tight composition. A random search over the same space costs far less.
Use when: the space is small and the rows are public, or a few candidates are compared at their full cost.

>>> from privaware.events import Gaussian
>>> from privaware.models.spaces import Space
>>> Grid().rounds(Space.load("cnn"), Gaussian(noise=4.0))[0].count
28
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaware._validate import expect_count
from privaware.errors import WrongInput
from privaware.events import Event
from privaware.models.spaces import Point, Space
from privaware.strategies._strategy import Ask, Round, RoundStrategy, TrialHistory

__all__ = ["Grid"]

MAX_POINTS = 10_000
"""Largest number of candidates of a space that is searched as a grid."""


@dataclass(frozen=True, kw_only=True)
class Grid(RoundStrategy):
    """A strategy that tries all or some points of a space.

    A space of more than `MAX_POINTS` points raises `WrongInput`, whatever `trials` is.

    Parameters
    ----------
    trials : int, optional
        Number of points, at equal distances in the order of the grid; by default all points.
    """

    adaptive: ClassVar[bool] = False

    trials: int | None = None

    def __post_init__(self) -> None:
        expect_count("grid", optional=True, trials=self.trials)

    def rounds(self, space: Space, once: Event) -> tuple[Round, ...]:
        return (Round(count=len(self._points(space))),)

    def start(self, space: Space, rng: np.random.Generator) -> Listed:
        return Listed(space=space, rng=rng, points=self._points(space))

    def _points(self, space: Space) -> list[Point]:
        points: list[Point] = []
        for point in space.points():
            points.append(point)
            if len(points) > MAX_POINTS:
                raise WrongInput(
                    f"grid: expected a space of at most {MAX_POINTS:,} points, got more; use rs, which samples from it"
                )
        if self.trials is None or self.trials >= len(points):
            return points
        return [points[at * len(points) // self.trials] for at in range(self.trials)]


@dataclass(kw_only=True)
class Listed(TrialHistory):
    """A searcher that asks for the candidates `points`, in their order."""

    points: list[Point]

    def ask(self, count: int) -> list[Ask]:
        return [Ask(point=point) for point in self.points[:count]]
