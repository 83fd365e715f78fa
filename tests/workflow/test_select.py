"""Choosing columns from start to end: the charge, the file, resuming and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privaware.cli import main
from privaware.cli.list import catalogue
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


def test_what_was_spent_is_what_was_asked_and_is_in_the_ledger(people: Path) -> None:
    made = select(people, target="class", epsilon=2.0, settings={"columns": 1}, accept_schema=True)
    assert made.columns == ("says",)
    assert 1.99 < made.epsilon <= 2.0
    book = Ledger.open(f"{people}.ledger")
    assert book.spent() == pytest.approx(made.epsilon, rel=1e-6)
    with pytest.raises(BudgetExceeded):
        select(people, target="class", epsilon=0.1, accept_schema=True)


def test_free_selectors_spend_nothing(people: Path) -> None:
    made = select(people, target="class", method="all", epsilon=1.0, accept_schema=True)
    assert (made.columns, made.epsilon) == (("says", "hums", "age"), 0.0)
    assert Ledger.open(f"{people}.ledger").spent() == 0.0


def test_bounds_can_be_paid_for_first(people: Path) -> None:
    made = select(people, target="class", epsilon=8.0, settings={"columns": 1}, private_schema=True)
    assert made.columns == ("says",)
    assert made.epsilon <= 8.0
    assert any("release bounds" in words for words in made.plan)


def test_folder_holds_the_choice_and_is_never_overwritten(people: Path, tmp_path: Path) -> None:
    out = tmp_path / "choice"
    made = select(people, target="class", epsilon=1.0, accept_schema=True, out=out)
    facts = json.loads((out / "selection.json").read_text())
    assert tuple(facts["columns"]) == made.columns
    assert facts["ledger"] in {entry.hash for entry in Ledger.open(f"{people}.ledger").entries()}
    with pytest.raises(WrongInput, match="new or empty folder"):
        select(people, target="class", epsilon=1.0, accept_schema=True, out=out)


def test_interrupted_choice_resumes_without_a_second_charge(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "choice"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("privaware.workflow._output.atomic_write", full)
        with pytest.raises(WrongInput, match="resumes once there is room"):
            select(people, target="class", epsilon=1.0, accept_schema=True, out=out)
    spent = Ledger.open(f"{people}.ledger").spent()
    select(people, target="class", epsilon=1.0, accept_schema=True, out=out)
    assert Ledger.open(f"{people}.ledger").spent() == spent


def test_command_line_gives_columns_price_and_seconds(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["select", str(people), "--target", "class", "--accept-schema", "--epsilon", "3"]
    assert main([*call, "--method", "top", "--columns", "1", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["columns"] == ["says"]
    assert 0 < made["epsilon"] <= 3
    assert made["seconds"] >= 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "pca"], "does not choose columns"),
        (["--method", "cfs_gready"], "did you mean cfs_greedy"),
        (["--method", "all", "--columns", "2"], "no setting 'columns'"),
        (["--columns", "0"], "columns as a whole number"),
        (["--method", "cfs_ga", "--population", "1"], "population"),
    ],
)
def test_wrong_calls_are_answered_with_a_sentence_and_cost_nothing(
    people: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    call = ["select", str(people), "--target", "class", "--accept-schema", *arguments]
    assert main(call) == 2
    assert words in capsys.readouterr().err
    assert not Path(f"{people}.ledger").exists()


def test_transformations_are_not_listed_as_selectors() -> None:
    listed = {thing["name"] for thing in catalogue("selectors")["selectors"]}
    assert {"cfs_greedy", "cfs_ga", "random", "all", "top", "worth"} <= listed
    assert not {"bounds", "normalise", "pca"} & listed
