"""What learners share that train a network on targets that are private already."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privaware import accounting
from privaware.errors import WrongInput
from privaware.learners.alibi import Alibi
from privaware.learners.label_mst import LabelMst
from privaware.metrics import accuracy
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import Recorder, rows_for
from tests.learners.mnist_subset import mnist

TABLE = Schema(columns=(Column(name="a", low=-1, high=1),), classes=("n", "y"), rows=60, unit="label")
IMAGE = Schema(form="image", shape=(1, 6, 6), classes=("n", "y"), rows=60, unit="label")
SMALL = {"name": "fcn", "hidden": [4]}
DIGITS = {"name": "fcn", "hidden": [64], "activation": "relu"}


@pytest.mark.parametrize("make", [Alibi, LabelMst])
def test_mnist_is_learnt_at_epsilon_eight(make: Any) -> None:
    """The constant is right for one digit in ten; mean of three seeds, trained as one population."""
    train, test = mnist(1500, unit="label")
    learner = make(architecture=DIGITS, epochs=8)
    noise = accounting.calibrate(lambda noise: learner.cost(train.schema, noise), 8.0, 1e-5)
    models = make.run_population([learner] * 3, train, noise, Rng(seed=0))
    assert np.mean([accuracy(test.y, model.predictions(test)) for model in models]) > 0.7


@pytest.mark.parametrize("make", [Alibi, LabelMst])
def test_population_has_settings_and_noise_of_its_own(make: Any) -> None:
    """Networks of one setting go together, in the order asked for; each has a release of its own."""
    rows = rows_for(TABLE, 60)
    learners = [make(architecture=SMALL, steps=3), make(architecture=SMALL, steps=5), make(architecture=SMALL, steps=3)]
    rng = Recorder(0)
    first, second, third = make.run_population(learners, rows, [0.5, 1.0, 2.0], rng)
    releases = [call for call in rng.calls if not call.samples_rows]
    assert len(releases) == (3 if make is Alibi else 6)
    knobs = [1 / call.public["epsilon"] if call.kind == "respond" else call.public["noise"] for call in releases]
    assert sorted(knobs) == sorted([0.5, 1.0, 2.0] * (len(releases) // 3))
    weights = [model.tensors["output.weight"] for model in (first, second, third)]
    assert not np.array_equal(weights[0], weights[2])


@pytest.mark.parametrize("make", [Alibi, LabelMst])
def test_images_are_shifted_and_mirrored_where_asked(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    for name in ("shifted", "mirrored", "shifted_mirrored"):
        monkeypatch.setattr(
            f"privaware.learners._networks.plain_network.{name}",
            lambda images, _, name=name: seen.append(name) or images,
        )
    for settings in ({"shift": True}, {"mirror": True}, {"shift": True, "mirror": True}, {}):
        make(steps=1, architecture=SMALL, **settings).run(rows_for(IMAGE, 20), 1.0, Rng(seed=0))
    assert sorted(set(seen)) == ["mirrored", "shifted", "shifted_mirrored"]
    with pytest.raises(WrongInput, match="expected neither shift nor mirror"):
        make(architecture=SMALL, shift=True).cost(TABLE, 1.0)


@pytest.mark.parametrize("make", [Alibi, LabelMst])
@pytest.mark.parametrize(
    "wrong",
    [
        {"architecture": "fcn"},
        {"features": {}},
        {"steps": 0},
        {"epochs": 0},
        {"batch": 1.5},
        {"lr": 0},
        {"momentum": 1.0},
        {"mixup": -1},
    ],
)
def test_wrong_settings_are_refused(make: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(WrongInput, match=f"expected {next(iter(wrong))}"):
        make(**wrong)


@pytest.mark.parametrize("make", [Alibi, LabelMst])
def test_wrong_architecture_is_refused_before_a_charge(make: Any) -> None:
    with pytest.raises(WrongInput, match="outputs"):
        make(architecture={**SMALL, "outputs": 3}).cost(TABLE, 1.0)


def test_progress_goes_on_over_stages() -> None:
    steps: list[tuple[int, int]] = []
    learner = LabelMst(architecture=SMALL, steps=2, progress=lambda step, total, _: steps.append((step, total)))
    learner.run(rows_for(TABLE, 60), 1.0, Rng(seed=0))
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
