"""What training in a subspace of public gradients promises beyond the contract."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from privaware import accounting, datasets
from privaware.accounting import _rdp
from privaware.data import Data
from privaware.descent._anchor_subspace import AnchorSubspace
from privaware.errors import WrongInput
from privaware.events import Gaussian
from privaware.learners.dpsgd import DpSgd
from privaware.learners.gep import Gep
from privaware.metrics import accuracy
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import Recorder, replay, rows_for
from privaware.testing._price import spent
from tests.learners.mnist_subset import mnist

TABLE = Schema(columns=tuple(Column(name=name, low=-1, high=1) for name in "abcd"), classes=("n", "y"), rows=200)
NUMBER = replace(TABLE, classes=(), low=-2, high=5)
SMALL = {"name": "fcn", "hidden": [6]}


def table(schema: Schema = TABLE, rows: int = 200, seed: int = 1) -> Data:
    return rows_for(schema, rows, seed=seed)


def learner(schema: Schema = TABLE, **changes: object) -> Gep:
    settings = {"steps": 4, "batch": 20, "directions": 6, "architecture": SMALL, "public": table(schema, 12, 3)}
    return Gep(**{**settings, **changes})


@pytest.mark.parametrize(("deviation", "classic", "true"), [(2.084, True, 8.65), (1.942, False, 8.79)])
def test_price_is_that_of_two_releases_on_one_sample(deviation: float, classic: bool, true: float) -> None:
    """Twice the price of one part, as the authors' code has it, is that of two independent samples: 8 is too low.

    Each part has noise of `deviation` times its norm; rates and steps are those of the paper.
    """
    event = learner(steps=10_000, batch=1000).cost(replace(TABLE, rows=50_000), deviation / math.sqrt(2))
    assert event == 10_000 * Gaussian(noise=deviation / math.sqrt(2)).sampled(rate=0.02)
    orders = [1 + at / 10 for at in range(10, 100)]
    one, joint = (
        10_000 * np.array([_rdp.sampled_gaussian(0.02, noise, order) for order in orders])
        for noise in (deviation, deviation / math.sqrt(2))
    )
    assert _rdp.convert(orders, joint, 1e-5, classic=classic) == pytest.approx(true, abs=0.01)
    assert _rdp.convert(orders, 2 * one, 1e-5, classic=classic) == pytest.approx(8.0, abs=0.01)


@pytest.mark.parametrize("residual", [0.4, 0.0])
def test_cost_equals_the_recorded_calls(residual: float) -> None:
    gep, recorder = learner(residual=residual), Recorder(seed=1)
    gep.run(table(), 2.0, recorder)
    epsilon = accounting.epsilon(spent(recorder.calls), 1e-5)
    assert epsilon == pytest.approx(accounting.epsilon(gep.cost(TABLE, 2.0), 1e-5), rel=1e-6)
    assert gep.cost(TABLE, 2.0) == DpSgd(steps=4, batch=20, architecture=SMALL).cost(TABLE, 2.0)


@pytest.mark.parametrize("kind", ["biased", "regression", "one row in every block"])
def test_a_row_moves_no_release_by_more_than_its_sensitivity(kind: str) -> None:
    schema = NUMBER if kind == "regression" else TABLE
    changes = {"biased": {"residual": 0.0}, "regression": {}, "one row in every block": {"blocks": 9}}[kind]
    rows = table(schema, 8)
    for seed in range(3):
        run = replay(learner(schema, **changes), rows, rows.take(np.arange(7)), 1.0, seed=seed)
        assert 0.1 < max(run.ratios.values()) <= 1


def test_every_row_is_sampled_on_its_own() -> None:
    """Poisson samples, not passes over the rows in a fixed order."""
    recorder = Recorder(seed=1, inside=None)
    learner(steps=30).run(table(), 2.0, recorder)
    sizes = [int(call.exact.sum()) for call in recorder.calls if call.kind == "poisson"]
    assert len(sizes) == 30
    assert len(set(sizes)) > 5


def test_public_rows_are_no_training_or_test_rows() -> None:
    if datasets.source("mnist").folder() is None:
        pytest.skip("the files of mnist are not here: set PRIVAWARE_DATA to a folder that holds them")
    loaded = datasets.load("mnist", public=True)
    assert loaded.public is not None
    assert len(loaded.public) >= Gep().anchors
    seen = {row.tobytes() for part in (loaded.train, loaded.test) for row in part.x}
    repeated = sum(row.tobytes() in seen for row in loaded.public.x)
    assert repeated < 10  # a few images of MNIST are there twice


def test_without_public_rows_nothing_is_trained() -> None:
    with pytest.raises(WrongInput, match="expected public rows"):
        learner(public=None).run(table(), 1.0, Rng(seed=0))
    with pytest.raises(WrongInput, match="expected at least one public row"):
        learner(public=table(rows=0))


def test_a_population_is_trained_as_models_of_their_own() -> None:
    public = table(rows=12, seed=3)
    learners = [learner(lr=lr, norm=norm, public=public) for lr, norm in ((1.0, 0.1), (2.0, 0.1), (1.0, 0.5))]
    trained = Gep.run_population(learners, table(), [1.0, 2.0, 1.0], Rng(seed=2))
    outputs = [model.outputs(table().x) for model in trained]
    assert all(np.isfinite(values).all() for values in outputs)
    assert not any(np.allclose(outputs[at], outputs[at - 1]) for at in range(3))


def test_only_the_anchors_are_read() -> None:
    public = table(rows=40, seed=5)
    changed = replace(public, x=np.concatenate([public.x[:12], -public.x[12:]]))
    outputs = [
        learner(public=rows, anchors=12).run(table(), 1.0, Rng(seed=0)).outputs(table().x) for rows in (public, changed)
    ]
    assert np.array_equal(*outputs)


@pytest.mark.parametrize(
    ("name", "directions", "device", "fits"),
    [
        ("resnet", 1000, "cpu", True),
        ("inception", 1000, "cpu", True),
        ("vgg", 1000, "cuda", False),
        ("vgg", 50, "cuda", True),
        ("vgg", 50, "cpu", False),
    ],
)
def test_a_basis_that_is_too_large_is_refused_by_cost(name: str, directions: int, device: str, fits: bool) -> None:
    schema = Schema(form="image", shape=(1, 32, 32), classes=tuple("0123456789"), rows=30_000)
    gep = Gep(architecture={"name": name}, batch=256, directions=directions, device=device)
    if fits:
        gep.cost(schema, 1.0)
    else:
        with pytest.raises(WrongInput, match="expected a basis of at most"):
            gep.cost(schema, 1.0)


@pytest.mark.slow
def test_mnist_is_learnt_at_epsilon_eight() -> None:
    train, test = mnist(3000)
    public = datasets.load("mnist").train.take(np.arange(50_000, 50_200))
    settings = {"steps": 40, "batch": 300, "directions": 40, "blocks": 1, "public": public}
    pooled = [{"name": "max_pool"}, {"name": "standardise", "mean": [0.5], "deviation": [0.25]}]
    gep = Gep(**settings, features=pooled, architecture={**SMALL, "hidden": [32]})
    noise = accounting.calibrate(lambda noise: gep.cost(train.schema, noise), 8.0, 1e-5)
    assert (
        accuracy(test.y, gep.run(train, noise, Rng(0)).predictions(test)) > 0.5
    )  # always the most frequent digit: 0.11


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simple_cnn", "resnet", "inception"])
def test_the_networks_of_dpmlbench_take_a_step(name: str) -> None:
    schema = Schema(form="image", shape=(1, 32, 32), classes=tuple("0123456789"), rows=64)
    gep = Gep(steps=1, batch=8, directions=20, architecture={"name": name}, public=rows_for(schema, 8, seed=1))
    model = gep.run(rows_for(schema, 64), 1.0, Rng(seed=0))
    assert np.isfinite(model.outputs(rows_for(schema, 2).x)).all()


def test_p56_bases_do_not_tell_how_many_microbatches_rows_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every release is the same here, so the subspaces of public rows must be the same for any number of rows."""

    class Fixed(Rng):
        def gaussian(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
            return torch.full_like(exact, 0.01)

    bases: list[Any] = []
    refresh = AnchorSubspace.refresh

    def seen(self: AnchorSubspace, loss: Any, step: int) -> None:
        refresh(self, loss, step)
        bases.append(torch.cat([basis.flatten() for basis in self.tensors.values()]))

    monkeypatch.setattr(AnchorSubspace, "refresh", seen)
    gep = learner(steps=3, batch=200, refresh=1, architecture={"name": "fcn", "hidden": [6], "dropout": 0.2})
    for rows in (200, 150, 199, 201, 401):
        gep.run(table(rows=rows), 1.0, Fixed(seed=7))
    by_run = [torch.stack(bases[at : at + 3]) for at in range(0, len(bases), 3)]
    assert len(by_run) == 5
    assert all(torch.equal(by_run[0], other) for other in by_run[1:])
