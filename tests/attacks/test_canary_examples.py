"""Canary examples go through the whole engine: their bound is near the truth and rarely above it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from privaware import accounting
from privaware.attacks import _bounds
from privaware.attacks._gradient_canaries import CanaryScores
from privaware.descent import Descent, FullBatch, Poisson, flat, sgd
from privaware.descent._training import Training
from privaware.noise import Rng
from research.comparisons._canary_examples import canary_examples

EPSILON, DELTA = 4.0, 1e-5
FULL = Descent(steps=2, sampler=FullBatch(), clip=flat(1.0), update=sgd(0.1))


def run(descent: Descent, seed: int, *, noise: float | None = None, canaries: int = 1000) -> CanaryScores:
    generator = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(20, 4, generator=generator), torch.randint(2, (20,), generator=generator)
    if noise is None:
        noise = accounting.calibrate(descent.cost, EPSILON, DELTA)
    return canary_examples(
        descent, nn.Linear(4, 2), inputs, targets, noise=noise, rows=20, rng=Rng(seed=seed), canaries=canaries
    )


def lower(scores: CanaryScores, confidence: float = 0.95) -> float:
    return _bounds.epsilon_of_shift(_bounds.shift_lower(*scores.sides, confidence=confidence), DELTA)


def test_bound_of_full_batch_descent_is_near_the_truth() -> None:
    bounds = [lower(run(FULL, seed)) for seed in range(4)]
    assert np.mean(bounds) > 3.2
    assert sum(bound > EPSILON for bound in bounds) <= 1


@pytest.mark.slow
def test_full_batch_bound_exceeds_truth_in_5_percent_at_most() -> None:
    bounds = np.array([lower(run(FULL, seed)) for seed in range(500)])
    assert bounds.mean() >= 3.2
    assert (bounds > EPSILON).mean() <= 0.05


def test_canaries_are_clipped_to_the_norm() -> None:
    """Without noise a canary that is in moved its parameter by exactly the clipping norm, the others by nothing."""
    scores = run(FULL, 1, noise=0.0, canaries=50)
    inside, outside = scores.sides
    assert (outside == 0).all()
    assert inside == pytest.approx(np.full(len(inside), 2 * 1e-3 / 20), rel=1e-4)


def halved(release: Any) -> Any:
    """The same release with half the noise that it was asked for."""
    return lambda self, exact, *, noise, sensitivity: release(self, exact, noise=noise / 2, sensitivity=sensitivity)


@pytest.mark.parametrize("bug", ["clip", "noise"])
def test_planted_bugs_of_the_engine_refute_the_claim(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if bug == "clip":
        norms = Training._example_norms
        monkeypatch.setattr(Training, "_example_norms", lambda self, count, margin: 2 * norms(self, count, margin))
    else:
        monkeypatch.setattr(Rng, "gaussian", halved(Rng.gaussian))
    assert lower(run(FULL, 1), 0.999) > EPSILON


def test_sampled_canaries_prove_less_than_the_claim() -> None:
    """Each canary is sampled as a row is, so that amplification shows."""
    descent = Descent(steps=8, sampler=Poisson(rate=0.25), clip=flat(1.0), update=sgd(0.1))
    noise = accounting.calibrate(descent.cost, EPSILON, DELTA)
    inside, outside = run(descent, 3, noise=noise).sides
    all_rows = accounting.epsilon(8 * FULL.sampler.event(descent.cost(noise).event.event), DELTA)  # type: ignore[attr-defined]
    shift = _bounds.shift_lower(inside, outside)
    assert 0 < _bounds.epsilon_of_shift(shift, DELTA) < 0.5 * all_rows
