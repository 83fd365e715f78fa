"""DPGEN's randomised response as published, and why no epsilon bounds it."""

from __future__ import annotations

import numpy as np
import pytest

from privaware.attacks._bounds import epsilon_lower
from privaware.learners.dpgen import Pairs, response_pairs
from privaware.noise import Rng

LEVELS = np.geomspace(2.0, 0.1, 6).astype(np.float32)
ROWS = np.random.default_rng(0).random((512, 1, 2, 2), dtype=np.float32)


def pairs_of(rows: np.ndarray, epsilon: float, seed: int = 0, candidates: int = 256, pairs: int = 20_000) -> Pairs:
    return response_pairs(rows, LEVELS, epsilon=epsilon, candidates=candidates, pairs=pairs, rng=Rng(seed=seed))


def own_answers(rows: np.ndarray, epsilon: float) -> float:
    """How often a row answers with itself; at levels this small a noisy row is nearest to its own."""
    answers = response_pairs(
        rows, np.array([1e-6], np.float32), epsilon=epsilon, candidates=256, pairs=20_000, rng=Rng(seed=0)
    )
    return float((np.abs(answers.noisy - rows[answers.answer]).reshape(20_000, -1).max(1) < 1e-4).mean())


@pytest.mark.parametrize(("epsilon", "keep"), [(10.0, 0.98855), (5.0, 0.36789), (1e-9, 1 / 256)])
def test_row_answers_itself_as_often_as_response_says(epsilon: float, keep: float) -> None:
    assert own_answers(ROWS, epsilon) == pytest.approx(keep, abs=4 * np.sqrt(keep * (1 - keep) / 20_000))


def test_large_epsilons_do_not_overflow() -> None:
    """Public code takes 101 for whatever exceeds 100, because e^epsilon is no float then."""
    assert own_answers(ROWS, 1000.0) == own_answers(ROWS, 1e6) == 1.0


def test_pairs_far_apart_get_a_larger_noise_level() -> None:
    pairs = pairs_of(ROWS, epsilon=1e-9)
    apart = np.abs(pairs.noisy - ROWS[pairs.answer]).reshape(len(pairs.level), -1).max(1)
    plausible = apart / pairs.level <= 5 + 1e-5
    assert plausible[pairs.level < LEVELS[0]].all()
    assert plausible.mean() > 0.99
    assert (pairs.level > LEVELS[-1]).mean() > 0.85  # most pairs are of different rows


def test_counter_example_absent_row_is_never_an_answer() -> None:
    """With the row the event "it is an answer" has the keep probability, without it 0: no finite epsilon."""
    claimed, others = 0.1, ROWS[:3]
    canary = np.full((1, 1, 2, 2), 0.123, np.float32)
    with_row = np.concatenate([others, canary])

    def answered(rows: np.ndarray, seed: int) -> float:
        pairs = pairs_of(rows, claimed, seed, candidates=4, pairs=4)
        return float((rows[pairs.answer] == canary).all((1, 2, 3)).any())

    inside = [answered(with_row, seed) for seed in range(600)]
    outside = [answered(others, seed) for seed in range(600, 1200)]
    assert sum(outside) == 0
    assert np.mean(inside) > 0.5
    assert epsilon_lower(inside, outside, delta=1e-5) > 20 * claimed


def test_no_rows_make_no_pairs() -> None:
    assert len(pairs_of(ROWS[:0], 1.0).answer) == 0
    assert pairs_of(ROWS[:1], 1.0, pairs=3).answer.tolist() == [0, 0, 0]
