"""Scores during training equal those of the released models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from privaware.descent import Callbacks, members
from privaware.noise import Rng
from research.studies import _scoring
from research.studies._population import descent_for, module
from research.studies._scoring import ScoreRecorder, scorer
from research.studies._trials import Rows, Setting, synthetic_examples
from tests.research.studies.examples import FCN, NETWORK, trials

CNN = {"name": "cnn", "inputs": [1, 12, 12], "filters": [4], "hidden": [8], "outputs": 2}


def images() -> Rows:
    x = np.random.default_rng(0).normal(size=(200, 1, 12, 12)).astype(np.float32)
    y = (x.mean((1, 2, 3)) > 0).astype(np.int64)
    return Rows(name="images", x=x, y=y, x_test=x, y_test=y, public=True)


def numbers() -> Rows:
    rows = synthetic_examples()
    y = (rows.x[:, 0] > 0).astype(np.float32) * 0.5
    return replace(rows, y=y, y_test=y)


CASES: dict[str, tuple[Setting, Rows]] = {
    "dropout": (NETWORK, synthetic_examples()),
    "average": (replace(NETWORK, average=0.5), synthetic_examples()),
    "frozen": (replace(NETWORK, trainable=(False, True, True)), synthetic_examples()),
    "convolutions": (replace(NETWORK, architecture=CNN), images()),
    "numbers": (replace(NETWORK, architecture={**FCN, "outputs": 1}), numbers()),
    "linear": (replace(NETWORK, architecture={"name": "linear", "inputs": 5, "outputs": 2}), synthetic_examples()),
}


def alone(network: Any, rows: Rows) -> float:
    with torch.no_grad():
        outputs = network.eval()(torch.from_numpy(rows.x_test))
    y_test = torch.from_numpy(rows.y_test)
    if rows.classes:
        return float((outputs.argmax(1) == y_test).double().mean())
    return 1 - float((outputs[:, 0].clamp(0, 1).double() - y_test.double()).abs().mean())


def stepped(setting: Setting, rows: Rows, every: int) -> tuple[ScoreRecorder, list[Any]]:
    recorder = ScoreRecorder(every, scorer(torch.from_numpy(rows.x_test), torch.from_numpy(rows.y_test)))
    trained = descent_for(setting, rows, "cpu").run_population(
        members([module(trial) for trial in trials(3, setting)], noise=[0.5] * 3),
        torch.from_numpy(rows.x),
        torch.from_numpy(rows.y),
        rows=len(rows.x),
        rng=Rng(seed=1),
        callbacks=Callbacks(on_step=[recorder]),
    )
    return recorder, trained


@pytest.mark.parametrize("case", CASES)
def test_scores_of_a_population_equal_those_of_released_models(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_scoring, "EXAMPLES", 70)  # several parts, the last of them smaller
    setting, rows = CASES[case]
    recorder, trained = stepped(setting, rows, every=5)
    assert [step for step, _ in recorder.records] == [5, 10, 12]
    assert recorder.records[-1][1] == pytest.approx([alone(net, rows) for net in trained], abs=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_scoring_during_training_does_not_change_the_result(case: str) -> None:
    setting, rows = CASES[case]
    (_, often), (_, once) = (stepped(setting, rows, every) for every in (1, 12))
    for one, other in zip(often, once, strict=True):
        assert all(map(torch.equal, one.parameters(), other.parameters()))
