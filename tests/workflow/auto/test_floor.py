"""`auto` takes the private constant where rows and budget are too few, and is not worse than it elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from privaware import metrics
from privaware.data import Data
from privaware.events import Gaussian, Pure
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.workflow.auto import default_policy, share_for, strength
from privaware.workflow.auto._floor import Floor
from privaware.workflow.run.training_plan import training_plan

COLUMNS = tuple(Column(name=f"c{at}", low=-1.0, high=1.0) for at in range(6))
NUMBER = Schema(columns=COLUMNS, target="t", low=0.0, high=100.0, rows=1500)


def rows(schema: Schema, count: int, seed: int) -> Data:
    """A weak signal, far from the middle of the declared range of the target."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (count, len(schema.used)))
    y = np.clip(12 + 3 * x[:, 0] + 2 * x[:, 1] + 4 * rng.normal(size=count), 0, 100)
    return Data(schema=schema, x=x, y=y)


def test_strength_of_gaussians_is_that_of_one() -> None:
    assert strength(25 * Gaussian(noise=10.0), 1e-5) == pytest.approx(0.5)
    sampled = strength(25 * Gaussian(noise=10.0).sampled(rate=0.5), 1e-5)
    assert sampled < 0.5
    assert strength(Pure(epsilon=1.0), 1e-5) > strength(Pure(epsilon=0.1), 1e-5)


def test_share_gives_a_release_its_fraction_of_the_budget() -> None:
    share = share_for(100 * Gaussian(noise=1.0), 0.1)
    first, rest = strength(Gaussian(noise=share), 1e-5) ** 2, 100.0
    assert first / (first + rest) == pytest.approx(0.1)


def test_constant_is_taken_below_the_least_signal() -> None:
    assert training_plan(replace(NUMBER, rows=300), epsilon=0.1, delta=1e-5).learner == "mean"
    assert training_plan(NUMBER, epsilon=1.0, delta=1e-5).learner != "mean"
    two = replace(NUMBER, low=None, high=None, classes=("n", "y"))
    many = replace(two, classes=tuple("abcdefghijklmnopqrstuvwxyz"))
    assert training_plan(two, epsilon=0.3, delta=1e-5).learner != "majority"
    assert training_plan(many, epsilon=0.1, delta=1e-5).learner == "majority"
    least = default_policy().floor.least
    assert least(many) > least(two)


def test_policy_without_a_floor_of_tables_has_the_general_one() -> None:
    two = replace(NUMBER, low=None, high=None, classes=("n", "y"))
    assert Floor(classification=32, each_class=8).least(two) == 32


def test_few_rows_of_classes_train_linear() -> None:
    two = replace(NUMBER, low=None, high=None, classes=("n", "y"), rows=500)
    assert training_plan(two, epsilon=0.1, delta=1e-5).learner == "linear"
    assert training_plan(replace(two, rows=200), epsilon=0.1, delta=1e-5).learner == "majority"


def test_regression_that_checks_itself_needs_less_signal() -> None:
    bare = replace(NUMBER, rows=800).bare()
    assert training_plan(bare, epsilon=1.0, delta=1e-5).learner == "fourier"
    assert training_plan(replace(bare, rows=400), epsilon=1.0, delta=1e-5).learner == "linear"
    assert training_plan(replace(bare, rows=150), epsilon=1.0, delta=1e-5).learner == "mean"
    least = default_policy().floor.least
    assert least(bare, "linear") < least(bare, "boosted") < least(bare, "newton")


def test_regression_of_a_thousand_rows_is_trained_at_one_half() -> None:
    assert training_plan(replace(NUMBER, rows=1000), epsilon=0.5, delta=1e-5).learner == "fourier"
    assert training_plan(replace(NUMBER, rows=500), epsilon=0.5, delta=1e-5).learner == "linear"
    assert training_plan(replace(NUMBER, rows=200), epsilon=0.5, delta=1e-5).learner == "mean"


def test_bounds_that_are_paid_for_count_against_the_signal() -> None:
    wide = replace(NUMBER, columns=tuple(Column(name=f"c{at}", low=0, high=1) for at in range(60)))
    bare = replace(wide.bare(), low=0.0, high=100.0)
    declared, paid = (training_plan(facts, epsilon=1.0, delta=1e-5, learner="linear") for facts in (wide, bare))
    assert strength(paid.parts[-1][1], 1e-5) < 0.99 * strength(declared.parts[-1][1], 1e-5)


def mean_score(learner: str, epsilon: float) -> float:
    """R2 on other rows, over three seeds."""
    test = rows(NUMBER, 1000, seed=99)
    plan = training_plan(NUMBER, epsilon=epsilon, delta=1e-5, learner=learner)
    scores = []
    for seed in range(3):
        model = plan.mechanism.run(rows(NUMBER, 1500, seed), plan.noise, Rng(seed))
        scores.append(metrics.internal("regression", test.y, model.predictions(test))["test_score"] or 0.0)
    return float(np.mean(scores))


@pytest.mark.parametrize(("epsilon", "gain"), [(0.1, -0.01), (0.3, -0.01), (1.0, 0.05)])
def test_regression_is_not_worse_than_the_private_mean(epsilon: float, gain: float) -> None:
    assert mean_score("auto", epsilon) >= mean_score("mean", epsilon) + gain


def gains(schema: Schema, make: Callable[[np.random.Generator, int], Data], epsilon: float) -> list[float]:
    """The score of `auto` minus the score of the private constant, on other rows, for each of five seeds."""
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        train, test = make(rng, schema.rows), make(rng, 4000)
        scores = []
        for learner in ("auto", "majority" if schema.classes else "mean"):
            plan = training_plan(schema, epsilon=epsilon, delta=1e-5, learner=learner)
            predicted = plan.mechanism.run(train, plan.noise, Rng(seed)).predictions(test)
            scores.append(metrics.internal(schema.task, test.y, predicted)["test_score"] or 0.0)
        found.append(scores[0] - scores[1])
    return found


def test_small_regression_with_a_strong_column_is_learnt() -> None:
    schema = replace(NUMBER, rows=900)

    def make(rng: np.random.Generator, count: int) -> Data:
        x = rng.uniform(-1, 1, (count, 6))
        return Data(schema=schema, x=x, y=np.clip(50 + 35 * x[:, 0] + 5 * rng.normal(size=count), 0, 100))

    assert np.mean(gains(schema, make, 0.3)) > 0.5


def test_columns_that_tell_nothing_cost_a_small_table_little() -> None:
    columns = tuple(Column(name=f"c{at}", kind="category", categories=tuple("abc")) for at in range(9))
    schema = Schema(columns=columns, classes=("n", "y"), rows=770)

    def make(rng: np.random.Generator, count: int) -> Data:
        y = (rng.random(count) < 0.65).astype(int)
        return Data(schema=schema, x=rng.integers(0, 3, (count, 9)).astype(float), y=y)

    assert np.mean(gains(schema, make, 0.1)) > -0.035
