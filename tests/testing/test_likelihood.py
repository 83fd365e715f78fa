"""Privacy losses are those of the distributions that the generator really draws from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from privaware.errors import WrongInput
from privaware.noise import Rng
from privaware.testing._call import Call, make_call
from privaware.testing._likelihood import choice_probabilities, log_ratio
from tests.noise.response_table import response_probabilities


def calls(kind: str, exact: Any, other: Any, **public: Any) -> tuple[Call, Call]:
    return make_call(kind, exact, None, public), make_call(kind, other, None, public)


@pytest.mark.parametrize(("kind", "distribution"), [("gaussian", stats.norm), ("laplace", stats.laplace)])
def test_loss_is_the_log_ratio_of_densities_summed_over_a_vector(kind: str, distribution: Any) -> None:
    rng = np.random.default_rng(0)
    exact, other, released = rng.normal(size=3), rng.normal(size=3), rng.normal(size=(5, 3))
    without, within = calls(kind, exact, other, noise=0.7, sensitivity=2.0)
    expected = distribution.logpdf(released, other, 1.4) - distribution.logpdf(released, exact, 1.4)
    np.testing.assert_allclose(log_ratio(without, within, released), expected.sum(axis=1))


def test_each_model_of_a_population_has_a_loss_of_its_own() -> None:
    noise = np.array([[1.0], [2.0]])
    without, within = calls("gaussian", np.zeros((2, 3)), np.ones((2, 3)), noise=noise, sensitivity=np.ones((2, 1)))
    np.testing.assert_allclose(log_ratio(without, within, np.ones((2, 3))), [1.5, 0.375])


def test_response_loses_epsilon_where_the_answer_differs() -> None:
    without, within = calls("respond", np.array([0, 1]), np.array([2, 1]), epsilon=0.8, classes=3)
    np.testing.assert_allclose(log_ratio(without, within, np.array([[2, 1], [0, 1], [1, 1]])), [0.8, -0.8, 0.0])


@pytest.mark.parametrize("epsilon", [0.8, 300.0])
def test_response_among_candidates_loses_by_its_probabilities(epsilon: float) -> None:
    """Rows whose code is a candidate before and after, before only, after only, and never."""
    candidates = np.array([[True, True, False, True]] * 4)
    exact, other = np.array([0, 0, 2, 2]), np.array([1, 2, 0, 2])
    without, within = calls("respond", exact, other, epsilon=epsilon, classes=4, candidates=candidates)
    responses = np.array(np.meshgrid(*[[0, 1, 3]] * 4)).reshape(4, -1).T
    table = response_probabilities(candidates[0], epsilon)
    logs = [np.log(table[codes, responses]).sum(axis=1) for codes in (other, exact)]
    losses = log_ratio(without, within, responses)
    np.testing.assert_allclose(losses, logs[0] - logs[1], atol=1e-9)
    beyond = calls("respond", exact, other, epsilon=1e4, classes=4, candidates=candidates)  # e^epsilon is no float
    assert np.isfinite(log_ratio(*beyond, responses)).all()


@pytest.mark.parametrize("seed", [3, None])
def test_chances_of_a_choice_are_those_of_the_generator(seed: int | None) -> None:
    """Seeded by NumPy, for release by OpenDP: both draw from the same distribution."""
    scores, draws = np.array([0.0, 1.0, 2.5, 2.5, -3.0]), 1000
    rng = Rng(seed=seed)
    seen = np.bincount([rng.choose(scores, epsilon=1.0, sensitivity=1.0) for _ in range(draws)], minlength=5)
    expected = choice_probabilities(scores, 2.0)
    assert expected.sum() == pytest.approx(1.0, abs=1e-12)
    assert stats.chisquare(seen, draws * expected / expected.sum()).pvalue > 1e-6


def test_twenty_thousand_candidates_are_exact() -> None:
    """Equal scores: each has the same chance, whatever the integral does near zero."""
    np.testing.assert_allclose(choice_probabilities(np.zeros(20_000), 1.0), 1 / 20_000, rtol=1e-9)


def test_unknown_likelihood_is_refused() -> None:
    with pytest.raises(WrongInput, match="whose likelihood is known, got 'iterate'"):
        log_ratio(*calls("iterate", np.zeros(1), np.zeros(1), noise=1.0, sensitivity=1.0), np.zeros(1))
