"""Canaries among noised sums: scores depend on coins and noise alone, bounds come near the claim, bugs refute it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privaware
from privaware import accounting
from privaware.attacks._evidence import Evidence, evidence_of_canaries
from privaware.attacks._gradient_canaries import gradient_canaries, room_for_canaries
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Event, Gaussian, Laplace
from privaware.learners.dpsgd import DpSgd
from privaware.learners.linear import Linear
from privaware.learners.majority import Majority
from privaware.learners.pate import Pate
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.testing import example, rows_for

SCHEMA = example("image", classes=10, rows=40)
ROWS = rows_for(SCHEMA, 40)
LEARNER = Linear(steps=5)
EPSILON, DELTA = 4.0, 1e-5


def evidence(
    learner: Any, seed: int, *, claim: Any = None, noise: float | None = None, canaries: int = 600
) -> Evidence:
    """Of one run at the noise that the claim was calibrated to, or at another."""
    claim = claim or learner
    calibrated = accounting.calibrate(lambda noise: claim.cost(SCHEMA, noise), EPSILON, DELTA)
    scores = gradient_canaries(learner, ROWS, noise or calibrated, Rng(seed=seed), canaries=canaries)
    return evidence_of_canaries(scores, claim.cost(SCHEMA, calibrated), DELTA, gradients=True)


def test_bound_of_a_full_batch_learner_is_near_its_claim() -> None:
    found = [evidence(LEARNER, seed) for seed in range(6)]
    lower = [each.epsilon_lower for each in found]
    assert np.mean(lower) > 3.0
    assert sum(bound > EPSILON for bound in lower) <= 1
    assert not any(each.refuted for each in found)
    assert {each.method for each in found} == {"gaussian"}


class HalfTheNoise(Linear):
    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        return super().run(data, noise / 2, rng)


class TwoMoreSteps(Linear):
    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        return Linear(steps=3 * self.steps).run(data, noise, rng)


@pytest.mark.parametrize("bug", [HalfTheNoise, TwoMoreSteps])
def test_less_noise_or_more_steps_than_charged_refute_the_claim(bug: Any) -> None:
    assert evidence(bug(steps=5), 1, claim=LEARNER).refuted


def quieter(release: Any) -> Any:
    """The same release with less noise than it was asked for."""
    return lambda self, exact, *, noise, sensitivity: release(self, exact, noise=noise / 1.6, sensitivity=sensitivity)


def test_noise_of_the_generator_itself_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls and sensitivities are right, so that nothing but the noise shows it."""
    monkeypatch.setattr(Rng, "gaussian", quieter(Rng.gaussian))
    assert evidence(LEARNER, 1).refuted


def test_sampled_training_is_tested_as_independent_runs_are() -> None:
    learner = DpSgd(steps=4, batch=10, architecture={"name": "linear"})
    claim = learner.cost(SCHEMA, 0.8)
    found, broken = (
        evidence_of_canaries(
            gradient_canaries(learner, ROWS, noise, Rng(seed=2), canaries=640), claim, DELTA, gradients=True
        )
        for noise in (0.8, 0.15)
    )
    assert found.method == "clopper_pearson"
    assert 0 <= found.epsilon_lower <= found.epsilon_claimed
    assert not found.refuted
    assert broken.refuted


def test_scores_tell_nothing_of_the_rows() -> None:
    other = replace(ROWS, x=1 - ROWS.x, y=(ROWS.y + 1) % 10)
    one, two = (gradient_canaries(LEARNER, rows, 2.0, Rng(seed=3), canaries=100) for rows in (ROWS, other))
    assert np.array_equal(one.inside, two.inside)
    assert np.allclose(one.scores, two.scores, atol=0.02)
    assert np.std(one.scores) > 0.3


@dataclass(frozen=True)
class Counts:
    """Laplace noise on many counts."""

    def cost(self, schema: Schema, noise: float) -> Event:
        return Laplace(noise=noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        exact_counts = np.bincount(data.y, minlength=4000).astype(float)
        return rng.laplace(exact_counts, noise=noise, sensitivity=1.0)


def test_laplace_counts_are_tested_too() -> None:
    found = evidence(Counts(), 4, canaries=4000)
    assert 1.5 < found.epsilon_lower <= EPSILON
    assert evidence(Counts(), 4, canaries=4000, noise=0.1).refuted


def test_mechanism_without_room_for_canaries_is_refused() -> None:
    with pytest.raises(WrongInput, match="too few for canaries in one run; audit it with rows"):
        room_for_canaries(Majority(), example(), 1.0)
    with pytest.raises(WrongInput, match="splits them into parts; audit it with rows"):
        room_for_canaries(Pate(teachers=2, queries=4, public=rows_for(example(), 4)), example(), 1.0)


def test_only_audits_have_a_generator_that_adds_canaries() -> None:
    root = Path(privaware.__file__).parent
    importers = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(
            r"^\s*(from|import) .*(_gradient_canaries import (?!no_rows\b)|CanaryRng)", path.read_text(), re.MULTILINE
        )
    }
    assert importers == {"attacks/_evidence.py", "attacks/_row_canaries.py", "workflow/_audit_runs.py"}


def test_gaussian_claim_of_another_event_is_not_mixed_up() -> None:
    """The claim decides the method: anything but Gaussians is tested as runs are, rows by guesses."""
    scores = gradient_canaries(LEARNER, ROWS, 5.0, Rng(seed=5), canaries=100)
    event = LEARNER.cost(SCHEMA, 5.0)
    assert evidence_of_canaries(scores, event, DELTA, gradients=True).method == "gaussian"
    assert evidence_of_canaries(scores, event, DELTA, gradients=False).method == "guesses"
    assert evidence_of_canaries(scores, event + Laplace(noise=9.0), DELTA, gradients=True).method == "clopper_pearson"
    assert evidence_of_canaries(scores, Gaussian(noise=1.0), DELTA, gradients=True).epsilon_claimed == pytest.approx(
        4.377, abs=0.01
    )
