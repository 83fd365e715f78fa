"""Scores against their definitions, and the cases that a library leaves undefined."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware.metrics import accuracy, internal, mean_absolute_error, r2

NUMBERS = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=2, max_size=20)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20))
def test_accuracy_is_the_fraction_of_equal_labels(pairs: list[tuple[int, int]]) -> None:
    truth, predictions = (np.array(side) for side in zip(*pairs, strict=True))
    assert accuracy(truth, predictions) == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))


@given(NUMBERS)
def test_r2_is_one_minus_residual_over_total_sum_of_squares(pairs: list[tuple[float, float]]) -> None:
    truth, predictions = (np.array(side) for side in zip(*pairs, strict=True))
    residual = float(((truth - predictions) ** 2).sum())
    total = float(((truth - truth.mean()) ** 2).sum())
    if total > 1e-6:
        assert r2(truth, predictions) == pytest.approx(1 - residual / total, rel=1e-6)
    assert mean_absolute_error(truth, predictions) == pytest.approx(np.abs(truth - predictions).mean())


@pytest.mark.parametrize(
    ("truth", "predictions", "score"),
    [([2.0, 2.0], [2.0, 2.0], 1.0), ([2.0, 2.0], [2.0, 3.0], 0.0), ([2.0], [2.0], 1.0), ([2.0], [3.0], 0.0)],
)
def test_r2_of_a_constant_truth_is_0_or_1(truth: list[float], predictions: list[float], score: float) -> None:
    assert r2(np.array(truth), np.array(predictions)) == score


def test_internal_scores_stand_beside_the_best_constant() -> None:
    codes = np.array([0, 0, 0, 1])
    assert internal("classification", codes, codes) == {"test_score": 1.0, "constant_score": 0.75}
    numbers = np.array([0.0, 1.0])
    scores = internal("regression", numbers, numbers[::-1])
    assert scores == {"test_score": pytest.approx(-3.0), "mae": 1.0, "constant_score": 0.0}


def test_internal_scores_of_a_diverged_regression_are_none() -> None:
    scores = internal("regression", np.array([0.0, 1.0]), np.array([0.0, np.nan]))
    assert scores == {"test_score": None, "mae": None, "constant_score": 0.0}
