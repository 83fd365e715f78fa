"""Our own items: linear heads and fine-tuning from the prior, printed epsilons, constants of convex learners."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware import accounting, datasets, features
from privaware.bench._store import Store, cell_key
from privaware.data import Data
from privaware.features.prior import Prior
from privaware.learners.amortised import Amortised
from privaware.learners.finetune import Finetune
from privaware.learners.linear import NAMED_LR_TIMES_NOISE, Linear
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for
from research import papers
from research.papers import _ours_accounting, _ours_convex, _ours_prior
from research.papers._ours_accounting import CLAIMS
from research.papers._prices import PaperPrices
from research.papers._runner import Bench, run

RESULTS = Path(__file__).parents[3] / "docs" / "results"


@pytest.mark.parametrize("page", ["accounting", "convex", "core", "prior"])
def test_every_stored_cell_is_a_run_of_its_item(page: str) -> None:
    runs = {cell_key(item.id, settings) for item in papers.matching("ours") for settings in item.runs}
    cells = Store(RESULTS / page / "cells.jsonl").read()
    by_hand = {"benchmarks/convex", "ours/prior/explored", "ours/prior/minutes"}
    assert {cell.item for key, cell in cells.items() if key not in runs} <= by_hand


def trained_head(x: np.ndarray, y: np.ndarray, lr: float, norm: float = 0.5, steps: int = 100) -> np.ndarray:
    """Full-batch clipped descent with momentum and the average of the second half, written out: a slow reference."""
    rows = np.hstack([x, np.full((len(x), 1), 0.1)])
    target = np.eye(10)[y]
    weights, speed, total = (np.zeros((10, rows.shape[1])) for _ in range(3))
    for step in range(steps):
        logits = rows @ weights.T
        error = np.exp(logits - logits.max(1, keepdims=True))
        error = error / error.sum(1, keepdims=True) - target
        size = np.linalg.norm(error, axis=1) * np.linalg.norm(rows, axis=1)
        error *= np.minimum(1, norm / size)[:, None]
        speed = 0.9 * speed + error.T @ rows / len(rows)
        weights = weights - lr * speed
        total += weights / (steps / 2) if step >= steps / 2 else 0
    return total


def test_head_without_noise_is_clipped_descent_written_out() -> None:
    schema = Schema(form="image", shape=(1, 3, 4), classes=tuple("0123456789"), rows=200)
    rng = np.random.default_rng(0)
    data = Data(schema=schema, x=rng.random((200, 1, 3, 4), dtype=np.float32), y=rng.integers(0, 10, 200))
    model = Linear(features=[{"name": "bounded"}], lr=4.0).run(data, 1e-9, Rng(seed=1))
    expected = trained_head(features.apply(model.features, data.x, schema), data.y, lr=4.0)
    # Rows, weights and errors lie on lattices of 12 and 10 bits.
    assert model.tensors["output.weight"] == pytest.approx(expected[:, :-1], abs=0.02)
    assert model.tensors["output.bias"] == pytest.approx(0.1 * expected[:, -1], abs=2e-3)
    noisy = Linear(features=[{"name": "bounded"}], lr=4.0).run(data, 1e4, Rng(seed=1))
    assert (noisy.predictions(data) == data.y).mean() < 0.5


def test_heads_have_the_noise_and_the_step_size_of_the_page() -> None:
    known = PaperPrices("ours").known
    assert known["head 100 1"] == pytest.approx(10 * 3.730631, rel=1e-3)
    assert known["head 250 1"] == pytest.approx(math.sqrt(250) * 3.730631, rel=1e-3)
    schema = Schema(form="image", shape=(1, 1, 20), classes=tuple("0123456789"), rows=60_000)
    for rows, noise in ((200, known["head 100 0.5"]), (60_000, known["head 100 1"]), (60_000, 3.0)):
        step = min(NAMED_LR_TIMES_NOISE * rows / (noise * 0.5 * math.sqrt(100)), 300.0)
        learner = Linear(features=[{"name": "bounded"}])
        assert learner.learning_rate(replace(schema, rows=rows), noise) == pytest.approx(step)


def test_heads_compute_features_once_for_all_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def rows(data: str, feature: Any, first: Any) -> tuple[Data, Data]:
        calls.append((data, feature.scatter))
        schema = Schema(form="image", shape=(1, 1, 10), classes=tuple("0123456789"), rows=60)
        y = np.arange(60) % 10
        return (part := Data(schema=schema, x=np.eye(10, dtype=np.float32)[y][:, None, None], y=y)), part

    monkeypatch.setattr(_ours_prior, "feature_rows", rows)
    cells = [{"data": "mnist", "scatter": 0.0, "steps": 100, "epsilon": epsilon, "seeds": 2} for epsilon in (0.5, 8.0)]
    low, high = _ours_prior.heads(Bench("ours"), cells)
    assert calls == [("mnist", 0.0)]
    assert len(high["scores"]) == 2
    assert low["score"] < high["score"]


def test_fine_tuning_has_calibrated_noise() -> None:
    known = PaperPrices("ours").known
    schema = datasets.schema("cifar10")
    for epsilon in (1.0, 3.0, 8.0):
        paid = accounting.epsilon(Finetune().cost(schema, known[f"finetune {epsilon:g}"]), 1e-5)
        assert 0.99 * epsilon < paid <= epsilon


@pytest.mark.slow
def test_pretraining_and_distillation_write_usable_prior_weights(tmp_path: Path) -> None:
    images = np.zeros((2, 3, 32, 32), np.float32)
    items = (
        ("weights", 3, "prior", "large"),
        ("small", 2, "prior_small", "small"),
        ("glyphs", 2, "prior_glyphs", "glyphs"),
    )
    for item, steps, file, network in items:
        [cell] = run(papers.find(f"ours/prior/{item}"), tmp_path, scale="quick")
        assert cell.result["steps"] == steps
        assert np.isfinite(Prior(network=network, weights=str(tmp_path / f"{file}.safetensors"))(images)).all()
        assert len((tmp_path / f"{file}.json").read_text()) > 100
    assert not list(tmp_path.glob("*state*"))


def test_pretraining_on_random_tables_writes_usable_weights(tmp_path: Path) -> None:
    [cell] = run(papers.find("ours/tables_prior/weights"), tmp_path, scale="quick")
    assert cell.result["steps"] == 2
    file = tmp_path / "amortised.safetensors"
    schema = Schema(columns=(Column(name="a", low=0, high=1),), classes=("n", "y"), rows=40)
    model = Amortised(weights=str(file)).run(rows_for(schema, 40), 1.0, Rng(seed=1))
    assert np.isfinite(model.tensors["scores"]).all()
    note = json.loads(file.with_suffix(".json").read_text())
    assert note["sha256"] == cell.result["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert note["recipe"]["width"] == 16


def test_stored_epsilons_are_what_the_accountants_say() -> None:
    cells = Store(RESULTS / "accounting" / "cells.jsonl").of("ours/accounting/epsilons")
    assert len(cells) == sum(map(len, CLAIMS.values()))
    [stored] = [cell for cell in cells if cell.settings["entry"] == "Table VI, FCN"]
    again = _ours_accounting.recomputed(Bench("ours"), stored.settings)
    assert again["epsilon"] == pytest.approx(stored.result["epsilon"], rel=1e-6)
    assert again["theirs"] == pytest.approx(0.341, abs=5e-4)


def test_wrong_constants_are_seen_by_a_game() -> None:
    right, wrong = (
        _ours_convex.constants(Bench("ours"), {"constants": name, "games": 4_000})
        for name in ("right", "half the noise")
    )
    assert right["exact"] == pytest.approx(1.0, abs=1e-3)
    assert right["played"] <= 1.0
    assert wrong["exact"] == pytest.approx(2.0, abs=1e-3)


def test_trying_lengths_leaves_the_constant_as_it_was() -> None:
    module = importlib.import_module("privaware.learners.output_perturbation")
    before = module.MAX_NOISE_NORM
    cell = {"learner": "output_perturbation", "data": "wisconsin", "epsilon": 1.0}
    assert len(_ours_convex.lengths(Bench("ours"), cell)["scores"]) == 5
    assert before == module.MAX_NOISE_NORM
