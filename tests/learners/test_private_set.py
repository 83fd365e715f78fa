"""PrivSet: its price, its synthetic rows, and the defects of public code that it does not have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from privaware import accounting, features, models
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import leaves
from privaware.learners._networks.condensation import matching_loss
from privaware.learners.majority import Majority
from privaware.learners.private_set import PrivateSet
from privaware.metrics import accuracy
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import Recorder, rows_for
from privaware.testing._price import spent
from tests.learners.mnist_subset import mnist

TABLE = Schema(
    columns=(Column(name="a", low=-1, high=1), Column(name="b", low=-1, high=1)), classes=("n", "y"), rows=60
)
LAYER = {"name": "fcn", "hidden": [6], "activation": "tanh", "dropout": 0.0}
ROUNDS: dict[str, Any] = {"per_class": 2, "networks": 2, "rounds": 3, "queries": 2, "inner": 2, "example_lr": 0.1}
SMALL = PrivateSet(**ROUNDS, private_batch=20, matching=LAYER, architecture=LAYER, epochs=5)
MNIST = Schema(form="image", shape=(1, 28, 28), classes=tuple("0123456789"), rows=60_000)


def separable() -> Data:
    data = rows_for(TABLE, 60, seed=1)
    return replace(data, y=(data.x[:, 0] > data.x[:, 1]).astype(np.int64))


def test_defaults_are_those_of_the_benchmark() -> None:
    learner = PrivateSet()
    assert (learner.per_class, learner.lr, learner.batch, learner.epochs) == (10, 0.01, 10, 300)
    assert (learner.norm, learner.private_batch, learner.queries) == (0.1, 256, 10)
    published = {1: (1, 10_000), 10: (10, 100_000), 20: (20, 200_000), 50: (50, 500_000)}
    for per_class, (rounds, queries) in published.items():
        plan = PrivateSet(per_class=per_class)._condensation(MNIST)
        assert (plan.rounds, plan.steps, plan.lr) == (rounds, queries, 0.1)
        assert plan.inner * plan.rounds == 500
    network = models.build(PrivateSet()._matching(MNIST), device="meta")
    norms = [layer for layer in network.modules() if isinstance(layer, torch.nn.GroupNorm)]
    assert [(layer.num_groups, layer.num_channels) for layer in norms] == [(128, 128)] * 3  # instance norm


def test_precision_is_that_of_the_noisy_gradients() -> None:
    assert PrivateSet()._recipe(MNIST).precision == "float32"
    assert PrivateSet(precision="tf32")._recipe(MNIST).precision == "tf32"


def test_few_rows_of_small_images_are_matched_in_little_time() -> None:
    """The published plan asks for 100,000 gradients of 300,000 weights; on 1,400 images of 8 x 8 it takes days."""
    digits = replace(MNIST, shape=(1, 8, 8), rows=1437)
    plan, network = PrivateSet()._condensation(digits), models.count(PrivateSet()._matching(digits))
    assert plan.steps * network < 1e-3 * 100_000 * models.count(PrivateSet()._matching(MNIST))
    assert plan.lr == pytest.approx(0.1 * (1000 / plan.networks) ** 0.5)


def test_every_query_is_charged_and_none_is_asked_beyond() -> None:
    """Public code runs one network more than it charges."""
    recorder = Recorder(seed=1)
    SMALL.run(separable(), 2.0, recorder)
    asked = sum(call.kind == "gaussian" for call in recorder.calls)
    [(_, charged)] = list(leaves(SMALL.cost(TABLE, 2.0)))
    assert asked == charged == 2 * 3 * 2
    epsilon = accounting.epsilon(spent(recorder.calls), 1e-5)
    assert epsilon == pytest.approx(accounting.epsilon(SMALL.cost(TABLE, 2.0), 1e-5), rel=1e-6)


def test_accountants_agree_on_price_of_published_settings() -> None:
    bounds = accounting.bounds(PrivateSet().cost(MNIST, 5.0), 1e-5)
    assert bounds["cf"] == pytest.approx(bounds["pld"], rel=5e-3)
    assert 0.9 * bounds["rdp"] < bounds["pld"] < bounds["rdp"]


def test_synthetic_labels_are_balanced_whatever_the_rows_are() -> None:
    """No class histogram is read."""
    one_class = replace(separable(), y=np.zeros(60, np.int64))
    for data in (one_class, separable(), separable().take(np.arange(0))):
        rows, labels = SMALL.condense(data, 1.0, Rng(seed=0))
        assert labels.tolist() == [0, 0, 1, 1]
        assert rows.shape == (4, rows.shape[1])
        assert np.isfinite(rows).all()


def test_without_noise_and_clipping_it_is_gradient_matching() -> None:
    learner = replace(SMALL, norm=1e9, private_batch=60, networks=1)
    data = separable()
    rows, labels = learner.condense(data, 0.0, Rng(seed=3))
    assert np.abs(rows - _plain_matching(learner, data, labels, Rng(seed=3))).max() < 1e-3
    other, _ = learner.condense(replace(data, y=1 - data.y), 0.0, Rng(seed=3))
    assert np.abs(rows - other).max() > 0.01


def _plain_matching(learner: PrivateSet, data: Data, labels: np.ndarray, rng: Rng) -> np.ndarray:
    """The algorithm step by step, with the exact mean gradient of all rows."""
    inputs, targets = torch.from_numpy(learner._rows(data)), torch.from_numpy(data.y)
    described = learner._matching(TABLE)
    models.build(described, rng.initial)  # the network that queries are prepared with
    rng.initial.integers(2**63)  # the seed of dropout
    start = rng.initial.standard_normal((len(labels), inputs.shape[1])).astype(np.float32)
    examples, goals = torch.from_numpy(start).requires_grad_(), torch.from_numpy(labels)
    velocity = torch.zeros_like(examples)
    network = models.build(described, rng.initial)
    parameters = list(network.parameters())
    for turn in range(3):
        for _ in range(learner.queries):
            private = torch.autograd.grad(functional.cross_entropy(network(inputs), targets), parameters)
            loss = functional.cross_entropy(network(examples), goals)
            own = torch.autograd.grad(loss, parameters, create_graph=True)
            (move,) = torch.autograd.grad(matching_loss(own, private), [examples])
            velocity = 0.5 * velocity + move
            examples = (examples.detach() - 0.1 * velocity).requires_grad_()
        for _ in range(learner._condensation(TABLE).inner if turn < 2 else 0):
            moves = torch.autograd.grad(functional.cross_entropy(network(examples.detach()), goals), parameters)
            with torch.no_grad():
                for parameter, step in zip(parameters, moves, strict=True):
                    parameter.sub_(0.01 * step)
    return examples.detach().numpy()


def test_synthetic_and_raw_rows_are_on_one_scale() -> None:
    """Public code trains on normalised synthetic images and tests on raw ones."""
    learner = replace(SMALL, epochs=300, networks=20, rounds=1, queries=5, per_class=5)
    data = separable()
    model = learner.run(data, 1e-6, Rng(seed=5))
    behind = features.apply(model.features, data.x, TABLE)
    assert np.array_equal(model.outputs(data.x), model.network_outputs(behind))
    assert np.array_equal(behind, learner._rows(data))  # what gradients were computed on
    assert accuracy(data.y, model.predictions(data)) > 0.8


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 3, 3), (3, 8, 9)])
def test_default_network_exists_for_images_of_any_size(shape: tuple[int, int, int]) -> None:
    schema = Schema(form="image", shape=shape, classes=("n", "y"), rows=40)
    learner = PrivateSet(per_class=1, networks=1, queries=1, epochs=1)
    rows, _ = learner.condense(rows_for(schema, 12), 1.0, Rng(seed=0))
    assert rows.shape == (2, *shape)
    assert np.isfinite(rows).all()


def test_unusable_settings_are_refused_before_a_charge() -> None:
    for wrong in (
        {"queries": True},
        {"per_class": 0},
        {"networks": 1.5},
        {"norm": 0.0},
        {"matching": "convnet"},
        {"precision": "half"},
    ):
        with pytest.raises(WrongInput, match="private_set: expected"):
            PrivateSet(**wrong)
    with pytest.raises(WrongInput, match="expected an architecture"):
        replace(SMALL, matching={"name": "fcn", "hidden": [4], "outputs": 7}).cost(TABLE, 1.0)


CONVOLUTION = {"name": "simple_cnn", "filters": [16], "hidden": [], "groups": 16, "pooling": "average"}
TINY = PrivateSet(
    per_class=1,
    networks=6,
    example_lr=5.0,
    matching=CONVOLUTION,
    architecture=CONVOLUTION,
    features=[{"name": "max_pool", "size": 4}, {"name": "standardise", "mean": [0.5], "deviation": [0.25]}],
    epochs=100,
    lr=0.05,
)


def test_mnist_accuracy_beats_the_constant_at_epsilon_eight() -> None:
    train, test = mnist(2000)
    noise = accounting.calibrate(lambda noise: TINY.cost(train.schema, noise), 8.0, 1e-5)
    scores = [accuracy(test.y, TINY.run(train, noise, Rng(seed=seed)).predictions(test)) for seed in range(3)]
    constant = accuracy(test.y, Majority().run(train, 0.125, Rng(seed=0)).predictions(test))
    assert np.mean(scores) > constant + 0.2
