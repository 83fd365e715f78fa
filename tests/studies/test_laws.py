"""What studies compute without training: laws recovered from what they predict, and the lemma by simulation."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware.errors import WrongInput
from privaware.studies._trials import Outcome, Setting, Trial
from privaware.studies.batch_noise import batch_noise, by_setting
from privaware.studies.cost_of_privacy import cost_of_privacy
from privaware.studies.feature_cost import feature_cost, worth
from privaware.studies.sample_size import sample_size

number = st.floats(-3, 3).map(lambda value: round(value, 3))


@given(st.lists(st.tuples(number, number), min_size=1, max_size=4), number, st.floats(0, 2), st.floats(0, 2))
def test_the_exact_condition_is_which_expected_error_is_smaller(
    pairs: list[tuple[float, float]], y: float, noise: float, without: float
) -> None:
    theta, x = zip(*pairs)
    made = feature_cost(theta, x, y, noise=noise, without=without)
    gap = made.error_with - made.error_without
    if abs(gap) > 1e-9:
        assert made.drop == (gap > 0)
    if made.sufficient and abs(gap) > 1e-9:
        assert made.drop  # the paper's condition is sufficient


def test_the_lemma_against_simulation() -> None:
    rng = np.random.default_rng(3)
    theta, x, y = np.array([0.7, -1.2, 0.4]), np.array([1.0, 0.5, -2.0]), 0.3
    made = feature_cost(theta, x, y, noise=0.8, without=0.5)
    noisy = theta + 0.8 * rng.standard_normal((200_000, 3))
    less = theta[:2] + 0.5 * rng.standard_normal((200_000, 2))
    assert made.error_with == pytest.approx(np.mean((y - noisy @ x) ** 2), rel=0.02)
    assert made.error_without == pytest.approx(np.mean((y - less @ x[:2]) ** 2), rel=0.02)


def test_where_the_printed_equivalence_fails() -> None:
    made = feature_cost([0.0, -2.0], [0.0, 1.0], -1.0, noise=math.sqrt(3))
    assert made.drop
    assert not made.sufficient
    assert made.bound == pytest.approx(1.0)


@given(st.floats(-5, 5), st.floats(0.01, 5))
def test_without_residual_both_conditions_are_the_corollary(theta: float, noise: float) -> None:
    made = feature_cost([1.0, theta], [0.5, 2.0], 0.5 + 2.0 * theta, noise=noise)
    if abs(abs(theta) - noise) > 1e-6:
        assert made.drop == made.sufficient == (abs(theta) <= noise)


def test_the_printed_noise_is_too_small_at_a_large_epsilon() -> None:
    assert worth(1.0, 1e-5)["exact"] < worth(1.0, 1e-5)["printed"]
    assert worth(20.0, 1e-5)["exact"] > worth(20.0, 1e-5)["printed"]


def test_the_law_of_sample_size_is_recovered_with_its_spread() -> None:
    rng = np.random.default_rng(5)
    sizes = (5_000, 10_000, 30_000, 100_000, 1_000_000)
    spent = {n: math.log(1.1 + 8922.4 / n) * (1 + rng.normal(0, 0.02, 10)) for n in sizes}
    law = sample_size({n: list(values) for n, values in spent.items()}, available=60_000)
    assert law.alpha == pytest.approx(1.1, abs=4 * law.alpha_spread)
    assert law.beta == pytest.approx(8922.4, abs=4 * law.beta_spread)
    assert 0 < law.beta_spread < 500
    assert law.rows(law.epsilon(12_345)) == pytest.approx(12_345)
    assert law.rows(0.01) == math.inf
    assert law.repeated == pytest.approx(1_000_000 / 60_000)
    assert "not for a person" in law.note
    assert "once" in sample_size({n: list(values) for n, values in spent.items()}).note


def test_the_published_fit_does_not_say_what_the_text_says() -> None:
    spent = {n: [math.log(1.1 + 8922.4 / n)] for n in (10_000, 100_000, 1_000_000)}
    assert sample_size(spent).epsilon(13_574) == pytest.approx(0.564, abs=1e-3)


@pytest.mark.parametrize("spent", [{}, {100: [1.0]}, {100: [1.0], 200: []}, {100: [0.0], 200: [1.0]}])
def test_too_little_for_a_law_is_refused(spent: dict[int, list[float]]) -> None:
    with pytest.raises(WrongInput):
        sample_size(spent)


def test_the_cost_of_privacy_is_what_is_lost_and_its_interval_covers() -> None:
    rng = np.random.default_rng(2)
    runs, inside = 500, 0
    for _ in range(runs):
        private = 0.9 + rng.normal(0, 0.02, (5, 1))
        made = cost_of_privacy([1.0], private, 0.97 + rng.normal(0, 0.005, 4))
        [point] = made.points
        inside += point.low <= 0.07 <= point.high
    assert 0.92 <= inside / runs <= 0.98
    assert cost_of_privacy([1.0], [[0.9]], [0.8]).at(1.0).mean == pytest.approx(-0.1)


def test_noise_grows_with_the_root_of_the_rate(tmp_path: Path) -> None:
    made = batch_noise(50_000, (2048, 4096, 8192), epochs=60, epsilon=3.0, delta=1e-5)
    assert 0.45 < made.slope < 0.5
    assert made.noise(8192 / 50_000) == pytest.approx(4.578 * 0.96, rel=0.05)  # less data norm
    assert json.loads(json.dumps(made.json()))["slope"] == made.slope
    assert made.plot(tmp_path / "noise.png").read_bytes().startswith(b"\x89PNG")


def test_median_and_maximum_are_over_everything_else() -> None:
    outcomes = [
        Outcome(
            trial=Trial(curve="", x=0, seed=0, setting=Setting(architecture={}, batch=b, steps=1, lr=r)),
            steps=(1,),
            scores=(score,),
        )
        for b, r, score in [(1, 1, 0.1), (1, 2, 0.5), (1, 3, 0.9), (2, 1, 0.3), (2, 2, 0.2)]
    ]
    made = by_setting(outcomes, {"batch": lambda s: s.batch})
    assert made["batch"][1] == {"median": 0.5, "maximum": 0.9}
    assert made["batch"][2] == {"median": 0.25, "maximum": 0.3}
