"""Populations of a sweep: scored as their released models would be, grouped so that none is cut again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from privaware.descent._widths import together
from privaware.noise import Rng
from privaware.studies import _watch
from privaware.studies._population import grouped, module, recipe
from privaware.studies._trials import Rows, Setting, Trial, made_up
from privaware.studies._watch import Watch, scorer

FCN = {"name": "fcn", "inputs": 5, "hidden": [16, 8], "outputs": 2, "dropout": 0.5}
CNN = {"name": "cnn", "inputs": [1, 12, 12], "filters": [4], "hidden": [8], "outputs": 2}
ONE = Setting(architecture=FCN, batch=60, steps=12, lr=1.0, noise=0.5)


def trials(setting: Setting, count: int = 3) -> list[Trial]:
    return [Trial(curve="", x=0, seed=seed, setting=setting) for seed in range(count)]


def images() -> Rows:
    x = np.random.default_rng(0).normal(size=(200, 1, 12, 12)).astype(np.float32)
    y = (x.mean((1, 2, 3)) > 0).astype(np.int64)
    return Rows(name="images", x=x, y=y, tested=x, truth=y, public=True)


def numbers() -> Rows:
    rows = made_up()
    y = (rows.x[:, 0] > 0).astype(np.float32) * 0.5
    return replace(rows, y=y, truth=y)


CASES: dict[str, tuple[Setting, Rows]] = {
    "dropout": (ONE, made_up()),
    "average": (replace(ONE, average=0.5), made_up()),
    "frozen": (replace(ONE, trainable=(False, True, True)), made_up()),
    "convolutions": (replace(ONE, architecture=CNN), images()),
    "numbers": (replace(ONE, architecture={**FCN, "outputs": 1}), numbers()),
    "linear": (replace(ONE, architecture={"name": "linear", "inputs": 5, "outputs": 2}), made_up()),
}


def alone(network: Any, rows: Rows) -> float:
    with torch.no_grad():
        outputs = network.eval()(torch.from_numpy(rows.tested))
    truth = torch.from_numpy(rows.truth)
    if rows.classes:
        return float((outputs.argmax(1) == truth).double().mean())
    return 1 - float((outputs[:, 0].clamp(0, 1).double() - truth.double()).abs().mean())


def stepped(setting: Setting, rows: Rows, every: int) -> tuple[Watch, list[Any]]:
    watch = Watch("", every, scorer(torch.from_numpy(rows.tested), torch.from_numpy(rows.truth)))
    trained = recipe(setting, rows, "cpu").run_population(
        [module(trial) for trial in trials(setting)],
        torch.from_numpy(rows.x),
        torch.from_numpy(rows.y),
        noise=[0.5] * 3,
        rows=len(rows.x),
        rng=Rng(seed=1),
        checkpoint=watch,
    )
    return watch, trained


@pytest.mark.parametrize("case", CASES)
def test_models_scored_together_score_as_each_does_alone(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_watch, "AT_ONCE", 70)  # several parts, the last of them smaller
    setting, rows = CASES[case]
    watch, trained = stepped(setting, rows, every=5)
    assert [step for step, _ in watch.seen] == [5, 10, 12]
    assert watch.seen[-1][1] == pytest.approx([alone(net, rows) for net in trained], abs=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_looking_on_the_way_does_not_change_where_a_model_ends(case: str) -> None:
    setting, rows = CASES[case]
    (_, often), (_, once) = (stepped(setting, rows, every) for every in (1, 12))
    for one, other in zip(often, once, strict=True):
        assert all(map(torch.equal, one.parameters(), other.parameters()))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_no_group_is_cut_again_when_it_is_stepped(device: str) -> None:
    """A watch follows one stack; how many of each width there are must not matter."""
    drawn = np.random.default_rng(0)
    todo = {}
    for at in range(60):
        widths = [int(width) for width in drawn.choice([4, 64, 1024, 4096], size=drawn.integers(1, 3))]
        net = {**FCN, "hidden": widths}
        trainable = None if at % 3 else (False, *[True] * len(widths))
        setting = replace(ONE, architecture=net, trainable=trainable, noise=float(at % 2))
        todo[str(at)] = Trial(curve="", x=0, seed=at, setting=setting)
    groups = list(grouped(todo, device))
    assert sorted(key for group in groups for key in group) == sorted(todo)
    for group in groups:
        assert len({todo[key].setting.recipe for key in group}) == 1
        assert len(together([module(todo[key]) for key in group], device)) == 1


def test_another_precision_is_another_recipe_and_another_trial() -> None:
    short = replace(ONE, precision="tf32")
    assert short.recipe != ONE.recipe
    [one], [other] = trials(ONE, 1), trials(short, 1)
    assert one.key(made_up(), None) != other.key(made_up(), None)
    assert recipe(short, made_up(), "cpu").precision == "tf32"
