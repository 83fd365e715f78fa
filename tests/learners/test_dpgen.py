"""DPGEN: no guarantee as published, a true one when corrected, and no mixed scales."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware import accounting, fit
from privaware.data import Data
from privaware.errors import Refused, WrongInput
from privaware.events import Unproven
from privaware.learners.dpgen import DpGen, Pairs, ScoreSettings, response_pairs
from privaware.learners.majority import Majority
from privaware.metrics import accuracy
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import Recorder, replay, rows_for
from privaware.testing._price import spent
from tests.learners.mnist_subset import mnist

IMAGE = Schema(form="image", shape=(1, 4, 4), classes=("dark", "light"), rows=60)
SCORE = {"width": 2, "stages": 1, "levels": 12, "largest": 2.0, "smallest": 0.05, "rate": 1.25e-3, "langevin": 3}
SCORE |= {"steps": 3, "batch": 20}
LINEAR = {"name": "linear"}
PUBLISHED = DpGen(score=SCORE, samples=12, candidates=8, pairs=100, architecture=LINEAR, epochs=5, batch=12, lr=0.05)
CORRECTED = replace(PUBLISHED, variant="corrected")


def dark_and_light() -> Data:
    data = rows_for(IMAGE, 60, seed=1)
    y = np.arange(60) % 2
    x = 0.1 * data.x + np.where(y, 0.7, 0.1).reshape(-1, 1, 1, 1)
    return replace(data, x=x.astype(np.float32), y=y)


def test_defaults_are_those_of_the_benchmark() -> None:
    learner, score = DpGen(), DpGen()._settings()
    assert (learner.lr, learner.batch, learner.epochs) == (0.01, 1024, 100)
    assert (learner.candidates, learner.pairs) == (256, 60_000)
    assert (score.width, score.levels, score.largest, score.smallest) == (128, 232, 50.0, 0.01)
    assert (score.steps, score.batch, score.lr, score.ema) == (300_001, 128, 1e-4, 0.999)
    assert (score.langevin, score.rate) == (5, 6.2e-6)
    assert DpGen(score={"width": 3})._settings() == replace(ScoreSettings(), width=3)


def test_p22_published_variant_has_no_price_and_says_why() -> None:
    event = PUBLISHED.cost(IMAGE, 1.0)
    assert isinstance(event, Unproven)
    assert "a row that is not there never" in event.reason
    assert DpGen.guarantee.startswith("none: ")
    for noise in (0.1, 10.0):
        with pytest.raises(Refused, match="answers with private images"):
            accounting.epsilon(PUBLISHED.cost(IMAGE, noise), 1e-5)


def test_p22_published_variant_is_refused_before_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = tmp_path / "images.npz"
    data = dark_and_light()
    np.savez(images, x=data.x, y=data.y)
    read: list[str] = []
    monkeypatch.setattr("privaware.workflow.run.charge.ChargedRun._charge", lambda self, what: read.append(what))
    for source, schema in (("digits", None), (images, IMAGE)):
        with pytest.raises(Refused, match="answers with private images"):
            fit(source, epsilon=8.0, learner="dpgen", schema=schema, out=tmp_path / "model")
    assert read == []
    assert not (tmp_path / "model").exists()
    assert not list(tmp_path.rglob("*.ledger"))


@pytest.mark.parametrize("rows", [60, 0])
def test_published_variant_runs_on_public_data(rows: int) -> None:
    data = dark_and_light()
    model = PUBLISHED.run(data.take(np.arange(rows)), 0.0, Rng(seed=0))  # every row answers with itself
    assert np.isfinite(model.outputs(data.x)).all()


def test_published_images_are_labelled_by_public_rows() -> None:
    """Public code trains the labelling classifier on private rows."""
    data = dark_and_light()
    light = replace(data, y=np.ones(60, np.int64))
    _, labels = replace(PUBLISHED, public=light, epochs=40).synthesise(data, 0.1, Rng(seed=0))
    assert labels.tolist() == [1] * 12


def test_synthetic_images_and_rows_share_one_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Public code learns scores of normalised images, clamps samples to [0, 1], and labels and tests on other scales.

    Here a sampler that returned the rows themselves would see them labelled as they are.
    """
    data, shown = dark_and_light(), []

    def answers(rows: np.ndarray, *args: Any, **more: Any) -> Pairs:
        shown.append(rows)
        return response_pairs(rows, *args, **more)

    monkeypatch.setattr("privaware.learners.dpgen.response_pairs", answers)
    monkeypatch.setattr("privaware.learners._networks.score_network.Langevin.run", lambda self, *args: data.x[:12])
    images, labels = replace(PUBLISHED, epochs=40).synthesise(data, 0.1, Rng(seed=0))
    assert np.array_equal(shown[0], data.x)
    assert np.array_equal(images, data.x[:12])
    assert labels.tolist() == data.y[:12].tolist()
    model = replace(PUBLISHED, epochs=40, lr=0.2).run(data, 0.1, Rng(seed=0))
    assert accuracy(data.y, model.predictions(data)) > 0.95


