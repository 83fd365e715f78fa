"""A lower bound is right with the confidence it names, and sees a leak on either side."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware.attacks._bounds import epsilon_lower
from privaware.errors import WrongInput


def respond(rng: np.random.Generator, bit: int, epsilon: float, runs: int) -> np.ndarray:
    """Randomised response: the mechanism whose epsilon is exactly this."""
    keep = 1 / (1 + math.exp(-epsilon))
    return np.where(rng.random(runs) < keep, bit, 1 - bit).astype(float)


def test_lower_bound_holds_with_its_confidence_where_it_is_tight() -> None:
    rng = np.random.default_rng(1)
    lower = np.array(
        [epsilon_lower(respond(rng, 1, 1.0, 2000), respond(rng, 0, 1.0, 2000), delta=0.0) for _ in range(300)]
    )
    assert (lower > 1.0).mean() <= 0.05 + 0.03
    assert np.median(lower) > 0.7


def test_lower_bound_grows_with_the_number_of_runs() -> None:
    rng = np.random.default_rng(2)
    few, many = (
        epsilon_lower(respond(rng, 1, 2.0, runs), respond(rng, 0, 2.0, runs), delta=1e-5) for runs in (200, 20000)
    )
    assert few < many < 2.0
    assert many > 1.85


def test_lower_bound_is_near_zero_for_equal_distributions() -> None:
    rng = np.random.default_rng(3)
    lower = [epsilon_lower(*rng.normal(size=(2, 500)), delta=1e-5) for _ in range(100)]
    assert np.mean(np.array(lower) > 0) <= 0.08


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
def test_all_four_inequalities_detect_a_leak(sign: int, swapped: bool) -> None:
    """A row that shows itself once in four runs: only one of the four inequalities sees it."""
    rng = np.random.default_rng(4)
    quiet = rng.normal(size=4000)
    marked = np.where(rng.random(4000) < 0.25, 100.0, rng.normal(size=4000))
    inside, outside = (quiet, marked) if swapped else (marked, quiet)
    assert epsilon_lower(sign * inside, sign * outside, delta=1e-5) > 3


def test_lower_bound_is_zero_for_a_leak_within_delta() -> None:
    rng = np.random.default_rng(5)
    quiet = rng.normal(size=4000)
    marked = np.where(rng.random(4000) < 0.25, 100.0, rng.normal(size=4000))
    assert epsilon_lower(marked, quiet, delta=0.3) < 0.2


def test_thresholds_are_not_tested_on_the_scores_that_chose_them() -> None:
    """The first half alone would prove epsilon of 3 and more; the second half knows nothing of it."""
    planted = np.concatenate([np.full(200, 9.0), np.zeros(200)])
    assert epsilon_lower(planted, np.zeros(400), delta=1e-5) == 0
    assert epsilon_lower(planted[:200], np.zeros(200), delta=1e-5) > 2


def test_pilot_runs_choose_threshold_and_all_others_are_tested() -> None:
    """Right with its confidence where it is tight, better than by halves; a useless pilot proves nothing."""
    rng = np.random.default_rng(7)
    pilot = respond(rng, 1, 1.0, 50_000), respond(rng, 0, 1.0, 50_000)
    runs = [(respond(rng, 1, 1.0, 1000), respond(rng, 0, 1.0, 1000)) for _ in range(300)]
    lower = np.array([epsilon_lower(*scores, delta=0.0, pilot=pilot) for scores in runs])
    assert (lower > 1.0).mean() <= 0.05 + 0.03
    assert np.median(lower) > 1.03 * np.median([epsilon_lower(*scores, delta=0.0) for scores in runs])
    assert epsilon_lower(*runs[0], delta=0.0, pilot=(np.full(9, 5.0), np.zeros(9))) == 0


@given(shift=st.floats(-5, 5), scale=st.floats(0.1, 10))
def test_lower_bound_depends_on_the_order_of_scores_only(shift: float, scale: float) -> None:
    rng = np.random.default_rng(6)
    inside, outside = rng.normal(2, 1, 300), rng.normal(0, 1, 300)
    plain = epsilon_lower(inside, outside, delta=1e-5)
    assert epsilon_lower(inside * scale + shift, outside * scale + shift, delta=1e-5) == plain


@pytest.mark.parametrize(
    ("inside", "delta", "confidence"),
    [([1.0], 1e-5, 0.95), ([1.0, math.nan] * 4, 1e-5, 0.95), ([1.0] * 8, 1.0, 0.95), ([1.0] * 8, 0.0, 1.0)],
)
def test_unusable_scores_are_refused(inside: list[float], delta: float, confidence: float) -> None:
    with pytest.raises(WrongInput, match="expected"):
        epsilon_lower(inside, [0.0] * 8, delta=delta, confidence=confidence)
