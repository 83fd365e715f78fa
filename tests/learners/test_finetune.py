"""Private fine-tuning: both phases are paid for, and the second continues from the first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware import accounting, fit, models
from privaware.data import Data
from privaware.descent import Checkpoint
from privaware.descent._precision import matmul_precision
from privaware.errors import WrongInput
from privaware.events import Event, Gaussian
from privaware.features.prior import Prior
from privaware.learners.finetune import Finetune
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import BrokenPromise, replay
from privaware.testing._price import spent
from privaware.testing._replay import record
from privaware.workflow.load import load
from tests.learners.tiny_prior import tiny_prior

pytestmark = pytest.mark.cuda(instead="cpu")  # the prior takes a GPU where there is one


@pytest.fixture(autouse=True)
def float32() -> Iterator[None]:
    """Convolutions on a GPU use TF32 unless it is switched off, which is less exact than these tests are."""
    with matmul_precision("float32"):
        yield


SCHEMA = Schema(form="image", shape=(1, 6, 6), classes=("dark", "light"), rows=40)
QUIET = 1e-6


def rows(count: int = 24) -> Data:
    """Noise, of which every second image is darker above."""
    x = np.random.default_rng(5).random((count, 1, 6, 6), np.float32)
    y = np.arange(count) % 2
    x[y == 0, :, :3] *= 0.3
    return Data(schema=SCHEMA, x=x, y=y)


def learner(**settings: Any) -> Finetune:
    prior = tiny_prior() | settings.pop("prior", {})
    return Finetune(**{"prior": prior, "head_steps": 4, "steps": 2, "batch": 20, **settings})


def test_price_is_the_composition_of_both_phases_written_out() -> None:
    tuned = learner(head_steps=30, steps=50, batch=10, share=7.0)
    written = 30 * Gaussian(noise=7.0 * 1.3) + 50 * Gaussian(noise=1.3).sampled(rate=10 / 40)
    assert tuned.cost(SCHEMA, 1.3) == written


def test_recorded_calls_cost_the_charge_of_both_phases() -> None:
    tuned = learner(frozen=3)
    recorded = accounting.epsilon(spent(record(tuned, rows(8), 1.0).calls), 1e-5)
    assert recorded == pytest.approx(accounting.epsilon(tuned.cost(SCHEMA, 1.0), 1e-5), rel=1e-6)
    assert recorded > accounting.epsilon(HeadForFree(**_fields(tuned)).cost(SCHEMA, 1.0), 1e-5)


class HeadForFree(Finetune):
    """Planted bug: the first phase is not charged."""

    def cost(self, schema: Schema, noise: float) -> Event:
        return self._descent(schema, noise).cost(noise)


def _fields(tuned: Finetune) -> dict[str, Any]:
    return {name: getattr(tuned, name) for name in ("prior", "head_steps", "steps", "batch", "frozen")}


class LabelsInTheHead(Finetune):
    """Planted bug: the output layer's bias starts at the share of a class."""

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        model = super().run(data, noise, rng)
        bias = model.tensors["output.bias"] + np.float32(data.y.mean())
        return replace(model, tensors=model.tensors | {"output.bias": bias})


def test_replay_on_a_neighbour_finds_a_planted_bug() -> None:
    data, tuned = rows(6), learner(frozen=3, steps=1)
    neighbour = data.take(np.arange(5))
    assert max(replay(tuned, data, neighbour, 1.0).ratios.values()) <= 1.0
    with pytest.raises(BrokenPromise, match="the release differs"):
        replay(LabelsInTheHead(**_fields(tuned)), data, neighbour, 1.0)


def test_second_phase_starts_from_the_head_of_the_first() -> None:
    data, tuned = rows(), learner(steps=1, lr=1e-9, head_steps=30, prior={"mirror": False})
    head = tuned._head().run(data, QUIET, Rng(seed=0))
    model = tuned.run(data, QUIET, Rng(seed=0))
    assert model.outputs(data.x) == pytest.approx(head.outputs(data.x), rel=1e-3, abs=1e-2)
    assert (model.predictions(data) == data.y).mean() > 0.9


def test_second_phase_lowers_the_loss_of_the_first() -> None:
    data, tuned = rows(), learner(steps=8, lr=1.0, head_steps=1, frozen=0, copies=2, average=0.5)
    head = tuned._head().run(data, QUIET, Rng(seed=0))
    losses = [
        -np.log(model.probabilities(data)[np.arange(24), data.y]).mean()
        for model in (head, tuned.run(data, QUIET, Rng(seed=0)))
    ]
    assert losses[1] < 0.7 * losses[0]


@pytest.mark.parametrize(("frozen", "kept"), [(None, 1), (0, 0), (3, 3)])
def test_first_blocks_keep_the_weights_of_the_prior(frozen: int | None, kept: int) -> None:
    tuned = learner(frozen=frozen)
    before = Prior(**tiny_prior()).network_tensors()  # type: ignore[arg-type]
    after = tuned.run(rows(), 1.0, Rng(seed=0)).tensors
    for block in range(3):
        names = [name for name in before if name.startswith(f"blocks.{block}.") and name.endswith("weight")]
        assert names
        assert all(np.array_equal(before[name], after[name]) == (block < kept) for name in names)
    assert np.array_equal(before["stem.weight"], after["stem.weight"]) == (kept > 0)
    assert np.array_equal(before["whitened.matrix0"], after["whitened.matrix0"])


