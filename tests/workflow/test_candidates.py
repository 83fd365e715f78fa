"""A private search inside `fit`: its price, its space, its lines in the plan, and what is refused before the charge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware import accounting, fit, load, verify
from privaware.card import ModelCard
from privaware.errors import WrongInput
from privaware.events import Disjoint, Gaussian, Laplace, nested
from privaware.ledger import Ledger
from privaware.schema import Column, Schema
from privaware.strategies._search import Search, expect_valid_space
from privaware.strategies._strategy import TrialCount
from privaware.workflow._candidates import NO_SEARCH, search_settings
from privaware.workflow._recipe import Recipe
from privaware.workflow.auto import Choice
from privaware.workflow.run.training_plan import recipe_plan

ROWS = 600
BUDGET = {"epsilon": 3.0, "delta": 1e-5}
SPACE = {"learner": "linear", "choices": {"norm": [0.25, 0.5]}, "build": {"norm": "$norm", "steps": 2}}
LEARNERS = {
    "learner": "linear",
    "priced": ["learner"],
    "choices": {"learner": ["linear", "additive"]},
    "build": {"learner": "$learner", "steps": 3},
}
SCHEMA = Schema(
    columns=tuple(Column(name=name, low=-1.0, high=1.0) for name in "ab"), target="y", classes=("no", "yes"), rows=ROWS
)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    columns = {name: rng.uniform(-1, 1, ROWS) for name in "ab"}
    return pd.DataFrame(columns).assign(y=np.where(columns["a"] > 0, "yes", "no"))


def searching(space: Any = SPACE) -> dict[str, Any]:
    """A search whose price takes no time: all of its trials are reported."""
    return {"search": "grid", "search_settings": {"space": space}}


RANDOM: dict[str, Any] = {"search": "rs", "search_settings": {"space": SPACE, "trials": 2}}


def test_price_of_a_search_is_that_of_the_best_of_its_runs() -> None:
    plan = recipe_plan(SCHEMA, Recipe.of(**RANDOM), BUDGET)
    assert isinstance(plan.mechanism, Search)
    [(what, event)] = plan.parts
    [laplace] = [part for part in nested(event) if isinstance(part, Laplace)]
    once = Disjoint(events=(2 * Gaussian(noise=plan.noise), laplace))
    assert event == TrialCount(mean=2.0).selected(once)
    assert plan.epsilon == pytest.approx(3.0, rel=1e-3)
    assert accounting.epsilon(2 * Gaussian(noise=plan.noise), 1e-5) < 2.7  # one of its models costs less
    assert what == "search with rs and train linear"
    said = "Search: rs tunes norm of linear in about 2 trials, each an independent draw."
    assert any(said in line for line in plan.sentences)
    grid = recipe_plan(SCHEMA, Recipe.of(**searching()), BUDGET)
    assert any("Search: grid tunes norm of linear in 2 trials." in line for line in grid.sentences)


def test_search_score_and_selection_are_one_charge(frame: pd.DataFrame, tmp_path: Path) -> None:
    released = fit(
        frame,
        schema=SCHEMA,
        epsilon=3.0,
        select="top",
        select_settings={"columns": 1},
        score_epsilon=0.5,
        ledger=tmp_path / "x.ledger",
        out=tmp_path / "m",
        **RANDOM,
    )
    [charge] = [entry for entry in Ledger.open(tmp_path / "x.ledger").entries() if entry.kind == "spend"]
    assert released.epsilon == pytest.approx(3.0, rel=1e-3)
    assert Ledger.open(tmp_path / "x.ledger").spent() == pytest.approx(released.epsilon)
    assert charge.event == released.event
    assert released.score is not None
    assert released.search is not None
    assert released.search["point"]["norm"] in (0.25, 0.5)
    assert released.workflow == "aware"
    assert released.seconds is None  # they would tell the secret number of trials
    assert released.internal["seconds"] is not None
    card = ModelCard.read(tmp_path / "m")
    assert card.search["point"] == released.search["point"]
    assert [column.name for column in load(tmp_path / "m").schema.used] == ["a"]
    verdict = verify(tmp_path / "m", ledger=tmp_path / "x.ledger")
    assert (verdict.valid, verdict.certified) == (True, True)


def test_search_chooses_among_learners(frame: pd.DataFrame) -> None:
    released = fit(frame, schema=SCHEMA, epsilon=30.0, seed=1, **searching(LEARNERS))
    assert released.search is not None
    assert released.learner == released.search["point"]["learner"]
    assert released.learner in ("linear", "additive")


@pytest.mark.parametrize(
    ("learner", "settings", "choices"),
    [
        ("auto", {}, ["learner", "bins", "norm", "depth"]),
        ("linear", {}, ["norm", "bins", "constant"]),
        ("linear", {"features": [{"name": "onehot"}]}, ["norm", "momentum", "constant"]),
        ("boosted", {}, ["depth", "lr", "share"]),
        ("dpsgd", {}, ["lr", "norm", "batch"]),
    ],
)
def test_learner_has_a_space_of_its_own(learner: str, settings: dict[str, Any], choices: list[str]) -> None:
    recipe = Recipe.of(learner=learner, settings=settings, search="rs")
    chosen = Choice(learner="linear" if learner == "auto" else learner, settings=settings)
    searched = search_settings(recipe, chosen, None, SCHEMA)
    assert searched is not None
    assert list(searched.space.choices) == choices
    assert expect_valid_space(searched.search(settings), SCHEMA) is None  # type: ignore[func-returns-value]


def test_plan_says_why_auto_does_not_search() -> None:
    assert NO_SEARCH in recipe_plan(SCHEMA, Recipe(), BUDGET).sentences
    assert NO_SEARCH not in recipe_plan(SCHEMA, Recipe.of(learner="linear"), BUDGET).sentences


def test_saved_plan_says_the_search_and_is_followed(frame: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text('learner = "linear"\n[choices]\nsteps2 = [1]\n[build]\nsteps = "$steps2"\n')
    options: dict[str, Any] = {"schema": SCHEMA, "epsilon": 3.0, "seed": 1}
    dry = fit(frame, plan=tmp_path / "plan.json", dry_run=True, **searching(str(tmp_path / "space.toml")), **options)
    saved = json.loads((tmp_path / "plan.json").read_text())
    assert saved["search"] == "grid"
    assert saved["search_settings"] == {"space": str(tmp_path / "space.toml")}
    followed = fit(frame, plan=tmp_path / "plan.json", **options)
    assert followed.plan == dry.plan
    assert followed.search is not None
    assert followed.search["point"] == {"steps2": 1}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"search_settings": {"trials": 3}}, "expected search="),
        ({"search": "rss"}, "did you mean rs"),
        ({"search": "rs", "search_settings": {"trails": 3}}, "did you mean trials"),
        ({"search": "rs", "learner": "pate"}, "public rows"),
        ({"search": "rs", "learner": "adassp"}, "expected space="),
        ({**searching(LEARNERS), "learner": "linear"}, "chooses among linear, additive"),
        ({**searching({**LEARNERS, "priced": []})}, "costs something else"),
        ({**searching(), "settings": {"stepz": 3}}, "no setting 'stepz'"),
        ({"workflow": "careless"}, "aware or standard"),
        ({**searching(), "workflow": "standard"}, "leave workflow= out"),
    ],
)
def test_wrong_search_is_refused_before_the_charge(
    changed: Mapping[str, Any], words: str, frame: pd.DataFrame, tmp_path: Path
) -> None:
    with pytest.raises(WrongInput, match=words):
        fit(frame, **{"schema": SCHEMA, "epsilon": 1.0, "ledger": tmp_path / "x.ledger"} | changed)
    assert not (tmp_path / "x.ledger").exists()
