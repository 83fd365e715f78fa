"""Convergence with and without noise."""

from __future__ import annotations

from dataclasses import replace

from research.studies._trials import synthetic_examples
from research.studies.convergence import convergence
from tests.research.studies.examples import ONE


def test_noise_costs_more_at_a_high_learning_rate() -> None:
    # with momentum as in the paper the noise at a high rate adds up
    one = replace(ONE, steps=100, noise=8.0, momentum=0.9)
    study = convergence(synthetic_examples(600), {"linear": one}, (0.003, 30.0), epochs=5, repeats=4)
    assert study.lost["linear, rate 30"] > study.lost["linear, rate 0.003"]
    assert {point.x for point in study.points} == {1, 2, 3, 4, 5}
