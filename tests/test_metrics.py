"""Scores against their definitions, and the cases that a library leaves undefined."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware.errors import WrongInput
from privaware.metrics import (
    accuracy,
    auc,
    auc_interval,
    internal,
    mean_absolute_error,
    privacy_leakage,
    r2,
    tailored_auc,
    tpr_at_fpr,
    utility_loss,
)

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
    assert scores == {"test_score": pytest.approx(-3.0), "mae": 1.0, "constant_score": 0.0, "constant_mae": 0.5}


def test_internal_scores_of_a_diverged_regression_are_none() -> None:
    scores = internal("regression", np.array([0.0, 1.0]), np.array([0.0, np.nan]))
    assert scores == {"test_score": None, "mae": None, "constant_score": 0.0, "constant_mae": 0.5}


SCORES = st.lists(st.integers(-5, 5), min_size=1, max_size=30)


@given(SCORES, SCORES)
def test_auc_is_the_chance_that_a_member_scores_higher(inside: list[int], outside: list[int]) -> None:
    pairs = [(a > b) + 0.5 * (a == b) for a in inside for b in outside]
    measured = auc(np.array(inside), np.array(outside))
    assert measured == pytest.approx(np.mean(pairs))
    assert measured == pytest.approx(1 - auc(np.array(outside), np.array(inside)))


def test_auc_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng, truth = np.random.default_rng(0), 0.7602  # of normal scores one deviation apart
    intervals = [auc_interval(rng.normal(1, 1, 80), rng.normal(0, 1, 120), 0.9) for _ in range(600)]
    held = np.mean([low <= truth <= high for low, high in intervals])
    assert 0.87 <= held <= 0.93


def test_rates_of_an_attack_need_members_and_others() -> None:
    with pytest.raises(WrongInput, match="expected scores of members and of others, got 0 and 2"):
        tpr_at_fpr(np.empty(0), np.ones(2), 0.1)


def test_p35_tpr_at_fpr_takes_its_threshold_from_non_members() -> None:
    outside = np.arange(1000)
    rate = tpr_at_fpr(np.array([989.5, 990.5, 2000.0, 0.0]), outside, 0.01)
    assert rate.tpr == 0.75  # ten of a thousand non-members are above 989, and three of four members
    assert tpr_at_fpr(outside, outside, 0.01).tpr == 0.01
    assert tpr_at_fpr(np.full(50, 3.0), np.full(50, 3.0), 0.5).tpr == 0  # ties at the threshold do not count
    assert tpr_at_fpr(np.ones(9), np.zeros(9), 0.001).tpr == 1


def test_tpr_interval_is_clopper_pearson() -> None:
    from scipy.stats import binomtest

    inside, outside = np.r_[np.ones(7), np.zeros(93)], np.zeros(200)
    rate = tpr_at_fpr(inside, outside, 0.001, confidence=0.95)
    reference = binomtest(7, 100).proportion_ci(0.95, method="exact")
    assert rate.interval == pytest.approx((reference.low, reference.high))
    assert rate.fpr_at_most == pytest.approx(1 - 0.05 ** (1 / 200))  # none of 200: not known to be 0.001


def test_leakage_is_undefined_where_the_baseline_leaks_nothing() -> None:
    assert privacy_leakage(0.53, 0.78) == pytest.approx(0.03 / 0.28)
    assert privacy_leakage(0.45, 0.78) == 0
    assert privacy_leakage(0.51, 0.504) is None
    assert privacy_leakage(0.52, 0.527) is None  # the model without privacy hardly leaks
    assert privacy_leakage(0.51, 0.3) is None
    assert tailored_auc(0.3) == 0.5
    assert utility_loss(0.6044, 0.695) == pytest.approx(0.13036, abs=1e-5)
