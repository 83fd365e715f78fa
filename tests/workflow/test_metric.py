"""What `--metric` changes of a plan: from public facts only, said in its lines, and better by that metric."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware import fit
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.metrics import auc
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.workflow._metric import ABSOLUTE, expect_metric, task_reasons
from privaware.workflow._recipe import Recipe
from privaware.workflow.run.plan import Plan
from privaware.workflow.run.training_plan import recipe_plan

COLUMNS = tuple(Column(name=name, low=0, high=1) for name in "abc")
NUMBERS = Schema(columns=COLUMNS, low=0.0, high=400.0, rows=2500)
CLASSES = Schema(columns=COLUMNS, classes=("no", "yes"), rows=150)


def plan(schema: Schema, metric: str | None, epsilon: float = 1.0, **fixed: Any) -> Plan:
    return recipe_plan(schema, Recipe(metric=metric, **fixed), {"epsilon": epsilon, "delta": 1e-6})


def skewed(schema: Schema, seed: int) -> Data:
    rng = np.random.default_rng(seed)
    x = rng.random((schema.rows, len(COLUMNS)))
    return Data(schema=schema, x=x, y=np.clip(8 * x[:, 0] + rng.lognormal(1.5, 1.6, schema.rows), 0, 400))


@pytest.mark.parametrize("learner", ["linear", "boosted"])
def test_mae_has_a_smaller_absolute_error_on_skewed_targets(learner: str) -> None:
    errors = {}
    small = {"boosted": {"trees": 20, "steps": 40}}.get(learner, {})
    for metric in ("r2", "mae"):
        chosen = plan(NUMBERS, metric, learner=learner, settings=small, target_range=learner == "linear")
        model = chosen.mechanism.run(skewed(NUMBERS, 0), chosen.noise, Rng(seed=1))
        test = skewed(NUMBERS, 1)
        errors[metric] = np.abs(model.predictions(test) - test.y).mean()
    assert errors["mae"] < 0.9 * errors["r2"]


def test_mae_takes_the_median_where_rows_are_few() -> None:
    few = replace(NUMBERS, rows=40)
    assert (plan(few, "mae").learner, plan(few, "r2").learner, plan(few, None).learner) == ("median", "mean", "mean")
    assert plan(replace(few, columns=()), "mae").learner == "median"


def test_mae_is_said_and_what_a_person_sets_stays() -> None:
    chosen = plan(NUMBERS, "mae", settings={"residual_clip": 0.7}, learner="boosted")
    assert chosen.settings == {**ABSOLUTE["boosted"], "residual_clip": 0.7}
    assert any(reason.startswith("Metric mae: residuals are clipped") for reason in chosen.reasons)
    assert plan(NUMBERS, "r2").settings == plan(NUMBERS, None).settings
    assert "adassp does not optimise it" in plan(NUMBERS, "mae", learner="adassp").reasons[-1]


def test_auc_tries_a_model_where_accuracy_takes_the_constant() -> None:
    assert plan(CLASSES, "accuracy", epsilon=0.2).learner == "majority"
    chosen = plan(CLASSES, "auc", epsilon=0.2)
    assert chosen.learner == "linear"
    assert any(reason.startswith("Metric auc: noise alone scores 0.5") for reason in chosen.reasons)
    scores = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = rng.random((CLASSES.rows, len(COLUMNS)))
        data = Data(schema=CLASSES, x=x, y=(x[:, 0] + 0.3 * rng.random(len(x)) > 0.65).astype(np.int64))
        chances = chosen.mechanism.run(data, chosen.noise, Rng(seed)).probabilities(data)[:, 1]
        scores.append(auc(chances[data.y == 1], chances[data.y == 0]))
    assert np.mean(scores) > 0.55


@pytest.mark.parametrize(("metric", "by"), [("r2", "absolute error")])
def test_a_search_says_by_what_candidates_are_compared(metric: str, by: str) -> None:
    chosen = plan(NUMBERS, metric, search="rs", search_settings={"trials": 3})
    assert f"Metric {metric}: the search compares candidates by {by}." in chosen.reasons


def test_a_saved_plan_keeps_its_metric() -> None:
    recipe = Recipe.of(metric="mae")
    assert Recipe.of(recipe.json()).metric == "mae"
    assert Recipe.of(recipe.json(), metric="r2").metric == "r2"


@pytest.mark.parametrize(
    ("metric", "task", "classes", "match"),
    [
        ("mae", "classification", 2, "accuracy or auc"),
        ("auc", "regression", 0, "r2 or mae"),
        ("auc", "classification", 3, "two"),
    ],
)
def test_a_metric_that_the_task_does_not_have_is_refused(metric: str, task: str, classes: int, match: str) -> None:
    with pytest.raises(WrongInput, match=match):
        expect_metric(metric, task, classes)


def test_few_whole_numbers_say_their_task_and_the_other(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("age,visits\n" + "".join(f"{at % 60},{at % 4}\n" for at in range(300)))
    options: dict[str, Any] = {"target": "visits", "epsilon": 1.0, "learner": "majority", "dry_run": True}
    words = "Task: classification, because visits has only 4 different values"
    assert any(words in line and "task='regression'" in line for line in fit(path, **options).plan)
    assert not any(words in line for line in fit(path, **options, task="classification").plan)


def test_two_numbers_and_words_say_no_task() -> None:
    assert task_reasons(Schema(classes=("0", "1"), rows=9), declared=False) == ()
    assert task_reasons(Schema(classes=("a", "b", "1"), rows=9), declared=False) == ()
