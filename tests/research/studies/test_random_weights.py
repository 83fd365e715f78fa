"""Random weights training."""

from __future__ import annotations

import pytest

from privaware.errors import WrongInput
from privaware.workflow._crossing import crossing
from research.studies._sweep import sweep
from research.studies._trials import Setting, synthetic_examples
from research.studies.random_weights import layers, random_weights
from tests.research.studies.examples import trials


def test_trainable_flags_must_match_layers() -> None:
    deep = {"name": "fcn", "inputs": 784, "hidden": [1024, 512, 64], "outputs": 10}
    assert sum(layers(deep)) == 1_362_122
    assert sum(layers(deep)[-2:]) == 33_482
    with pytest.raises(WrongInput, match="flags"):
        sweep(trials(1, trainable=(True, True, False)), synthetic_examples())
    with pytest.raises(WrongInput, match="flags"):
        sweep(trials(1, trainable=(False,)), synthetic_examples())


def test_full_training_wins_at_small_noise() -> None:
    deep = {"name": "fcn", "inputs": 5, "hidden": [64, 64, 64], "outputs": 2, "dropout": 0.0}
    rows = synthetic_examples(600)
    setting = Setting(architecture=deep, batch=200, steps=40, lr=0.2)
    study = random_weights(rows, setting, {0.1: 400.0, 1e3: 0.01}, last=1, repeats=4)
    _, frozen = study.table("last 1 layers")
    epsilons, full = study.table("all layers")
    assert study.parameters["last 1 layers"] == 130 < study.parameters["all layers"]
    assert full[:, 1].mean() > frozen[:, 1].mean() + 0.05
    assert study.crossover == crossing(epsilons, frozen, full)
    assert study.json()["crossover"]["sentence"] == study.crossover.sentence
