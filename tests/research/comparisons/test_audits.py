"""Evidence beside a claim: bounds at 95%, alarms at 99.9% and none for correct mechanisms."""

from __future__ import annotations

import json

import numpy as np
import pytest

from privaware import accounting
from privaware.attacks._evidence import GUESSED_FRACTIONS, _guesses, evidence_of_canaries, evidence_of_runs
from privaware.attacks._gradient_canaries import CanaryScores, gradient_canaries
from privaware.attacks._row_canaries import crafted_pair, crafted_rows, label_scores, row_canaries
from privaware.errors import WrongInput
from privaware.events import Gaussian, Pure
from privaware.learners.dpsgd import DpSgd
from privaware.learners.linear import Linear
from privaware.noise import Rng
from privaware.testing import example, rows_for
from research.comparisons.audits import Counts

DELTA = 1e-5
IMAGES = example("image", classes=10, rows=40)


def scores(rng: np.random.Generator, shift: float, count: int) -> CanaryScores:
    inside = rng.random(count) < 0.5
    return CanaryScores(inside=inside, scores=rng.normal(shift * inside, 1.0))


def test_gaussian_scores_that_are_too_far_apart_refute_the_claim() -> None:
    rng = np.random.default_rng(0)
    claim = Gaussian(noise=1.0)
    assert not evidence_of_canaries(scores(rng, 1.0, 1000), claim, DELTA, gradients=True).refuted
    far = evidence_of_canaries(scores(rng, 1.5, 1000), claim, DELTA, gradients=True)
    assert far.refuted
    assert far.epsilon_claimed < far.epsilon_alarm < far.epsilon_lower


def test_rows_that_are_guessed_too_well_refute_the_claim() -> None:
    """By the whole trade-off of a Gaussian claim, where its epsilon at one delta would need many more canaries."""
    rng = np.random.default_rng(1)
    far = evidence_of_canaries(scores(rng, 9.0, 400), Gaussian(noise=1.2), DELTA, gradients=False)
    assert far.method == "guesses"
    assert far.refuted
    assert not evidence_of_canaries(scores(rng, 0.5, 400), Gaussian(noise=1.2), DELTA, gradients=False).refuted


def test_runs_refute_by_trade_off_what_one_delta_does_not() -> None:
    """At a delta of 1e-5 a few hundred runs prove little of a Gaussian claim; its other deltas say more."""
    rng = np.random.default_rng(2)
    inside, outside = rng.normal(3.2, 1, 300), rng.normal(0, 1, 300)
    found = evidence_of_runs(inside, outside, Gaussian(noise=1.0), DELTA)
    assert found.epsilon_alarm < found.epsilon_claimed
    assert found.refuted
    assert not evidence_of_runs(rng.normal(1, 1, 300), outside, Gaussian(noise=1.0), DELTA).refuted


def test_guesses_are_the_surest_canaries_of_one_or_both_sides() -> None:
    inside = np.arange(100) >= 40
    tried = _guesses(CanaryScores(inside=inside, scores=np.arange(100.0)))
    assert len(tried) == len(GUESSED_FRACTIONS)
    by_guesses = {each["guesses"]: each["correct"] for each in tried}
    assert by_guesses[100] == 40 + 50
    assert by_guesses[50] in (50, 25 + 25)
    assert all(each["canaries"] == 100 and each["correct"] <= each["guesses"] for each in tried)


def test_json_has_no_score_of_a_canary() -> None:
    found = evidence_of_canaries(scores(np.random.default_rng(3), 1.0, 200), Gaussian(noise=1.0), DELTA, gradients=True)
    text = json.dumps(found.to_json(), allow_nan=False)
    assert not any(f"{score!r}" in text for score in found.inside[:20].tolist())
    roc = np.array(found.to_json()["roc"])
    assert (np.diff(roc[:, 0]) > 0).all()
    assert (np.diff(roc[:, 1]) >= 0).all()


def test_crafted_rows_stay_in_the_schema_and_ignore_the_label() -> None:
    schema = example(classes=3)
    rows = crafted_rows(schema, 600, Rng(seed=1))
    for at, column in enumerate(schema.used):
        low, high = (0, 2) if column.kind == "category" else (column.low, column.high)
        assert rows.x[:, at].min() == low
        assert rows.x[:, at].max() == high
    assert abs(np.corrcoef(rows.x[:, 0], rows.y)[0, 1]) < 0.15
    assert crafted_rows(IMAGES, 3, Rng(seed=1)).x.shape == (3, 1, 8, 8)
    assert len(crafted_rows(example("text"), 3, Rng(seed=1)).x) == 3
    with pytest.raises(WrongInput, match="expected declared bounds"):
        crafted_rows(schema.bare(), 3, Rng(seed=1))
    few, canary = crafted_pair(schema.bare(), 8, Rng(seed=1))
    assert (len(few), len(canary)) == (3, 1)


def test_rows_that_trained_a_model_without_noise_are_guessed() -> None:
    schema = example(rows=60)
    found = row_canaries(Linear(steps=200, lr=2.0, norm=1e3), rows_for(schema, 20), 1e-9, Rng(seed=1), canaries=100)
    inside, outside = found.sides
    assert inside.mean() > outside.mean()
    regression = example(classes=0)
    model = Linear(steps=2).run(rows_for(regression, 20), 1.0, Rng(seed=0))
    assert (label_scores(model, crafted_rows(regression, 9, Rng(seed=2))) <= 0).all()


@pytest.mark.slow
def test_200_audits_of_correct_mechanisms_raise_no_alarm() -> None:
    """Full batches, samples, counts and rows as canaries, fifty times each."""
    rows = rows_for(IMAGES, 40)
    alarms = []
    for mechanism, gradients in (
        (Linear(steps=3), True),
        (DpSgd(steps=3, batch=10, architecture={"name": "linear"}), True),
        (Counts(), True),
        (Linear(steps=3), False),
    ):
        noise = accounting.calibrate(lambda noise, of=mechanism: of.cost(IMAGES, noise), 2.0, DELTA)  # type: ignore[misc]
        claim = mechanism.cost(IMAGES, noise)
        insert = gradient_canaries if gradients else row_canaries
        for seed in range(50):
            found = insert(mechanism, rows, noise, Rng(seed=seed), canaries=400)  # type: ignore[arg-type]
            alarms.append(evidence_of_canaries(found, claim, DELTA, gradients=gradients).refuted)
    assert len(alarms) == 200
    assert not any(alarms)


def test_pure_claims_have_a_trade_off_too() -> None:
    rng = np.random.default_rng(4)
    keep = 1 / (1 + np.exp(-1.0))
    truth = rng.random((2, 2000)) < keep
    found = evidence_of_runs(truth[0] * 1.0, 1.0 - truth[1], Pure(epsilon=1.0), DELTA)
    assert 0.6 < found.epsilon_lower <= 1.05
    assert not found.refuted
    assert evidence_of_runs(truth[0] * 1.0, 1.0 - truth[1], Pure(epsilon=0.5), DELTA).refuted
