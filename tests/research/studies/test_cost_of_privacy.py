"""The cost of privacy."""

from __future__ import annotations

import numpy as np
import pytest

from research.studies.cost_of_privacy import cost_of_privacy


def test_cost_is_lost_accuracy_and_its_interval_covers() -> None:
    rng = np.random.default_rng(2)
    runs, inside = 500, 0
    for _ in range(runs):
        private = 0.9 + rng.normal(0, 0.02, (5, 1))
        study = cost_of_privacy([1.0], private, 0.97 + rng.normal(0, 0.005, 4))
        [point] = study.points
        inside += point.low <= 0.07 <= point.high
    assert 0.92 <= inside / runs <= 0.98
    assert cost_of_privacy([1.0], [[0.9]], [0.8]).at(1.0).mean == pytest.approx(-0.1)
