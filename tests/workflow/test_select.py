"""Choosing columns from start to end: the charge, the file, resuming and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware import datasets
from privaware.errors import BudgetExceeded, WrongInput
from privaware.ledger import Ledger
from privaware.schema import Column, Schema
from privaware.workflow.fit import fit
from privaware.workflow.select import select


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=600)
    frame = pd.DataFrame(
        {
            "says": np.where(rng.random(600) < 0.9, y, 1 - y),
            "hums": rng.integers(3, size=600),
            "age": rng.integers(18, 90, size=600),
            "class": np.where(y, "yes", "no"),
        }
    )
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path


def test_selection_spends_the_requested_epsilon(people: Path) -> None:
    result = select(people, target="class", epsilon=2.0, settings={"columns": 1}, accept_schema=True)
    assert result.columns == ("says",)
    assert 1.99 < result.epsilon <= 2.0
    ledger = Ledger.open(f"{people}.ledger")
    assert ledger.spent() == pytest.approx(result.epsilon, rel=1e-6)
    with pytest.raises(BudgetExceeded):
        select(people, target="class", epsilon=0.1, accept_schema=True)


def test_standard_selection_is_for_built_in_data_only(people: Path, tmp_path: Path) -> None:
    chosen = [
        select("wisconsin", method="top", epsilon=1e-3, settings={"columns": 3}, workflow="standard", seed=seed)
        for seed in (1, 2)
    ]
    assert chosen[0].columns == chosen[1].columns  # no noise, whatever the seed
    quiet = select("wisconsin", method="top", epsilon=1e5, settings={"columns": 3}, seed=3)
    assert set(chosen[0].columns or ()) == set(quiet.columns or ())
    assert not chosen[0].certified
    assert chosen[0].sentence.startswith("NOT PRIVATE")
    with pytest.raises(WrongInput, match="built-in benchmark data"):
        select(people, target="class", epsilon=1.0, workflow="standard")


def test_ledger_says_that_a_standard_selection_has_no_noise(tmp_path: Path) -> None:
    select("wisconsin", method="top", epsilon=1.0, workflow="standard", ledger=tmp_path / "l")
    assert "NOT PRIVATE" in Ledger.open(tmp_path / "l").entries()[1].what


def test_data_independent_selectors_cost_nothing(people: Path) -> None:
    result = select(people, target="class", method="all", epsilon=1.0, accept_schema=True)
    assert (result.columns, result.epsilon) == (("says", "hums", "age"), 0.0)
    assert Ledger.open(f"{people}.ledger").spent() == 0.0


def test_private_bounds_are_charged_before_the_selection(people: Path) -> None:
    result = select(people, target="class", epsilon=8.0, settings={"columns": 1}, private_schema=True)
    assert result.columns == ("says",)
    assert result.epsilon <= 8.0
    assert any("release bounds" in words for words in result.plan)


def test_selection_folder_is_never_overwritten(people: Path, tmp_path: Path) -> None:
    out = tmp_path / "choice"
    result = select(people, target="class", epsilon=1.0, accept_schema=True, out=out)
    facts = json.loads((out / "selection.json").read_text())
    assert tuple(facts["columns"]) == result.columns
    assert facts["ledger"] in {entry.hash for entry in Ledger.open(f"{people}.ledger").entries()}
    with pytest.raises(WrongInput, match="new or empty folder"):
        select(people, target="class", epsilon=0.5, accept_schema=True, out=out)


def test_interrupted_selection_resumes_without_a_second_charge(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "choice"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("privaware.workflow.run.staging.Staged.add", full)
        with pytest.raises(WrongInput, match="resumes the run once there is room"):
            select(people, target="class", epsilon=1.0, accept_schema=True, out=out)
    spent = Ledger.open(f"{people}.ledger").spent()
    select(people, target="class", epsilon=1.0, accept_schema=True, out=out)
    assert Ledger.open(f"{people}.ledger").spent() == spent


def jobs(rows: int = 3000) -> tuple[pd.DataFrame, Schema]:
    """The class follows one of five jobs, and no other column."""
    rng = np.random.default_rng(4)
    job = rng.choice(list("abcde"), size=rows)
    frame = pd.DataFrame({"job": job, "age": rng.uniform(0, 90, rows), "y": np.where(job == "c", "yes", "no")})
    columns = (Column(name="job", kind="category", categories=tuple("abcde")), Column(name="age", low=0, high=90))
    return frame, Schema(columns=columns, target="y", classes=("no", "yes"), rows=rows)


def test_single_categories_are_selected_and_followed_by_fit(tmp_path: Path) -> None:
    frame, schema = jobs()
    options: dict[str, Any] = {"target": "y", "schema": schema, "seed": 1, "ledger": tmp_path / "x.ledger", "limit": 50}
    found = select(
        frame, method="top", epsilon=2.0, settings={"columns": 1}, level="category", out=tmp_path / "s", **options
    )
    assert found.columns == ("job (c)",)
    assert 1.9 < found.epsilon <= 2.0
    result = fit(frame, epsilon=5.0, learner="linear", use=tmp_path / "s", test=frame, **options)
    assert result.model is not None
    assert [column.name for column in result.model.schema.used] == ["job (c)"]
    assert result.internal["test_score"] == 1.0
    assert (result.model.predict(frame[["job"]]) == frame["y"]).all()


def test_categories_of_built_in_data_are_selected_too(tmp_path: Path) -> None:
    found = select("breast_cancer", method="top", epsilon=5.0, settings={"columns": 3}, level="category", seed=1)
    assert found.columns is not None
    assert any("(" in name for name in found.columns)
    kept = datasets.load("breast_cancer").train.keep(found.columns)
    assert kept.x.shape[1] == 3
    model = fit("breast_cancer", epsilon=5.0, learner="linear", use=found, seed=1, ledger=tmp_path / "l").model
    assert model is not None
    assert len(model.predict("breast_cancer")) == len(datasets.load("breast_cancer").test)


def test_categories_need_declared_ones_and_a_known_level(people: Path) -> None:
    with pytest.raises(WrongInput, match="declared categories"):
        select(people, target="class", epsilon=1.0, level="category", private_schema=True)
    with pytest.raises(WrongInput, match="level"):
        select("wisconsin", epsilon=1.0, level="bin")
