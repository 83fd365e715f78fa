"""The crossover of two curves: a planted crossing is recovered, with an interval that covers as often as it says."""

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
def test_interval_covers_a_planted_crossover_at_its_confidence(at: float, repeats: int) -> None:
    rng = np.random.default_rng(7)
    runs = 600
    result = [crossing(GRID, *curves(rng, at, repeats, 0.02)) for _ in range(runs)]
    inside = sum(m.low <= at and (m.high is None or at <= m.high) for m in result)
    assert 0.92 <= inside / runs <= 0.985
    estimates = [m.estimate for m in result if m.estimate]
    assert np.exp(np.median(np.log(estimates))) == pytest.approx(at, rel=0.15)


def test_without_spread_the_interval_is_the_crossing() -> None:
    gap = -(np.log(GRID) - np.log(1.7))
    result = crossing(GRID, [0.5 + gap / 10] * 3, [[0.5] * len(GRID)] * 3)
    assert result.estimate == pytest.approx(1.7)
    assert result.low == pytest.approx(1.7)
    assert result.high == pytest.approx(1.7)


def test_a_simple_model_that_never_wins_has_crossover_zero() -> None:
    rng = np.random.default_rng(0)
    worse = 0.5 + rng.normal(0, 0.001, (4, len(GRID)))
    result = crossing(GRID, worse, worse + 0.1)
    assert (result.estimate, result.low, result.high) == (0.0, 0.0, 0.0)
    assert result.never
    assert "better at no epsilon tried" in result.sentence


def test_simple_model_that_always_wins_crosses_above_the_largest() -> None:
    rng = np.random.default_rng(0)
    better = 0.6 + rng.normal(0, 0.001, (4, len(GRID)))
    result = crossing(GRID, better, better - 0.1)
    assert result.estimate is None
    assert result.above == 30.0
    assert result.high is None
    assert result.low == pytest.approx(30.0)
    assert result.sentence == (
        "The crossover epsilon is above 30: the simple model is better even at the largest epsilon tried."
    )


def test_ties_at_a_small_epsilon_do_not_widen_the_interval() -> None:
    """Where both only guess, nothing is known; the crossover is still where the curves cross last."""
    rng = np.random.default_rng(1)
    gap = np.array([0.0, 0.0, 0.08, 0.06, -0.06, -0.08])
    noise = rng.normal(0, 0.004, (6, len(GRID)))
    result = crossing(GRID, 0.6 + gap + noise, np.full((6, len(GRID)), 0.6))
    assert 3.0 < result.low < result.high < 10.0  # type: ignore[operator]


def test_one_repeat_gives_the_bracket_of_the_grid() -> None:
    result = crossing([1.0, 2.0, 4.0], [[0.9, 0.8, 0.7]], [[0.8, 0.79, 0.8]])
    assert (result.low, result.high, result.confidence) == (2.0, 4.0, None)


GAPS = st.floats(-1, 1, allow_subnormal=False)  # half of the smallest subnormal number is 0


@given(st.lists(st.lists(GAPS, min_size=3, max_size=3), min_size=2, max_size=6), st.floats(0.1, 10))
def test_estimate_lies_in_the_interval_at_any_scale(gaps: list[list[float]], scale: float) -> None:
    grid, zero = [0.5, 1.0, 2.0], np.zeros((len(gaps), 3))
    result = crossing(grid, gaps, zero)
    top = np.inf if result.high is None else result.high
    middle = np.inf if result.estimate is None else result.estimate
    assert result.low <= middle * (1 + 1e-9)
    assert middle <= top * (1 + 1e-9)
    again = crossing(grid, np.array(gaps) * 2.0, zero)
    assert again.estimate == result.estimate


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
    ("low", "words"),
    [
        (0.0, "significant at no epsilon tried."),
        (3.0, "significant up to epsilon 3."),
        (30.0, ": the simple model is better even at the largest epsilon tried."),
    ],
)
def test_sentence_of_an_open_crossover_states_its_lower_limit(low: float, words: str) -> None:
    result = Crossing(low=low, high=None, estimate=None, above=30.0, confidence=0.95)
    assert result.sentence.endswith(words)


@pytest.mark.parametrize("simple", [[0.4, 0.4], [0.9, 0.4], [0.9, 0.9]], ids=["never", "crossing", "always"])
def test_one_repeat_claims_no_confidence(simple: list[float]) -> None:
    result = crossing([0.1, 1.0], [simple], [[0.6, 0.6]])
    assert result.sentence.startswith("The crossover epsilon is ")
    assert result.sentence.endswith(". One repeat gives no confidence interval, so another run may answer differently.")
    assert "never" not in result.sentence


@pytest.mark.parametrize(
    ("estimate", "low", "high", "words"),
    [
        (3.0, 2.0, 4.0, "is 3. At 95% confidence it is between 2 and 4."),
        (3.0, 2.0, None, "is 3. At 95% confidence it is at least 2, with no upper bound among the epsilons tried."),
        (0.0, 0.0, 2.0, "was better at no epsilon tried. At 95% confidence it is between 0 and 2."),
        (0.0, 0.0, 0.0, "is 0: the simple model was better at no epsilon tried."),
    ],
)
def test_sentences_state_the_interval(estimate: float, low: float, high: float | None, words: str) -> None:
    sentence = Crossing(low=low, high=high, estimate=estimate, above=None, confidence=0.95).sentence
    assert sentence.startswith("The crossover epsilon ")
    assert sentence.endswith(words)
