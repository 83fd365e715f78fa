"""ALIBI: the posterior of a label, and learning from noisy labels by softmax regression and by networks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.learners.alibi import Alibi, evidence, posterior
from privaware.metrics import accuracy
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import Recorder, rows_for

TABLE = Schema(
    columns=(Column(name="a", low=-1, high=1), Column(name="b", low=-1, high=1)),
    classes=("n", "y"),
    rows=2000,
    unit="label",
)
NETWORK = {"name": "fcn", "hidden": [16], "activation": "tanh", "dropout": 0.0}


def separable(rows: int = 2000) -> Data:
    data = rows_for(TABLE, rows, seed=1)
    return replace(data, y=(data.x[:, 0] > data.x[:, 1]).astype(np.int64))


def ring(rows: int = 2000) -> Data:
    """Inside against outside a circle: no linear model does it."""
    data = rows_for(TABLE, rows, seed=1)
    return replace(data, y=((data.x**2).sum(1) > 0.6).astype(np.int64))


def test_posterior_of_alibi_has_the_right_limits() -> None:
    noisy, prior = np.array([[1.3, -0.4, 0.1]]), np.array([[0.2, 0.5, 0.3]])
    assert posterior(prior, evidence(noisy, 1e-3)) == pytest.approx(np.array([[1.0, 0, 0]]), abs=1e-9)
    assert posterior(prior, evidence(noisy, 1e9)) == pytest.approx(prior, abs=1e-6)


def test_posterior_is_that_of_the_laplace_density() -> None:
    """All entries of a noisy vector, by Bayes' rule, as the paper has it."""
    rng = np.random.default_rng(0)
    noisy, prior, scale = rng.normal(size=(50, 4)), rng.dirichlet(np.ones(4), size=50), 0.7
    distance = np.abs(noisy[:, None] - np.eye(4)).sum(axis=2)
    expected = prior * np.exp(-distance / scale)
    assert posterior(prior, evidence(noisy, scale)) == pytest.approx(expected / expected.sum(1, keepdims=True))


def test_evidence_between_two_labels_is_at_most_epsilon() -> None:
    epsilon = 1.7
    noisy = np.random.default_rng(0).normal(scale=5, size=(1000, 3))
    support = evidence(noisy, 2 / epsilon)
    assert np.ptp(support, axis=1).max() == pytest.approx(epsilon)


@pytest.mark.parametrize(("epsilon", "kept"), [(1, 0.1637), (2, 0.2573), (4, 0.4989), (8, 0.8558)])
def test_largest_entry_is_the_true_class_as_often_as_stated(epsilon: float, kept: float) -> None:
    exact_labels = np.repeat(np.eye(10)[:1], 40_000, axis=0)
    noisy = Rng(seed=0).laplace(exact_labels, noise=1 / epsilon, sensitivity=2.0)
    assert (noisy.argmax(axis=1) == 0).mean() == pytest.approx(kept, abs=0.01)


@pytest.mark.parametrize("epsilon", [0.5, 8.0, 2000.0])
def test_price_is_one_laplace_release_of_sensitivity_two(epsilon: float) -> None:
    assert accounting.epsilon(Alibi().cost(TABLE, 1 / epsilon), 1e-9) == pytest.approx(epsilon, rel=1e-6)
    rng = Recorder(0)
    Alibi(steps=2, architecture=NETWORK).run(separable(40), 1 / epsilon, rng)
    assert [(call.kind, call.public["sensitivity"]) for call in rng.calls] == [("laplace", 2.0)]


def test_alibi_beats_a_constant() -> None:
    data = separable()
    model = Alibi().run(data, 0.5, Rng(seed=0))
    assert accuracy(data.y, model.predictions(data)) > 0.85


def test_network_learns_what_a_softmax_regression_cannot() -> None:
    data = ring()
    network, regression = (learner.run(data, 0.25, Rng(seed=0)) for learner in (Alibi(architecture=NETWORK), Alibi()))
    assert network.architecture["name"] == "fcn"
    assert regression.architecture["name"] == "linear"
    assert accuracy(data.y, network.predictions(data)) > 0.85
    assert accuracy(data.y, network.predictions(data)) > accuracy(data.y, regression.predictions(data)) + 0.1


@pytest.mark.parametrize("architecture", [None, NETWORK])
def test_large_epsilon_learns_from_true_labels(
    architecture: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The posterior is the true label, and the noisy model predicts as one without noise does."""
    data = ring(400)
    noisy = Rng(seed=0).laplace(np.eye(2)[data.y], noise=1e-3, sensitivity=2.0)
    prior = np.where(np.eye(2)[data.y] == 1, 1e-6, 1 - 1e-6)  # a model that is sure of the wrong class
    assert posterior(prior, evidence(noisy, 2e-3)) == pytest.approx(np.eye(2)[data.y], abs=1e-9)
    learner = Alibi(architecture=architecture)
    models = [learner.run(data, noise, Rng(seed=0)) for noise in (1e-3, 1e-9)]
    first, second = (model.predictions(data) for model in models)
    assert (first == second).mean() > 0.99


@pytest.mark.parametrize("architecture", [None, NETWORK])
def test_uniform_prior_learns_from_the_likelihood_alone(architecture: dict[str, Any] | None) -> None:
    """With much noise a model that is its own prior may stay what it was; the likelihood alone still says something."""
    data = separable()
    model = Alibi(architecture=architecture, prior="uniform").run(data, 1.0, Rng(seed=0))
    assert accuracy(data.y, model.predictions(data)) > 0.8
    with pytest.raises(WrongInput, match="expected prior among model, uniform"):
        Alibi(prior="class")


def test_default_is_network_for_images_and_softmax_for_tables() -> None:
    image = Schema(form="image", shape=(1, 6, 6), classes=("n", "y"), rows=40, unit="label")
    assert Alibi(steps=1).run(rows_for(image, 20), 1.0, Rng(seed=0)).architecture["name"] == "simple_cnn"
    assert Alibi(steps=1).run(rows_for(TABLE, 20), 1.0, Rng(seed=0)).architecture["name"] == "linear"
    linear = Alibi(steps=1, architecture={"name": "linear"}).run(rows_for(image, 20), 1.0, Rng(seed=0))
    assert linear.architecture["name"] == "linear"


def test_noise_of_labels_is_drawn_once_a_run() -> None:
    """What a run sees of labels is one noisy vector each, however many steps it takes, and another run draws anew."""
    tapes = []
    for steps, seed in ((1, 3), (7, 3), (7, 4)):
        rng = Recorder(seed)
        Alibi(steps=steps, architecture=NETWORK).run(separable(40), 1.0, rng)
        tapes.append(rng.calls)
    assert [len(tape) for tape in tapes] == [1, 1, 1]
    assert np.array_equal(tapes[0][0].returned, tapes[1][0].returned)
    assert not np.array_equal(tapes[1][0].returned, tapes[2][0].returned)
    assert math.isfinite(float(tapes[0][0].returned.sum()))
