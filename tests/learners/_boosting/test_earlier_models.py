"""Models that earlier versions of `boosted` wrote, and the outputs that they had then.

`earlier_models/people.csv` holds the rows. Each folder was written by `fit(people, target=..., epsilon=8, delta=1e-5,
schema=..., learner=..., settings=..., seed=7)`, and `outputs.json` holds the outputs for the first 40 rows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware import audit, fit, load
from privaware.errors import WrongInput
from privaware.model import read_tensors
from privaware.workflow._recipe import Recipe

EARLIER = Path(__file__).parent / "earlier_models"
OUTPUTS = json.loads((EARLIER / "outputs.json").read_text())


def people() -> pd.DataFrame:
    return pd.read_csv(EARLIER / "people.csv")


@pytest.mark.parametrize("name", OUTPUTS)
def test_earlier_model_predicts_as_when_it_was_written(name: str) -> None:
    model = load(EARLIER / name)
    rows = model.rows(people()[:40])
    assert model.outputs(rows.x) == pytest.approx(np.array(OUTPUTS[name]), abs=1e-6)


MODELS = pytest.mark.parametrize(
    ("name", "learner", "settings"), [("trees", "boosted", {"trees": 6}), ("waves", "fourier", {"count": 12})]
)


def trained_again(folder: Path, name: str, learner: str, settings: dict[str, Any], target: str) -> tuple[Any, Any]:
    """The model of the earlier version, and the model of today with the same settings, cost and seed."""
    earlier = load(EARLIER / f"{name}_{target}")
    rows = people().drop(columns={"buys": "price", "price": "buys"}[target])
    settings = {**settings, "steps": 10, "cells": 8}
    given: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-5, "schema": earlier.schema, "seed": 7}
    fit(rows, target=target, learner=learner, settings=settings, out=folder / "m", ledger=folder / "l", **given)
    return earlier, load(folder / "m")


@MODELS
def test_same_seed_gives_the_regression_of_the_earlier_version(
    tmp_path: Path, name: str, learner: str, settings: dict[str, Any]
) -> None:
    earlier, _ = trained_again(tmp_path, name, learner, settings, "price")
    tensors = read_tensors(tmp_path / "m")
    assert tensors.keys() == earlier.tensors.keys()
    for tensor, expected in earlier.tensors.items():
        assert tensors[tensor] == pytest.approx(expected, abs=1e-6), tensor


@pytest.mark.parametrize("target", ["buys", "price"])
@MODELS
def test_cost_is_the_cost_of_the_earlier_version(
    tmp_path: Path, name: str, learner: str, settings: dict[str, Any], target: str
) -> None:
    earlier, today = trained_again(tmp_path, name, learner, settings, target)
    (priced,), (before,) = today.card.events, earlier.card.events
    assert (priced.what, priced.event) == (f"train {learner}", before.event)
    assert priced.epsilon == pytest.approx(before.epsilon, rel=1e-12)


def test_former_settings_of_a_person_work_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="take learner fourier with count=64, share=0.5, skew_correction=0.1"):
        recipe = Recipe.of(learner="boosted", settings={"trees": 0, "waves": 64, "bend": 0.1})
    assert (recipe.learner, recipe.settings) == ("fourier", {"count": 64, "share": 0.5, "skew_correction": 0.1})


def test_former_settings_work_for_the_learner_that_auto_takes() -> None:
    with pytest.warns(DeprecationWarning, match="take learner auto with skew_correction=0.1"):
        recipe = Recipe.of(settings={"bend": 0.1})
    assert recipe.settings == {"skew_correction": 0.1}


@pytest.mark.parametrize("settings", [{"waves": 64}, {"trees": 5, "waves": 64}, {"pairs": 0.2}])
def test_settings_of_modes_that_are_gone_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(WrongInput, match="boosted: expected no setting"):
        Recipe.of(learner="boosted", settings=settings)


def test_earlier_model_with_random_features_can_be_audited() -> None:
    planned = audit(EARLIER / "waves_buys", attack="one_run", dry_run=True)
    assert planned.plan[0] == "Learner: fourier, as requested."
