"""Bounds from one run agree with their formulas computed another way, and hold where they are tight."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from privaware import accounting
from privaware.attacks import _bounds
from privaware.errors import WrongInput
from privaware.events import Gaussian, Laplace, Pure

PUBLISHED = {
    (100, 100, 100, 0.0): 3.493,
    (100, 100, 90, 0.0): 1.631,
    (100, 100, 50, 0.0): 0.0,
    (1000, 100, 95, 0.0): 2.172,
    (1000, 100, 95, 1e-5): 2.165,
    (1000, 1000, 600, 1e-5): 0.297,
    (1000, 1000, 1000, 0.0): 5.809,
    (1000, 1000, 1000, 1e-5): 5.782,
    (10_000, 10_000, 10_000, 1e-5): 7.834,
}
"""(canaries, guesses, correct, delta) and the 95% bound of Steinke, Nasr and Jagielski."""
LIBRARY = {
    (1000, 80, 75, 1e-5): 1.92095,
    (1000, 200, 150, 1e-5): 0.81997,
    (500, 500, 320, 1e-6): 0.41854,
    (2000, 100, 100, 1e-5): 3.43765,
    (1000, 100, 55, 1e-5): 0.0,
}
"""The same by the functions of jax_privacy (auditing.py, one run at one number of guesses)."""


def plain_p_value(epsilon: float, delta: float, canaries: int, guesses: int, correct: int) -> float:
    """The same formula by the obvious loop over `scipy.stats`."""
    law = stats.binom(guesses, 1 / (1 + math.exp(-epsilon)))
    worst = max((law.cdf(correct - 1) - law.cdf(correct - i - 1)) / i for i in range(1, correct + 1))
    return float(min(1.0, law.sf(correct - 1) + 2 * canaries * delta * worst))


@pytest.mark.parametrize(
    ("case", "bound", "error"),
    [*((*item, 6e-4) for item in PUBLISHED.items()), *((*item, 1e-5) for item in LIBRARY.items())],
)
def test_bound_from_guesses_is_that_of_paper_and_library(
    case: tuple[int, int, int, float], bound: float, error: float
) -> None:
    canaries, guesses, correct, delta = case
    found = _bounds.epsilon_from_guesses(canaries=canaries, guesses=guesses, correct=correct, delta=delta)
    assert found == pytest.approx(bound, abs=error)


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
@pytest.mark.parametrize("correct", [1, 30, 41, 60])
def test_p_value_of_guesses_is_the_formula(correct: int, delta: float) -> None:
    for epsilon in (0.0, 0.5, 2.0, 6.0):
        found = _bounds.guesses_p_value(epsilon, delta, canaries=200, guesses=60, correct=correct)
        assert found == pytest.approx(plain_p_value(epsilon, delta, 200, 60, correct), rel=1e-9)


def test_bound_from_guesses_holds_for_randomised_response() -> None:
    """One release whose canaries are independent answers: the bound holds with its confidence, near the truth."""
    rng = np.random.default_rng(1)
    correct = rng.binomial(1000, 1 / (1 + math.exp(-1.5)), 400)
    lower = np.array(
        [_bounds.epsilon_from_guesses(canaries=1000, guesses=1000, correct=int(c), delta=0.0) for c in correct]
    )
    assert (lower > 1.5).mean() <= 0.05 + 0.03
    assert np.median(lower) > 1.3


def largest_tail(epsilon: float, delta: float, canaries: int, guesses: int, correct: int) -> float:
    """The largest chance of so many correct guesses, as a linear programme over all distributions of the count.

    For every set of counts from `least` up, the chance that a random canary is guessed correctly then is bounded by
    that of one less and this canary guessed wrongly, through both lines of (epsilon, delta).
    """
    counts = np.arange(guesses + 1)
    rows, limits = [], []
    for least in range(1, guesses + 1):
        right = np.where(counts >= least, counts, 0) / canaries
        wrong = np.where(counts >= least - 1, guesses - counts, 0) / canaries
        rows += [right - math.exp(epsilon) * wrong, right - math.exp(-epsilon) * wrong]
        limits += [delta, 1 - math.exp(-epsilon) * (1 - delta)]
    goal = -(counts >= correct).astype(float)
    found = optimize.linprog(goal, A_ub=np.array(rows), b_ub=limits, A_eq=np.ones((1, guesses + 1)), b_eq=[1.0])
    assert found.status == 0
    return float(-found.fun)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (1.0, 0.01), (2.0, 0.001)])
@pytest.mark.parametrize(("guesses", "correct"), [(20, 17), (12, 11), (20, 20)])
def test_guesses_refute_levels_above_the_largest_tail(epsilon: float, delta: float, guesses: int, correct: int) -> None:
    curve = accounting.TradeOff(np.array([epsilon]), np.array([delta]))
    tail = largest_tail(epsilon, delta, 20, guesses, correct)
    for level, refuted in ((tail * 1.001, True), (tail * 0.999, False)):
        counts: dict[str, Any] = {"canaries": 20, "guesses": guesses, "correct": correct}
        assert _bounds.guesses_refute(curve.false_rate, level, **counts) is refuted


def test_trade_off_of_gaussians_proves_more_than_one_delta_of_it() -> None:
    """Guesses that (epsilon, delta) alone would allow of a Gaussian mechanism of the same epsilon."""
    counts = {"canaries": 1000, "guesses": 60, "correct": 60}
    larger = 1.2 * _bounds.epsilon_from_guesses(**counts, delta=1e-5)
    shift = optimize.brentq(lambda mu: _bounds.epsilon_of_shift(mu, 1e-5) - larger, 0.1, 10)
    curve = accounting.trade_off(Gaussian(noise=1 / shift))
    assert _bounds.guesses_refute(curve.false_rate, 0.05, **counts)


@pytest.mark.parametrize("shift", [0.1, 0.5, 1.0])
def test_bound_on_the_shift_inverts_the_noncentral_t(shift: float) -> None:
    rng = np.random.default_rng(2)
    inside, outside = rng.normal(0.7, 2.0, 30), rng.normal(0.0, 2.0, 45)
    statistic = stats.ttest_ind(inside, outside).statistic
    noncentrality = shift / math.sqrt(1 / 30 + 1 / 45)
    confidence = 1 - stats.nct.sf(statistic, 73, noncentrality)
    assert _bounds.shift_lower(inside, outside, confidence=confidence) == pytest.approx(shift, rel=1e-5)


@pytest.mark.parametrize("canaries", [20, 400])
def test_bound_on_the_shift_misses_the_truth_as_often_as_it_says(canaries: int) -> None:
    rng = np.random.default_rng(3)
    lower = np.array(
        [_bounds.shift_lower(rng.normal(0.9, 1, canaries // 2), rng.normal(0, 1, canaries // 2)) for _ in range(400)]
    )
    assert 0.025 < (lower > 0.9).mean() < 0.08
    assert np.mean(lower) > 0.9 - 2.2 * 2 / math.sqrt(canaries)


def test_scores_without_noise_prove_a_finite_epsilon() -> None:
    lower = _bounds.shift_lower(np.ones(50), np.zeros(50))
    assert 1e3 < _bounds.epsilon_of_shift(lower, 1e-5) < math.inf
    assert _bounds.shift_lower(np.zeros(50), np.ones(50)) == 0
    assert _bounds.epsilon_of_shift(0.0, 1e-5) == 0


def test_shift_is_known_of_gaussian_releases_of_all_rows_only() -> None:
    assert _bounds.shift_of(9 * Gaussian(noise=3.0) + Gaussian(noise=1.0)) == pytest.approx(math.sqrt(2))
    assert _bounds.shift_of(Gaussian(noise=1.0).sampled(rate=0.5)) is None
    assert _bounds.shift_of(Gaussian(noise=1.0) + Laplace(noise=1.0)) is None
    assert _bounds.shift_of(Pure(epsilon=1.0)) is None
    event = 9 * Gaussian(noise=3.0)
    assert _bounds.epsilon_of_shift(1.0, 1e-5) == pytest.approx(accounting.epsilon(event, 1e-5), rel=1e-6)


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(WrongInput, match="correct <= guesses <= canaries"):
        _bounds.epsilon_from_guesses(canaries=10, guesses=11, correct=5, delta=0.0)
