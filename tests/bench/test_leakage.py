"""Attacks on the models of a benchmark: one AUC for each attack and model, with shadow models where they need some."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privaware.attacks import _attack_network
from privaware.bench._leakage import _shadow_learner, attack_results
from privaware.bench._rows import BenchRows
from privaware.data import Data
from privaware.learners.dpsgd import DpSgd
from privaware.learners.linear import Linear
from privaware.learners.majority import Majority
from privaware.learners.pate import Pate
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for

COLUMNS = tuple(Column(name=name, low=-1, high=1) for name in "abcdef")
SCHEMA = Schema(columns=COLUMNS, classes=("no", "yes"), rows=60)
NETWORK = {"name": "fcn", "hidden": [64], "dropout": 0.0}
LEARNER = DpSgd(steps=300, batch=60, lr=0.5, norm=1e6, architecture=NETWORK)
CELL: dict[str, Any] = {"attacks": ["threshold", "black_box"], "shadows": 1}


def part(seed: int, rows: int = 60) -> Data:
    """Rows with random labels, which a model can only learn by heart."""
    data = rows_for(SCHEMA, rows, seed=seed)
    return replace(data, y=np.random.default_rng(seed).integers(2, size=rows))


ROWS = BenchRows(train=part(1), test=part(2), shadow_train=part(3), shadow_test=part(4))


def test_memorising_model_leaks_and_ignorant_model_does_not() -> None:
    heart = LEARNER.run(ROWS.train, 0.0, Rng(seed=0))
    nothing = replace(LEARNER, steps=1, lr=1e-6).run(ROWS.train, 0.0, Rng(seed=0))
    found = attack_results({0: heart, 3: nothing}, ROWS, CELL, LEARNER, Rng(seed=1))
    assert set(found) == {0, 3}
    assert found[0]["auc threshold"] > 0.7 > 0.62 > found[3]["auc threshold"] >= 0.5
    assert 0.5 <= found[0]["auc black_box"] <= 1


def test_all_models_of_a_network_have_one_attacker(monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[int] = []
    fit = _attack_network._fit

    def counted(network: Any, parts: Any, generator: Any, lr: float, batch: int, epochs: int) -> None:
        trained.append(batch)
        fit(network, parts, generator, lr, batch, epochs)

    monkeypatch.setattr(_attack_network, "_fit", counted)
    attacks = [{"name": "black_box", "epochs": 2}, {"name": "black_box", "epochs": 2, "batch": 8}]
    cell = {**CELL, "attacks": attacks, "rows": {"dataset": "some"}}
    model, other = (LEARNER.run(ROWS.train, 0.0, Rng(seed=seed)) for seed in range(2))
    first = attack_results({0: model, 1: other}, ROWS, cell, LEARNER, Rng(seed=1))
    assert set(first[0]["attacks"]) == {"black_box epochs=2", "black_box epochs=2 batch=8"}
    assert trained == [64, 8]
    again = attack_results({5: model}, ROWS, cell, LEARNER, Rng(seed=2))
    assert trained == [64, 8]
    assert again[5]["auc black_box epochs=2"] == pytest.approx(first[0]["auc black_box epochs=2"])
    attack_results({5: model}, ROWS, {**cell, "shadow": {"lr": 0.1}}, LEARNER, Rng(seed=2))
    assert trained == [64, 8, 64, 8]  # shadow models of other settings are another attacker


def test_without_attacks_nothing_is_attacked() -> None:
    model = Majority().run(ROWS.train, 1.0, Rng(seed=0))
    assert attack_results({0: model}, ROWS, {"attacks": []}, Majority(), Rng(seed=1)) == {0: {}}


def test_shadow_network_is_the_cell_s_own_without_clipping() -> None:
    model = replace(LEARNER, steps=1).run(ROWS.train, 0.0, Rng(seed=0))
    shadow: Any = _shadow_learner(replace(LEARNER, norm=0.1), model)
    assert (shadow.architecture, shadow.steps, shadow.norm) == (NETWORK, 300, 1e9)
    assert _shadow_learner(LEARNER, model, {"lr": 0.25, "norm": 7.0}).norm == 7.0  # type: ignore[attr-defined]


def test_model_without_network_has_its_own_learner_as_shadow() -> None:
    assert _shadow_learner(Majority(), Majority().run(ROWS.train, 1.0, Rng(seed=0))) == Majority()


def test_shadow_of_linear_learner_is_trained_without_noise() -> None:
    learner = Linear(steps=2)  # it cannot be run without noise
    model = learner.run(ROWS.train, 1.0, Rng(seed=0))
    cell = {"attacks": [{"name": "white_box", "epochs": 1}], "shadows": 1, "shadow": {"steps": 2}}
    [result] = attack_results({0: model}, ROWS, cell, learner, Rng(seed=1)).values()
    assert "attack_failures" not in result


def test_shadow_has_the_network_that_the_attacked_model_has() -> None:
    learner = Pate(queries=20, teachers=2, public=part(5))  # without an architecture: ridge regressions
    model = learner.run(ROWS.train, 0.1, Rng(seed=0))
    shadow: Any = _shadow_learner(learner, model)
    assert shadow.architecture == model.architecture
    cell = {"attacks": [{"name": "white_box", "epochs": 1}], "shadows": 1, "shadow": {"steps": 2}}
    [result] = attack_results({0: model}, ROWS, cell, learner, Rng(seed=1)).values()
    assert "attack_failures" not in result


def test_failed_attack_stops_no_other() -> None:
    bare = replace(ROWS, shadow_train=None, shadow_test=None)
    model = Majority().run(ROWS.train, 1.0, Rng(seed=0))
    [result] = attack_results({0: model}, bare, CELL, Majority(), Rng(seed=1)).values()
    reason = 'its shadow models failed: expected protocol = "halves" for shadow models'
    assert result["attack_failures"]["black_box"].startswith(reason)
    assert result["auc threshold"] >= 0.5


def test_area_has_its_interval() -> None:
    model = LEARNER.run(ROWS.train, 0.0, Rng(seed=0))
    [result] = attack_results({0: model}, ROWS, {"attacks": ["threshold"]}, LEARNER, Rng(seed=1)).values()
    area, (low, high) = result["attacks"]["threshold"]["auc"], result["attacks"]["threshold"]["auc_interval"]
    assert low < area < high
    assert result["auc threshold"] == area
