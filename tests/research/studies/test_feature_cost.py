"""Lemma 1: whether a feature is worth its noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.studies.feature_cost import feature_cost, worth

number = st.floats(-3, 3).map(lambda value: round(value, 3))


@given(st.lists(st.tuples(number, number), min_size=1, max_size=4), number, st.floats(0, 2), st.floats(0, 2))
def test_exact_condition_compares_expected_errors(
    pairs: list[tuple[float, float]], y: float, noise: float, without: float
) -> None:
    theta, x = zip(*pairs)
    cost = feature_cost(theta, x, y, noise=noise, without=without)
    gap = cost.error_with - cost.error_without
    if abs(gap) > 1e-9:
        assert cost.drop == (gap > 0)
    if cost.sufficient and abs(gap) > 1e-9:
        assert cost.drop  # the paper's condition is sufficient


def test_expected_errors_match_simulation() -> None:
    rng = np.random.default_rng(3)
    theta, x, y = np.array([0.7, -1.2, 0.4]), np.array([1.0, 0.5, -2.0]), 0.3
    cost = feature_cost(theta, x, y, noise=0.8, without=0.5)
    noisy = theta + 0.8 * rng.standard_normal((200_000, 3))
    less = theta[:2] + 0.5 * rng.standard_normal((200_000, 2))
    assert cost.error_with == pytest.approx(np.mean((y - noisy @ x) ** 2), rel=0.02)
    assert cost.error_without == pytest.approx(np.mean((y - less @ x[:2]) ** 2), rel=0.02)


def test_printed_condition_is_not_necessary() -> None:
    cost = feature_cost([0.0, -2.0], [0.0, 1.0], -1.0, noise=math.sqrt(3))
    assert cost.drop
    assert not cost.sufficient
    assert cost.bound == pytest.approx(1.0)


@given(st.floats(-5, 5), st.floats(0.01, 5))
def test_conditions_agree_without_residual(theta: float, noise: float) -> None:
    cost = feature_cost([1.0, theta], [0.5, 2.0], 0.5 + 2.0 * theta, noise=noise)
    if abs(abs(theta) - noise) > 1e-6:
        assert cost.drop == cost.sufficient == (abs(theta) <= noise)


def test_printed_noise_is_too_small_at_large_epsilon() -> None:
    assert worth(1.0, 1e-5)["exact"] < worth(1.0, 1e-5)["printed"]
    assert worth(20.0, 1e-5)["exact"] > worth(20.0, 1e-5)["printed"]
