"""Randomised response among candidates is exactly epsilon, and draws have the stated probabilities."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from privaware.errors import WrongInput
from privaware.noise import Rng
from privaware.noise._response import randomised_response, small_uniforms
from tests.noise.response_table import response_probabilities


def by_definition(allowed: np.ndarray, epsilon: float) -> np.ndarray:
    """(codes, responses) of RRTop-k, entry by entry."""
    count = int(allowed.sum())
    table = np.zeros((len(allowed), len(allowed)))
    for code, response in product(range(len(allowed)), repeat=2):
        if not allowed[response]:
            continue
        if not allowed[code]:
            table[code, response] = 1 / count
        else:
            own = math.exp(epsilon) if code == response else 1.0
            table[code, response] = own / (math.exp(epsilon) + count - 1)
    return table


@pytest.mark.parametrize("classes", range(2, 11))
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 30.0])
def test_p19_response_is_exactly_epsilon_for_all_candidates(classes: int, epsilon: float) -> None:
    """All pairs of labels, all responses; public code never returns a label that is no candidate: no finite ratio."""
    for count in range(1, classes + 1):
        allowed = np.isin(np.arange(classes), np.random.default_rng(count).permutation(classes)[:count])
        table = response_probabilities(allowed, epsilon)
        assert table == pytest.approx(by_definition(allowed, epsilon), rel=1e-12)
        assert table.sum(axis=1) == pytest.approx(np.ones(classes), rel=1e-12)
        assert (table[:, ~allowed] == 0).all()
        possible = table[:, allowed]
        ratio = float((possible.max(axis=0) / possible.min(axis=0)).max())
        assert ratio == pytest.approx(math.exp(epsilon) if count > 1 else 1.0, rel=1e-12)


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("allowed", [[1, 0, 1, 1], [1, 1, 1, 1], [0, 1, 0, 0], [0, 1, 0, 1]])
def test_responses_have_the_stated_probabilities(allowed: list[int], seed: int | None) -> None:
    candidates, draws = np.array(allowed, dtype=bool), 20_000
    for code in range(4):
        responses = Rng(seed=seed).respond(
            np.full(draws, code), epsilon=1.0, classes=4, candidates=np.repeat(candidates[None], draws, axis=0)
        )
        seen, expected = np.bincount(responses, minlength=4), by_definition(candidates, 1.0)[code] * draws
        assert (seen[expected == 0] == 0).all()
        possible = expected > 0
        assert possible.sum() == 1 or stats.chisquare(seen[possible], expected[possible]).pvalue > 1e-6


def test_rows_and_games_have_their_own_candidates() -> None:
    """Candidates of one row, broadcast over games: each response is a candidate of its own row."""
    candidates = np.random.default_rng(0).random((30, 5)) < 0.4
    candidates[:, 2] = True
    codes = np.random.default_rng(1).integers(5, size=(200, 30))
    responses = Rng(seed=0).respond(codes, epsilon=1.0, classes=5, candidates=candidates)
    assert responses.shape == codes.shape
    assert candidates[np.arange(30), responses].all()
    assert all(set(responses[:, row]) == set(np.flatnonzero(candidates[row])) for row in range(30))


@pytest.mark.parametrize("epsilon", [40.0, 1e4])
def test_large_epsilon_returns_true_labels_among_all_classes(epsilon: float) -> None:
    codes = np.arange(10_000) % 10
    everything = np.ones((10_000, 10), dtype=bool)
    assert np.array_equal(Rng().respond(codes, epsilon=epsilon, classes=10, candidates=everything), codes)
    assert np.array_equal(Rng().respond(codes, epsilon=epsilon, classes=10), codes)


def test_changes_rarer_than_float_spacing_keep_their_probability() -> None:
    """At epsilon 40 a plain uniform number is below e^-40 never, or as if e^-36.7."""

    class Zeros:
        """A first draw of 0, as one in 2^53 is."""

        def __init__(self) -> None:
            self.draws = [np.zeros(100_000), np.random.default_rng(0).random(100_000)]

        def random(self, shape: tuple[int, ...]) -> np.ndarray:
            return self.draws.pop(0)

    below = (small_uniforms((100_000,), Zeros()) < math.exp(-40)).mean()  # type: ignore[arg-type]
    assert below == pytest.approx(math.exp(-40) * 2**53, abs=0.005)


def test_row_without_candidates_is_refused() -> None:
    with pytest.raises(WrongInput, match="at least one candidate for each row"):
        randomised_response(np.zeros(2, int), np.array([[True], [False]]), 1.0, np.random.default_rng(0))
