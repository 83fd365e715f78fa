"""The crossover of two curves: planted ones are found, with an interval that covers as often as it says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware.errors import WrongInput
from privaware.workflow._crossing import Crossing
from privaware.workflow.crossover import crossing

GRID = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0]


def curves(rng: np.random.Generator, at: float, repeats: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores whose mean difference is a straight line in log epsilon that vanishes at `at`."""
    gap = -0.04 * (np.log(GRID) - np.log(at))
    base = 0.8 + rng.normal(0, 0.05, (repeats, 1))  # what repeats share is taken out by pairing
    simple = base + gap + rng.normal(0, spread, (repeats, len(GRID)))
    return simple, base + rng.normal(0, spread, (repeats, len(GRID)))


@pytest.mark.parametrize(("at", "repeats"), [(2.0, 5), (0.5, 10), (9.0, 3)])
def test_a_planted_crossover_is_inside_the_interval_as_often_as_promised(at: float, repeats: int) -> None:
    rng = np.random.default_rng(7)
    runs = 600
    made = [crossing(GRID, *curves(rng, at, repeats, 0.02)) for _ in range(runs)]
    inside = sum(m.low <= at and (m.high is None or at <= m.high) for m in made)
    assert 0.92 <= inside / runs <= 0.985
    found = [m.estimate for m in made if m.estimate]
    assert np.exp(np.median(np.log(found))) == pytest.approx(at, rel=0.15)


def test_without_spread_the_interval_is_the_crossing() -> None:
    gap = -(np.log(GRID) - np.log(1.7))
    made = crossing(GRID, [0.5 + gap / 10] * 3, [[0.5] * len(GRID)] * 3)
    assert made.estimate == pytest.approx(1.7)
    assert made.low == pytest.approx(1.7)
    assert made.high == pytest.approx(1.7)


def test_a_simple_model_that_never_wins_has_crossover_zero() -> None:
    rng = np.random.default_rng(0)
    worse = 0.5 + rng.normal(0, 0.001, (4, len(GRID)))
    made = crossing(GRID, worse, worse + 0.1)
    assert (made.estimate, made.low, made.high) == (0.0, 0.0, 0.0)
    assert made.never
    assert "infinity" in made.sentence


def test_a_simple_model_that_always_wins_is_above_the_largest_tried() -> None:
    rng = np.random.default_rng(0)
    better = 0.6 + rng.normal(0, 0.001, (4, len(GRID)))
    made = crossing(GRID, better, better - 0.1)
    assert made.estimate is None
    assert made.above == 30.0
    assert made.high is None
    assert made.low == pytest.approx(30.0)
    assert made.sentence.startswith("above 30")


def test_ties_at_a_small_epsilon_do_not_stretch_the_interval() -> None:
    """Where both only guess, nothing is known; the crossover is still where the curves cross last."""
    rng = np.random.default_rng(1)
    gap = np.array([0.0, 0.0, 0.08, 0.06, -0.06, -0.08])
    noise = rng.normal(0, 0.004, (6, len(GRID)))
    made = crossing(GRID, 0.6 + gap + noise, np.full((6, len(GRID)), 0.6))
    assert 3.0 < made.low < made.high < 10.0  # type: ignore[operator]


def test_one_repeat_gives_the_bracket_of_the_grid() -> None:
    made = crossing([1.0, 2.0, 4.0], [[0.9, 0.8, 0.7]], [[0.8, 0.79, 0.8]])
    assert (made.low, made.high, made.confidence) == (2.0, 4.0, None)


@given(st.lists(st.lists(st.floats(-1, 1), min_size=3, max_size=3), min_size=2, max_size=6), st.floats(0.1, 10))
def test_the_estimate_lies_in_the_interval_and_scale_does_not_matter(gaps: list[list[float]], scale: float) -> None:
    grid, zero = [0.5, 1.0, 2.0], np.zeros((len(gaps), 3))
    made = crossing(grid, gaps, zero)
    top = np.inf if made.high is None else made.high
    middle = np.inf if made.estimate is None else made.estimate
    assert made.low <= middle * (1 + 1e-9)
    assert middle <= top * (1 + 1e-9)
    again = crossing(grid, np.array(gaps) * 2.0, zero)
    assert again.estimate == made.estimate


@pytest.mark.parametrize(
    ("epsilons", "simple", "complex_"),
    [
        ([1.0, 1.0], [[0, 0]], [[0, 0]]),
        ([0.0, 1.0], [[0, 0]], [[0, 0]]),
        ([1.0, 2.0], [[0, 0, 0]], [[0, 0, 0]]),
        ([1.0, 2.0], [[0, np.nan]], [[0, 0]]),
        ([], [[]], [[]]),
    ],
)
def test_wrong_tables_are_refused(epsilons: list[float], simple: object, complex_: object) -> None:
    with pytest.raises(WrongInput):
        crossing(epsilons, simple, complex_)


@pytest.mark.parametrize(
    ("low", "words"), [(0.0, "sure of it at none of them"), (3.0, "sure of it up to 3"), (30.0, "epsilon tried")]
)
def test_a_win_to_the_end_says_how_far_it_is_sure(low: float, words: str) -> None:
    made = Crossing(low=low, high=None, estimate=None, above=30.0, confidence=0.95)
    assert made.sentence.endswith(words)
