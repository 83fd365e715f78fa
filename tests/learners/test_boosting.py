"""Boosting: exact sums, tight sensitivities, and models that predict what training computed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Gaussian
from privaware.features.codes import Codes
from privaware.learners._leaf_sums import SECOND_WEIGHT, Gradients, random_splits
from privaware.learners.additive import Additive
from privaware.learners.boosted import Boosted
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for

COLUMNS = (
    Column(name="age", low=0, high=90, bins=(30, 60), missing="category"),
    Column(name="score", low=-1, high=1),
    Column(name="job", kind="category", categories=("a", "b", "c"), unseen="other"),
)
TWO = Schema(columns=COLUMNS, classes=("no", "yes"), rows=200)
THREE = replace(TWO, classes=("a", "b", "c"))
NUMBER = Schema(columns=COLUMNS, low=-2, high=5, rows=200)


def gradients(data: Data, reach: float = 0.5) -> Gradients:
    feature = Codes(numbers=True)
    return Gradients(data, feature(data.x, data.schema), feature.levels(data.schema), reach)


@pytest.mark.parametrize("schema", [TWO, THREE, NUMBER], ids=["two classes", "three classes", "regression"])
def test_sums_are_exact_in_any_order_and_one_row_keeps_its_bound(schema: Schema) -> None:
    data, rng = rows_for(schema, 200, seed=5), np.random.default_rng(1)
    order = rng.permutation(200)
    sums = gradients(data)
    weights = rng.normal(size=(sums.width, sums.outputs))
    columns, right = random_splits(schema, sums.levels, (1, 3), rng)
    moved, fewer = gradients(data.take(order)), gradients(data.take(np.arange(200) != 17))
    bounds = {"levels": sums.length * math.sqrt(6), "leaves": math.hypot(sums.length, SECOND_WEIGHT)}
    released = []
    for each in (sums, moved, fewer):
        each.add_scores(weights)
        leaf_sums = each.leaf_sums(each.leaf(columns[0], right[0]), 8)
        released.append({"levels": each.level_sums(weights), "leaves": leaf_sums})
    for name, bound in bounds.items():
        assert np.array_equal(released[0][name], released[1][name])
        assert 0 < np.linalg.norm(released[0][name] - released[2][name]) <= bound


@pytest.mark.parametrize("far", [-60.0, 60.0])
def test_sensitivity_of_a_leaf_is_nearly_reached(far: float) -> None:
    data = rows_for(TWO, 1, seed=5)
    one = gradients(replace(data, y=np.array([int(far < 0)])))
    one.values[:] = far
    assert np.linalg.norm(one.leaf_sums(np.zeros(1, np.int64), 8)) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("schema", [TWO, THREE, NUMBER], ids=["two classes", "three classes", "regression"])
def test_model_predicts_what_training_computed(schema: Schema) -> None:
    data = rows_for(schema, 200, seed=5)
    model = Boosted(trees=70, steps=5, share=0.5).run(data, noise=0.1, rng=Rng(seed=1))
    tensors, inputs = model.tensors, Codes(numbers=True)(data.x, schema)
    codes = inputs.astype(int)
    starts = np.cumsum([0, *Codes().levels(schema)[:-1]])
    expected = tensors["bias"].astype(float) + inputs[:, 3:] @ tensors["slopes"]
    for row in range(200):
        for at, start in enumerate(starts):
            expected[row] += tensors["scores"][start + codes[row, at]]
        for tree in range(70):
            leaf = 0
            for split in range(3):
                leaf = 2 * leaf + int(tensors["right"][tree, split, codes[row, tensors["columns"][tree, split]]])
            expected[row] += tensors["leaves"][tree, leaf]
    assert model.outputs(data.x) == pytest.approx(expected, abs=1e-4)


def test_all_releases_together_are_one_gaussian_of_the_noise() -> None:
    for learner in (Boosted(), Boosted(share=0.3), Boosted(steps=0), Additive()):
        event = learner.cost(NUMBER, 3.0)
        assert accounting.epsilon(event, 1e-5) == pytest.approx(accounting.epsilon(Gaussian(noise=3.0), 1e-5), rel=1e-6)


def test_interactions_are_learnt_where_an_additive_model_cannot() -> None:
    """The target is a column plus the product of two others."""
    columns = tuple(Column(name=name, low=-1, high=1) for name in "abc")
    schema = Schema(columns=columns, low=-2, high=2, rows=2000)
    x = np.random.default_rng(0).uniform(-1, 1, (3000, 3))
    y = x[:, 0] + np.sign(x[:, 1]) * np.sign(x[:, 2])
    data, test = Data(schema=schema, x=x[:2000], y=y[:2000]), Data(schema=schema, x=x[2000:], y=y[2000:])
    scores = {}
    for learner in (Boosted(), Additive()):
        noise = accounting.calibrate(lambda noise, learner=learner: learner.cost(schema, noise), 8.0, 1e-5)
        errors = learner.run(data, noise, Rng(seed=1)).predictions(test) - test.y
        scores[type(learner)] = 1 - np.mean(errors**2) / np.var(test.y)
    assert scores[Additive] > 0.15
    assert scores[Boosted] > scores[Additive] + 0.3


def test_settings_that_learn_nothing_are_refused() -> None:
    with pytest.raises(WrongInput, match="at least one step or one tree"):
        Boosted(steps=0, trees=0)
    with pytest.raises(WrongInput, match="a table with columns"):
        Boosted().cost(Schema(form="image", shape=(1, 3, 3), classes=("no", "yes"), rows=40), 1.0)
    with pytest.raises(WrongInput, match="low and high"):
        Boosted().cost(Schema(columns=(Column(name="c"),), classes=("a", "b"), rows=5), 1.0)
