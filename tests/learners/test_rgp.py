"""What training on low-rank reparametrised weights promises beyond the contract."""

from __future__ import annotations

import numpy as np
import pytest

from privaware import accounting, models
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.learners.dpsgd import DpSgd
from privaware.learners.rgp import Rgp
from privaware.metrics import accuracy
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import Recorder, rows_for
from privaware.testing._price import spent
from tests.learners.mnist_subset import mnist

TABLE = Schema(columns=tuple(Column(name=name, low=-1, high=1) for name in "abcd"), classes=("n", "y"), rows=200)
WIDE = {"name": "fcn", "hidden": [16, 16]}
NETWORKS = ("simple_cnn.grey.170958", "resnet20.grey.268058", "inception.grey.1609114", "vgg.grey.128806154")


def table() -> Data:
    return rows_for(TABLE, 200, seed=1)


def test_a_step_costs_what_a_step_of_dpsgd_costs() -> None:
    """One jointly clipped vector is released, so nothing is charged twice."""
    shared = {"steps": 5, "batch": 20, "architecture": WIDE}
    assert Rgp(rank=2, **shared).cost(TABLE, 1.3) == DpSgd(**shared).cost(TABLE, 1.3)


@pytest.mark.parametrize("clip", ["flat", "automatic", "quantile"])
def test_cost_equals_the_recorded_calls(clip: str) -> None:
    learner = Rgp(steps=4, batch=20, rank=2, architecture=WIDE, clip=clip)
    recorder = Recorder(seed=1)
    learner.run(table(), 2.0, recorder)
    epsilon = accounting.epsilon(spent(recorder.calls), 1e-5)
    assert epsilon == pytest.approx(accounting.epsilon(learner.cost(TABLE, 2.0), 1e-5), rel=1e-6)
    released = [call.exact.shape[1] for call in recorder.calls if call.kind == "gaussian"]
    parameters = models.count(models.parse(learner._architecture(TABLE)))
    assert set(released) == {_carriers() + (clip == "quantile")}
    assert _carriers() < parameters


def _carriers() -> int:
    """Of weights 16 x 4, 16 x 16 (two factors of rank 2 each) and 2 x 16, and of their biases."""
    return 2 * (16 + 4) + 16 + 2 * (16 + 16) + 16 + 2 * 16 + 2


def test_clips_without_a_joint_vector_are_refused_by_cost() -> None:
    with pytest.raises(WrongInput, match="expected clip"):
        Rgp(clip="per_layer", architecture=WIDE).cost(TABLE, 1.0)


def test_a_population_is_trained_as_models_of_their_own() -> None:
    learners = [Rgp(steps=3, batch=20, rank=2, architecture=WIDE, lr=lr) for lr in (1.0, 2.0)]
    trained = Rgp.run_population(learners, table(), 1.0, Rng(seed=2))
    outputs = [model.outputs(table().x) for model in trained]
    assert all(np.isfinite(values).all() for values in outputs)
    assert not np.allclose(*outputs)


def test_mnist_is_learnt_at_epsilon_eight() -> None:
    train, test = mnist(3000)
    learner = Rgp(steps=40, batch=300, architecture={"name": "fcn", "hidden": [32]})
    noise = accounting.calibrate(lambda noise: learner.cost(train.schema, noise), 8.0, 1e-5)
    scores = [accuracy(test.y, learner.run(train, noise, Rng(seed)).predictions(test)) for seed in range(3)]
    assert np.mean(scores) > 0.5  # always the most frequent digit: 0.11


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS[:3])
def test_the_networks_of_dpmlbench_take_a_step(name: str) -> None:
    schema = Schema(form="image", shape=(1, 32, 32), classes=tuple("0123456789"), rows=64)
    described = models.named()[f"dpmlbench.{name}"].description
    learner = Rgp(steps=1, batch=8, architecture={"name": described["name"]})
    model = learner.run(rows_for(schema, 64), 1.0, Rng(seed=0))
    assert np.isfinite(model.outputs(rows_for(schema, 2).x)).all()
