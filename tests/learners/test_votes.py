"""Noisy votes: their price, their labels and their sensitivity."""

from __future__ import annotations

import numpy as np
import pytest

from privaware.learners._votes import VOTES, is_confident, vote_event, voted_labels
from privaware.noise import Rng
from privaware.testing import Recorder, spent


@pytest.mark.parametrize("vote", VOTES)
def test_unanimous_votes_win_at_small_noise(vote: str) -> None:
    labels = np.array([0, 2, 1, 2])
    assert voted_labels(vote, 100.0 * np.eye(3)[labels], 0.5, Rng(seed=0)).tolist() == labels.tolist()


@pytest.mark.parametrize("vote", VOTES)
def test_equal_votes_give_every_class_alike(vote: str) -> None:
    counts = np.bincount(voted_labels(vote, np.full((9000, 3), 25.0), 4.0, Rng(seed=0)), minlength=3)
    assert np.abs(counts - 3000).max() < 5 * np.sqrt(3000 * 2 / 3)


@pytest.mark.parametrize("vote", VOTES)
def test_each_query_has_noise_of_its_own_at_its_price(vote: str) -> None:
    rng = Recorder(seed=0)
    voted_labels(vote, np.full((7, 3), 5.0), 4.0, rng)
    [(event, count)] = [(event, 7) for event in [vote_event(vote, 4.0)]]
    noise = np.unique(rng.calls[0].public["noise"])
    assert rng.calls[0].exact.shape == (7, 3)
    assert noise.tolist() == [4.0]
    if vote != "lnmax":  # Laplace noise is recorded as such and priced as pure epsilon, which is more
        assert spent(rng.calls) == count * event


def test_laplace_scale_is_that_of_lnmax() -> None:
    """Scale 1 / gamma = 20, so 2 gamma = 0.1 a query."""
    assert vote_event("lnmax", 10.0).epsilon == 0.1  # type: ignore[attr-defined]
    votes = np.zeros((40000, 2))
    rng = Recorder(seed=0)
    voted_labels("lnmax", votes, 10.0, rng)
    deviations = np.abs(np.asarray(rng.calls[0].returned)).mean()
    assert deviations == pytest.approx(20.0, rel=0.02)


def test_confidence_is_tested_on_the_largest_number_of_votes() -> None:
    votes = np.array([[90.0, 10.0], [55.0, 45.0], [0.0, 100.0]])
    assert is_confident(votes, 80.0, 0.1, Rng(seed=0)).tolist() == [True, False, True]
    rng = Recorder(seed=0)
    is_confident(votes, 80.0, 8.0, rng)
    assert rng.calls[0].exact.tolist() == [90.0, 55.0, 100.0]
    assert rng.calls[0].public["sensitivity"] == pytest.approx(1.0, rel=1e-5)
