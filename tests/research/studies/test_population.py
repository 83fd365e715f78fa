"""Populations of a sweep: which trials are trained together, and their initial weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privaware.descent._layers.padded_population import stackable_groups
from privaware.errors import WrongInput
from research.studies._population import descent_for, module, populations
from research.studies._sweep import sweep
from research.studies._trials import Trial, synthetic_examples
from tests.research.studies.examples import FCN, NETWORK, ONE, trials


def test_glorot_initialisation_trains_a_deep_network() -> None:
    deep = {"name": "fcn", "inputs": 5, "hidden": [16] * 8, "outputs": 2, "dropout": 0.0}
    still = {"architecture": deep, "noise": 0.0, "norm": float("inf"), "steps": 60, "lr": 0.2}
    [plain] = sweep(trials(1, **still), synthetic_examples())
    [keras] = sweep(trials(1, **still, initial="glorot"), synthetic_examples())
    assert keras.score > max(plain.score, 0.8)
    with pytest.raises(WrongInput, match="glorot"):
        replace(ONE, initial="zeros")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_populations_fit_one_stack(device: str) -> None:
    """Scores are taken of one stack; how many of each width there are must not matter."""
    rng = np.random.default_rng(0)
    todo = {}
    for at in range(60):
        widths = [int(width) for width in rng.choice([4, 64, 1024, 4096], size=rng.integers(1, 3))]
        net = {**FCN, "hidden": widths}
        trainable = None if at % 3 else (False, *[True] * len(widths))
        setting = replace(NETWORK, architecture=net, trainable=trainable, noise=float(at % 2))
        todo[str(at)] = Trial(curve="", x=0, seed=at, setting=setting)
    groups = list(populations(todo, device))
    assert sorted(key for group in groups for key in group) == sorted(todo)
    for group in groups:
        assert len({todo[key].setting.recipe for key in group}) == 1
        assert len(stackable_groups([module(todo[key]) for key in group], device)) == 1


def test_precision_separates_populations_and_keys() -> None:
    short = replace(NETWORK, precision="tf32")
    assert short.recipe != NETWORK.recipe
    [one], [other] = trials(1, NETWORK), trials(1, short)
    assert one.key(synthetic_examples(), None) != other.key(synthetic_examples(), None)
    assert descent_for(short, synthetic_examples(), "cpu").precision == "tf32"
