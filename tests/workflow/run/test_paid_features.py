"""Normalisation and principal components that are paid for inside a training: price, contract, plan, refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from privaware import accounting, features, fit, load
from privaware.data import Data
from privaware.datasets import schema as facts_of
from privaware.errors import WrongInput
from privaware.events import Gaussian, leaves
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import BrokenPromise, check_mechanism, example, rows_for
from privaware.workflow._recipe import Recipe
from privaware.workflow.run.paid_features import PaidFeatures, described_features
from privaware.workflow.run.training_plan import recipe_plan
from privaware.workflow.run.trainings import training_mechanism

TABLE = example(rows=24)
IMAGE = example("image", rows=24)
TEXT = example("text", rows=24)
BUDGET = {"epsilon": 2.0, "delta": 1e-5}


def training(schema: Schema, *named: Any, learner: str = "linear", **settings: Any) -> Any:
    described = {"features": described_features(list(named)), **settings}
    return training_mechanism(learner, described, {}, schema)


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        (TABLE, ("normalise",)),
        (TABLE, ({"name": "pca", "components": 2},)),
        (IMAGE, ("normalise", {"name": "pca", "components": 3})),
        (TEXT, ({"name": "hashed", "slots": 16, "words": 1, "letters": 3, "stems": 4}, "weigh")),
    ],
    ids=["normalised table", "components of a table", "images, both", "weighed text"],
)
def test_training_on_paid_features_keeps_the_contract(schema: Schema, named: Any) -> None:
    check_mechanism(training(schema, *named, steps=2), schema=schema, games=6)


@dataclass(frozen=True, kw_only=True)
class FeaturesForNothing(PaidFeatures):
    """Planted: the feature is released with a tenth of the noise that is charged."""

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        shares = tuple(share / 10 for share in self.shares)
        return PaidFeatures(described=self.described, build=self.build, shares=shares).run(data, noise, rng)


def test_feature_with_less_noise_than_was_paid_is_caught() -> None:
    paid = training(TABLE, "normalise", steps=2)
    planted = FeaturesForNothing(described=paid.described, build=paid.build, shares=paid.shares)
    with pytest.raises(BrokenPromise):
        check_mechanism(planted, schema=TABLE, games=0)


def test_price_is_that_of_releases_and_a_feature_takes_a_tenth() -> None:
    plan = recipe_plan(
        facts_of("wisconsin"), Recipe.of(learner="linear", settings={"features": ["normalise", "pca"]}), BUDGET
    )
    names = [what for what, _ in plan.parts]
    assert names == ["release means and deviations of features", "release principal components", "train linear"]
    noise = plan.noise
    squares = 100 / noise**2
    share = np.sqrt(9) / np.sqrt(100)
    by_hand = (
        2 * Gaussian(noise=noise * share * np.sqrt(2)) + Gaussian(noise=noise * share) + 100 * Gaussian(noise=noise)
    )
    assert plan.epsilon == pytest.approx(accounting.epsilon(by_hand, 1e-5), rel=1e-6)
    first, second = (sum(count / leaf.noise**2 for leaf, count in leaves(event)) for _, event in plan.parts[:2])
    assert first == pytest.approx(second)
    assert first / (first + squares) == pytest.approx(0.1)
    assert plan.epsilon == pytest.approx(2.0, rel=1e-3)


def test_model_holds_the_released_features_and_predicts(tmp_path: Any) -> None:
    released = fit(
        "wisconsin", epsilon=3.0, features=["normalise", {"name": "pca", "components": 4}], seed=1, out=tmp_path / "m"
    )
    assert released.learner == "linear"
    names = [features.describe(feature)["name"] for feature in load(tmp_path / "m").features]
    assert names == ["onehot", "standardise", "project", "bounded"]
    assert released.internal["test_score"] is not None
    assert released.internal["test_score"] > 0.8


@pytest.mark.parametrize("learner", ["dpsgd", "dp_adam"])
def test_networks_take_paid_features_too(learner: str) -> None:
    mechanism = training(IMAGE, "normalise", {"name": "pca", "components": 3}, learner=learner, steps=2)
    model = mechanism.run(rows_for(IMAGE, 24), 1.0, Rng(seed=1))
    assert model.architecture["inputs"] == 3


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"learner": "boosted", "features": ["pca"]}, "a learner that takes features"),
        ({"features": [{"name": "pca", "components": 0}]}, "components"),
        ({"features": [{"name": "pca", "private": False}]}, "no setting 'private'"),
        ({"features": ["pcaa"]}, "a feature named one of"),
        ({"features": ["pca"], "settings": {"features": ["pca"]}}, "features once"),
        ({"features": [3]}, "names or tables"),
    ],
)
def test_wrong_features_are_refused_before_the_charge(changed: Mapping[str, Any], words: str, tmp_path: Any) -> None:
    with pytest.raises(WrongInput, match=words):
        fit("wisconsin", **{"epsilon": 1.0, "out": tmp_path / "m", "learner": "linear"} | changed)
    assert not (tmp_path / "m").exists()


def test_projected_row_depends_on_no_other_row() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(301, 50)).astype(np.float32)
    matrix, _ = np.linalg.qr(rng.normal(size=(50, 7)))
    project = features.build({"name": "project", "matrix": matrix.tolist(), "norm": 1.0})
    together = project(rows)
    for count in (1, 2, 7, 64):
        assert np.array_equal(project(rows[-count:]), together[-count:])


def test_undeclared_bounds_are_bought_before_paid_features() -> None:
    schema = Schema(columns=tuple(Column(name=name) for name in "abc"), classes=("no", "yes"), rows=500)
    plan = recipe_plan(schema, Recipe.of(learner="linear", settings={"features": ["pca"]}), BUDGET)
    assert [what for what, _ in plan.parts] == ["release bounds", "release principal components", "train linear"]
