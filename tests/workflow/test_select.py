"""Choosing columns from start to end: the charge, the file, resuming and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privaware.errors import BudgetExceeded, WrongInput
from privaware.ledger import Ledger
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
