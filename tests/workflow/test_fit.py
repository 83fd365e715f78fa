"""Plans that are saved and followed, and columns that are chosen before a fit or inside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware import fit, load, select, verify
from privaware._rounded import rounded_up
from privaware.errors import OverlapWarning, WrongInput, for_caller
from privaware.ledger import Ledger
from privaware.report import page_text
from privaware.schema import Column, Schema
from privaware.workflow._recipe import Recipe
from privaware.workflow.auto import Choice

ROWS = 1500


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    columns = {name: rng.uniform(-1, 1, ROWS) for name in "abcdef"}
    return pd.DataFrame(columns).assign(y=np.where(columns["a"] + columns["b"] > 0, "yes", "no"))


@pytest.fixture(scope="module")
def schema() -> Schema:
    columns = tuple(Column(name=name, low=-1.0, high=1.0) for name in "abcdef")
    return Schema(columns=columns, target="y", classes=("no", "yes"), rows=ROWS)


def test_epsilon_may_be_a_numpy_integer(frame: pd.DataFrame, schema: Schema, tmp_path: Path) -> None:
    options: dict[str, Any] = {"target": "y", "schema": schema, "learner": "majority", "ledger": tmp_path / "x.ledger"}
    assert 0 < fit(frame, epsilon=np.int64(1), **options).epsilon <= 1  # type: ignore[arg-type]


def test_columns_that_select_chose_are_used(frame: pd.DataFrame, schema: Schema, tmp_path: Path) -> None:
    options: dict[str, Any] = {"target": "y", "schema": schema, "seed": 1, "ledger": tmp_path / "x.ledger", "limit": 50}
    chosen = select(frame, method="top", epsilon=2.0, settings={"columns": 2}, out=tmp_path / "s", **options)
    (tmp_path / "chosen.json").write_text(json.dumps(chosen.json()))
    for use in (chosen, tmp_path / "s", tmp_path / "s" / "selection.json", tmp_path / "chosen.json", ["a", "b"]):
        assert Recipe.of(use=use).columns == ("a", "b")
    result = fit(frame, epsilon=2.0, learner="linear", use=tmp_path / "s", **options)
    assert result.model is not None
    assert [column.name for column in result.model.schema.used] == ["a", "b"]
    assert (result.model.predict(frame[["a", "b"]]) == frame["y"]).mean() > 0.85


def test_used_columns_may_be_the_only_ones_with_bounds(frame: pd.DataFrame, tmp_path: Path) -> None:
    a, b = Column(name="a", low=-1.0, high=1.0), Column(name="b")
    schema = Schema(columns=(a, b), target="y", classes=("no", "yes"), rows=ROWS)
    options: dict[str, Any] = {"target": "y", "schema": schema, "seed": 1, "ledger": tmp_path / "x.ledger", "limit": 50}
    result = fit(frame, epsilon=2.0, learner="linear", use=["a"], test=frame, **options)
    assert result.model is not None
    assert result.model.schema.columns == (a,)
    assert result.internal["test_score"] == (result.model.predict(frame) == frame["y"]).mean()


def test_cost_of_an_earlier_selection_is_stated(frame: pd.DataFrame, schema: Schema, tmp_path: Path) -> None:
    said: list[str] = []
    options: dict[str, Any] = {"target": "y", "schema": schema, "ledger": tmp_path / "x.ledger", "limit": 50}
    chosen = select(frame, method="top", epsilon=2.0, settings={"columns": 2}, out=tmp_path / "s", **options)
    fit(frame, epsilon=2.0, learner="linear", use=tmp_path / "s", out=tmp_path / "m", say=said.append, **options)
    price, total = rounded_up(chosen.epsilon), rounded_up(Ledger.open(tmp_path / "x.ledger").spent())
    page = page_text((tmp_path / "m" / "report.html").read_text())
    assert any(f"as selected before with epsilon {price} at delta 1e-5" in line for line in said)
    assert f"The ledger has 2 charges; all of them together have epsilon {total} at delta 1e-5." in said
    assert f"selected by an earlier run, with epsilon {price} at delta 1e-5. This is not part of the epsilon" in page
    assert f"its ledger had 2 charges; all of them together have epsilon {total} at delta 1e-5." in page
    assert verify(tmp_path / "m", ledger=tmp_path / "x.ledger").valid


def test_selection_cost_is_read_from_every_form(frame: pd.DataFrame, schema: Schema, tmp_path: Path) -> None:
    chosen = select("wisconsin", method="top", epsilon=2.0, settings={"columns": 2}, out=tmp_path / "s")
    cost = {"epsilon": chosen.epsilon, "delta": chosen.delta}
    assert Recipe.of(use=chosen).selected == Recipe.of(use=tmp_path / "s").selected == cost
    assert Recipe.of(Recipe.of(use=chosen).json()).selected == cost
    assert Recipe.of(use=["a", "b"]).selected == {}
    standard = select("wisconsin", method="top", epsilon=2.0, settings={"columns": 2}, workflow="standard")
    assert Recipe.of(use=standard).selected == {"epsilon": None, "delta": None}


def test_columns_chosen_inside_a_fit_are_paid_for(frame: pd.DataFrame, schema: Schema, tmp_path: Path) -> None:
    options: dict[str, Any] = {"target": "y", "schema": schema, "seed": 1, "epsilon": 2.0, "learner": "linear"}
    options |= {"ledger": tmp_path / "x.ledger", "limit": 50, "test": frame}
    chosen = fit(frame, select="top", select_settings={"columns": 2}, **options)
    assert chosen.model is not None
    assert len(chosen.model.schema.used) == 2
    assert 1.9 < chosen.epsilon <= 2.0
    assert any(line.startswith("choose columns with top: ") for line in chosen.plan)
    assert Ledger.open(tmp_path / "x.ledger").spent() == pytest.approx(chosen.epsilon)
    assert chosen.internal["test_score"] is not None
    assert chosen.internal["test_score"] > 0.8


@pytest.mark.parametrize("name", ["plan.toml", "plan.json"])
def test_saved_plan_is_followed(frame: pd.DataFrame, schema: Schema, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    options: dict[str, Any] = {
        "target": "y",
        "schema": schema,
        "seed": 1,
        "epsilon": 1.0,
        "ledger": tmp_path / "x.ledger",
        "limit": 9,
    }
    dry = fit(frame, dry_run=True, plan=path, settings={"steps": 7}, **options)
    assert dry.model is None
    assert path.exists()
    followed = fit(frame, plan=path, **options)
    assert followed.learner == dry.learner
    assert any("7 times" in line or "7 x" in line or " 7 " in line for line in followed.plan)
    with pytest.raises(WrongInput, match="no setting"):
        fit(frame, plan={"learner": "linear", "settings": {"stepz": 3}}, **options)


def test_plan_keeps_the_bins_it_buys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binned = Choice(learner="linear", releases=("bins",))
    monkeypatch.setattr("privaware.workflow.run.training_plan.choose_with_texts", lambda *facts, **more: binned)
    chosen = fit("wisconsin", epsilon=1.0, plan=tmp_path / "plan.toml", dry_run=True)
    assert any(line.startswith("release bins of numbers") for line in chosen.plan)
    followed = fit("wisconsin", epsilon=1.0, plan=tmp_path / "plan.toml", dry_run=True)
    assert followed.event == chosen.event


def test_regression_plan_keeps_its_target_range(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    centred = Choice(learner="linear", releases=("target_range",))
    monkeypatch.setattr("privaware.workflow.run.training_plan.choose_with_texts", lambda *facts, **more: centred)
    columns = tuple(Column(name=name, low=-1.0, high=1.0) for name in "bcd")
    schema = Schema(columns=columns, target="a", low=-1.0, high=1.0, rows=ROWS)
    options: dict[str, Any] = {
        "target": "a",
        "schema": schema,
        "seed": 1,
        "epsilon": 1.0,
        "ledger": tmp_path / "x.ledger",
    }
    dry = fit(frame, dry_run=True, plan=tmp_path / "plan.toml", **options)
    followed = fit(frame, dry_run=True, plan=tmp_path / "plan.toml", **options)
    assert any("range of the target" in line for line in followed.plan)
    assert followed.plan[-1] == dry.plan[-1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"use": ["a", "nowhere"]}, "nowhere"),
        ({"use": ["a"], "select": "top"}, "got both"),
        ({"select": "pca"}, "does not choose columns"),
        ({"plan": {"lerner": "linear"}}, "lerner"),
        ({"plan": {"settings": 3}}, "settings"),
        ({"plan": "nowhere.toml"}, "nowhere.toml"),
    ],
)
def test_wrong_recipes_are_refused(
    frame: pd.DataFrame, schema: Schema, tmp_path: Path, arguments: dict[str, object], words: str
) -> None:
    with pytest.raises(WrongInput, match=words):
        fit(frame, target="y", schema=schema, epsilon=1.0, ledger=tmp_path / "x.ledger", **arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "x.ledger").exists()


@pytest.mark.parametrize("setting", ["plan", "use", "policy", "kinds"])
@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_deeply_nested_files_are_refused(frame: pd.DataFrame, tmp_path: Path, setting: str, suffix: str) -> None:
    deep = tmp_path / f"deep{suffix}"
    deep.write_text("a = " * (suffix == ".toml") + "[" * 50_000)
    with pytest.raises(WrongInput, match="deep"):
        fit(frame, target="y", epsilon=1.0, dry_run=True, **{setting: deep})  # type: ignore[arg-type]


def test_rows_without_a_target_are_said_to_python_too(frame: pd.DataFrame, schema: Schema, tmp_path: Path) -> None:
    gaps = frame.assign(y=[None if at % 100 == 0 else label for at, label in enumerate(frame["y"])], always=1.0)
    with pytest.warns(UserWarning, match="15 rows have no 'y' and are left out"):
        result = fit(gaps, target="y", schema=schema, epsilon=1.0, learner="majority", out=tmp_path / "m")
    assert result.notices[0].startswith("15 rows have no 'y' and are left out")
    assert "left out" not in f"{result!r} {result.json()}"
    assert "'always' (left out by the schema)" in result.notices[1]
    assert not any("left out" in file.read_text(errors="replace") for file in (tmp_path / "m").iterdir())
    with pytest.warns(
        OverlapWarning, match="a table that probably shares rows with this one is charged to another ledger too"
    ):
        complete = fit(frame, target="y", schema=schema, epsilon=1.0, learner="majority", ledger=tmp_path / "l")
    assert complete.notices == []


def test_saved_model_has_every_sentence_of_the_plan(frame: pd.DataFrame, tmp_path: Path) -> None:
    options: dict[str, Any] = {"target": "y", "epsilon": 0.2, "learner": "linear", "settings": {"steps": 2}, "seed": 1}
    result = fit(frame.head(100), ledger=tmp_path / "x.ledger", **options)
    assert any("The noise in the counts is about" in sentence for sentence in result.plan)
    kept = load(result.save(tmp_path / "model")).card.plan
    assert [for_caller(sentence) for sentence in kept] == result.plan
