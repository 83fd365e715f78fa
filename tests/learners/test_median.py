"""The private median: near the middle row, also of skewed targets and of many equal ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privaware.data import Data
from privaware.learners.median import GRID, GridCounts, Median
from privaware.noise import Rng
from privaware.schema import Schema

SCHEMA = Schema(low=0.0, high=1000.0, rows=2000)


def rows(y: np.ndarray) -> Data:
    return Data(schema=replace(SCHEMA, rows=len(y)), x=np.zeros((len(y), 0)), y=y)


@pytest.mark.parametrize(
    "y",
    [
        np.random.default_rng(0).exponential(60.0, 2000),
        np.repeat([0.0, 1000.0], [1400, 600]),
        np.repeat([3.0, 250.0, 999.0], [900, 700, 400]),
    ],
)
def test_the_median_is_near_the_middle_row(y: np.ndarray) -> None:
    model = Median().run(rows(y), noise=1.0, rng=Rng(seed=1))
    assert model.predictions(rows(y[:1]))[0] == pytest.approx(np.median(np.clip(y, 0, 1000)), abs=4.0)


def test_scores_are_those_of_counting_above_and_below() -> None:
    y = np.random.default_rng(1).choice([0.0, 125.0, 125.3, 500.0, 1000.0, np.nan], 60)
    scores: list[np.ndarray] = []

    class Spy:
        def choose(self, exact: np.ndarray, *, epsilon: float, sensitivity: float) -> int:
            scores.append(exact)
            assert (epsilon, sensitivity) == (0.5, 0.5)
            return int(np.argmax(exact))

    counts = GridCounts()
    counts.release(counts.partial(rows(y)), 2.0, Spy())  # type: ignore[arg-type]
    points = 500 + 500 * GRID
    half = np.sum(~np.isnan(y)) / 2
    expected = [-max(np.sum(y > point) - half, np.sum(y < point) - half, 0) for point in points]
    assert scores[0] == pytest.approx(expected)