def test_corrected_price_is_that_of_the_recorded_releases() -> None:
    recorder = Recorder(seed=1)
    CORRECTED.run(dark_and_light(), 2.0, recorder)
    assert sum(call.kind == "gaussian" for call in recorder.calls) == SCORE["steps"]
    stated = CORRECTED.cost(IMAGE, 2.0)
    assert accounting.epsilon(spent(recorder.calls), 1e-5) == pytest.approx(accounting.epsilon(stated, 1e-5), rel=1e-6)
    bounds = accounting.bounds(stated, 1e-5)
    assert bounds["cf"] == pytest.approx(bounds["pld"], rel=5e-3)


def test_row_moves_a_corrected_step_by_its_clipped_gradient() -> None:
    """Noise that depended on the place of a row in its batch would change with the rows before it."""
    data = dark_and_light().take(np.arange(9))
    learner = replace(CORRECTED, score={**SCORE, "steps": 2}, norm=0.05)
    other = data.take(np.arange(1, 9))
    for one, two in ((data, other), (other, data)):
        assert max(replay(learner, one, two, 1.0).ratios.values()) > 0.5


def test_corrected_labels_are_chosen_and_not_read_off_the_rows() -> None:
    data = dark_and_light()
    _, labels = CORRECTED.synthesise(replace(data, y=np.zeros(60, np.int64)), 1.0, Rng(seed=0))
    assert labels.tolist() == [0, 1] * 6


def test_corrected_images_follow_their_class() -> None:
    data = dark_and_light()
    quiet = replace(
        CORRECTED, score={**SCORE, "stages": 0, "batch": 60, "steps": 60, "lr": 3e-2, "ema": 0.8}, norm=10.0
    )
    images, labels = quiet.synthesise(data, 1e-6, Rng(seed=0))
    means = [images[labels == label].mean() for label in (0, 1)]
    assert means == pytest.approx([data.x[data.y == label].mean() for label in (0, 1)], abs=0.1)


def test_unusable_settings_are_refused_before_a_charge() -> None:
    wrongs = ({"variant": "mended"}, {"candidates": 1}, {"samples": 0}, {"score": {"wide": 3}}, {"score": {"width": 0}})
    for wrong in wrongs:
        with pytest.raises(WrongInput, match="dpgen: expected"):
            DpGen(**wrong)
    table = Schema(columns=(Column(name="a", low=-1, high=1),), classes=("n", "y"), rows=60)
    with pytest.raises(WrongInput, match="expected images"):
        DpGen(variant="corrected").cost(table, 1.0)


@pytest.mark.slow
def test_corrected_variant_beats_the_constant_at_epsilon_eight() -> None:
    train, test = mnist(1000)
    learner = DpGen(
        variant="corrected",
        score={"stages": 0, "levels": 12, "langevin": 3, "rate": 1.25e-3, "steps": 40, "lr": 0.03, "ema": 0.9},
        norm=0.02,
        draws=2,
        samples=200,
        architecture=LINEAR,
        epochs=20,
        batch=50,
    )
    noise = accounting.calibrate(lambda noise: learner.cost(train.schema, noise), 8.0, 1e-5)
    score = accuracy(test.y, learner.run(train, noise, Rng(seed=0)).predictions(test))
    constant = accuracy(test.y, Majority().run(train, 0.125, Rng(seed=0)).predictions(test))
    assert score > constant + 0.2