def test_head_has_a_rate_of_its_own() -> None:
    data, tuned = rows(), learner(steps=1, frozen=3, average=1.0)
    still, slow, fast = (
        replace(tuned, head_rate=rate).run(data, 1.0, Rng(seed=0)).tensors["output.weight"] for rate in (0.0, 0.5, 1.0)
    )
    assert np.array_equal(still, tuned._head().run(data, tuned.share, Rng(seed=0)).tensors["output.weight"])
    assert 2 * (slow - still) == pytest.approx(fast - still, abs=1e-4)
    assert np.abs(fast - still).max() > 1e-3


def test_training_continues_from_a_model_without_a_second_head() -> None:
    tuned = learner(steps=4)
    half = tuned.truncated(SCHEMA, 0.5)
    first = half.run(rows(), 1.0, Rng(seed=0))
    rest = tuned.truncated(SCHEMA, 0.5, initial=first)
    assert half.steps == rest.steps == 2
    assert rest.cost(SCHEMA, 1.0) == 2 * Gaussian(noise=1.0).sampled(rate=0.5)
    still = replace(rest, lr=1e-9, average=0.25).run(rows(), QUIET, Rng(seed=1))
    assert still.outputs(rows().x) == pytest.approx(first.outputs(rows().x), abs=1e-4)


def test_progress_counts_the_steps_of_the_second_phase() -> None:
    steps: list[tuple[int, int]] = []
    learner(steps=3, progress=lambda step, total, left: steps.append((step, total))).run(rows(), 1.0, Rng(seed=0))
    assert steps == [(1, 3), (2, 3), (3, 3)]


def test_learning_rate_falls_with_noise_and_rises_with_batch() -> None:
    tuned = Finetune()
    assert tuned.learning_rate(1.969) == pytest.approx(4.27, abs=0.01)
    assert tuned.learning_rate(4.412) == pytest.approx(1.90, abs=0.01)
    assert tuned.learning_rate(0.1) == 5.0
    assert replace(tuned, batch=2048).learning_rate(4.412) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"frozen": 4}, "frozen as at most 3 blocks"),
        ({"prior": {"scatter": 1.0}}, "only whitened maps can be trained"),
        ({"prior": {"depths": [0], "pools": [2]}}, "that end with 2, the last block"),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_the_charge(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongInput, match=message):
        learner(**settings).cost(SCHEMA, 1.0)


def test_tables_and_wrong_fields_are_refused() -> None:
    table = Schema(columns=(Column(name="c", low=0, high=1),), classes=("a", "b"), rows=50)
    with pytest.raises(WrongInput, match="expected images"):
        learner().cost(table, 1.0)
    for wrong in ({"steps": 0}, {"share": 0.0}, {"prior": "small"}, {"precision": "int8"}, {"copies": 0}):
        with pytest.raises(WrongInput, match="finetune: expected"):
            learner(**wrong) if "prior" not in wrong else Finetune(**wrong)


def test_model_is_fitted_saved_and_loaded(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert", reason="the report of a model needs vl-convert-python")
    data = rows(32)
    np.savez(tmp_path / "images.npz", x=data.x, y=np.array(["dark", "light"])[data.y])
    result = fit(
        tmp_path / "images.npz",
        epsilon=200.0,
        accept_schema=True,
        learner="finetune",
        settings={"prior": tiny_prior(), "steps": 2, "head_steps": 20, "share": 2.0},
        out=tmp_path / "model",
        seed=1,
    )
    again = load(tmp_path / "model")
    assert again.architecture["name"] == "multi_depth"
    assert models.parse(again.architecture).describe() == again.architecture
    assert again.outputs(data.x) == pytest.approx(result.model.outputs(data.x), abs=1e-5)
    assert again.outputs(data.x[..., ::-1].copy()) == pytest.approx(again.outputs(data.x), abs=1e-3)  # mirrored


@pytest.mark.slow
def test_shipped_weights_are_fine_tuned() -> None:
    data = rows(12)
    model = Finetune(prior={"network": "glyphs"}, steps=1, batch=20, head_steps=20).run(data, QUIET, Rng(seed=0))
    assert (model.predictions(data) == data.y).mean() > 0.9


def test_killed_run_resumes_with_the_same_head_and_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(step: int, steps: int, left: float, *what: str) -> None:
        if steps == 6 and step >= 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "is_due", lambda self, step, steps: step % 2 == 0)
    tuned = learner(steps=6, journal=tmp_path / "run")
    whole = replace(tuned, journal=None).run(rows(), 1.0, Rng(seed=1))
    with pytest.raises(KeyboardInterrupt):
        replace(tuned, progress=kill).run(rows(), 1.0, Rng(seed=1))
    assert (tmp_path / "run" / "training.safetensors").stat().st_mode & 0o077 == 0
    heads: list[object] = []
    monkeypatch.setattr(Finetune, "_head", lambda self: heads.append(self))
    resumed = tuned.run(rows(), 1.0, Rng(seed=2))
    assert not heads
    assert all(np.array_equal(resumed.tensors[name], value) for name, value in whole.tensors.items())
