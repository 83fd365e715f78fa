"""The sample-size law."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from privaware.errors import WrongInput
from research.studies._sweep import sweep
from research.studies._trials import synthetic_examples
from research.studies.sample_size import sample_size, steps_to
from tests.research.studies.examples import ONE, trials


def test_population_ends_once_all_reach_the_accuracy() -> None:
    outcomes = sweep(trials(3, steps=500, noise=0.0), synthetic_examples(), every=5, reach=0.9)
    assert all(max(outcome.scores) >= 0.9 for outcome in outcomes)
    assert all(len(outcome.steps) < 100 for outcome in outcomes)
    steps_needed = steps_to(
        synthetic_examples(), replace(ONE, steps=200, noise=0.0), (100, 200), accuracy=0.9, every=5, repeats=2
    )
    assert sorted(steps_needed) == [100, 200]
    assert all(step is not None and step % 5 == 0 for steps in steps_needed.values() for step in steps)
    never = steps_to(synthetic_examples(), replace(ONE, steps=5), (100,), accuracy=1.1, every=5, repeats=1)
    assert never == {100: [None]}


def test_fit_recovers_known_parameters_within_spread() -> None:
    rng = np.random.default_rng(5)
    sizes = (5_000, 10_000, 30_000, 100_000, 1_000_000)
    spent = {n: math.log(1.1 + 8922.4 / n) * (1 + rng.normal(0, 0.02, 10)) for n in sizes}
    fit = sample_size({n: list(values) for n, values in spent.items()}, available=60_000)
    assert fit.alpha == pytest.approx(1.1, abs=4 * fit.alpha_spread)
    assert fit.beta == pytest.approx(8922.4, abs=4 * fit.beta_spread)
    assert 0 < fit.beta_spread < 500
    assert fit.rows(fit.epsilon(12_345)) == pytest.approx(12_345)
    assert fit.rows(0.01) == math.inf
    assert fit.repeated == pytest.approx(1_000_000 / 60_000)
    assert "not for a person" in fit.note
    assert "once" in sample_size({n: list(values) for n, values in spent.items()}).note


def test_published_fit_contradicts_published_text() -> None:
    spent = {n: [math.log(1.1 + 8922.4 / n)] for n in (10_000, 100_000, 1_000_000)}
    assert sample_size(spent).epsilon(13_574) == pytest.approx(0.564, abs=1e-3)


@pytest.mark.parametrize("spent", [{}, {100: [1.0]}, {100: [1.0], 200: []}, {100: [0.0], 200: [1.0]}])
def test_fit_needs_two_sizes_and_positive_epsilons(spent: dict[int, list[float]]) -> None:
    with pytest.raises(WrongInput):
        sample_size(spent)
