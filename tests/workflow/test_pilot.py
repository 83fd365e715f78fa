"""A pilot: charged through the ledger before it runs, refused where it would show nothing, read as an estimate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from privaware import Ledger, advise
from privaware.errors import BudgetExceeded, WrongInput
from privaware.schema import Column, Schema
from privaware.workflow._accuracy_curves import Pilot
from privaware.workflow._advice_words import answer_lines
from privaware.workflow._answer import answer_for
from privaware.workflow.verify import verify


def write_rows(path: Path, rows: int) -> Path:
    draw = np.random.default_rng(0)
    x = draw.normal(size=rows)
    lines = [f"{value:.3f},{draw.normal():.3f},{'yes' if value > 0 else 'no'}" for value in x]
    path.write_text("\n".join(["x,z,y", *lines]) + "\n")
    return path


def test_pilot_is_charged_and_answers_for_this_table(tmp_path: Path) -> None:
    people = write_rows(tmp_path / "people.csv", 3000)
    advised = advise(people, target="y", accuracy=0.8, pilot=0.2, out=tmp_path / "pilot")
    ledger = Ledger.open(tmp_path / "people.csv.ledger")
    assert 0.15 < ledger.spent() <= 0.2
    assert ledger.limit == pytest.approx(1.2)
    assert "pilot" in ledger.entries()[1].what
    assert advised.estimate["about"] == "this table"
    assert advised.estimate["low"] <= advised.estimate["epsilon"] <= advised.estimate["high"]
    assert advised.charged.startswith("The pilot cost epsilon 0.2. Released score: accuracy ")
    assert verify(tmp_path / "pilot", ledger=tmp_path / "people.csv.ledger").valid


@pytest.mark.parametrize("dry_run", [True, False])
def test_limit_of_a_pilot_is_said_for_a_new_ledger_only(tmp_path: Path, dry_run: bool) -> None:
    people, said = write_rows(tmp_path / "people.csv", 3000), list[str]()
    advise(people, target="y", pilot=0.2, dry_run=dry_run, say=said.append)
    assert "new ledger has a limit of 1.2, which leaves epsilon 1 for a model" in " ".join(said)
    Ledger.open_or_create(tmp_path / "people.csv.ledger", limit=None, delta=1e-5, new_limit=3.0)
    said.clear()
    advise(people, target="y", pilot=0.2, dry_run=dry_run, say=said.append)
    assert "new ledger" not in " ".join(said)


def test_given_limit_is_not_called_missing(tmp_path: Path) -> None:
    people, said = write_rows(tmp_path / "people.csv", 3000), list[str]()
    advise(people, target="y", pilot=0.2, limit=3.0, dry_run=True, say=said.append)
    assert said
    assert "new ledger" not in " ".join(said)


@pytest.mark.parametrize(
    ("rows", "budget", "error", "message"),
    [
        (3000, {"pilot": 0.2, "limit": 0.1}, BudgetExceeded, "limit"),
        (300, {"pilot": 0.1}, WrongInput, "pilot= of at least"),
    ],
    ids=["past the limit", "a constant"],
)
def test_pilot_that_cannot_help_is_refused(
    tmp_path: Path, rows: int, budget: dict[str, float], error: type[Exception], message: str
) -> None:
    people = write_rows(tmp_path / "people.csv", rows)
    with pytest.raises(error, match=message):
        advise(people, target="y", accuracy=0.8, **budget)
    assert not (tmp_path / "people.csv.ledger").exists()


def test_pilot_on_images_is_refused() -> None:
    with pytest.raises(WrongInput, match="table with classes and enough rows for pilot:"):
        advise("digits", accuracy=0.8, pilot=0.2)


def test_dry_run_of_a_pilot_charges_nothing(tmp_path: Path) -> None:
    people = write_rows(tmp_path / "people.csv", 3000)
    said: list[str] = []
    advised = advise(people, target="y", accuracy=0.8, pilot=0.2, dry_run=True, say=said.append)
    assert any("costs epsilon 0.2" in sentence for sentence in said)
    assert advised.estimate["about"] == "other tables"
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


def test_accuracy_of_a_constant_is_claimed_only_if_released() -> None:
    two, three = (Schema(rows=4000, classes=tuple("abc"[:count]), columns=(Column(name="x"),)) for count in (2, 3))
    released = Pilot(accuracy=0.7, error=0.01, signal=2.5, constant=0.6)
    assert "constant" in answer_for(two, 1e-5, 0.55, released).estimate["reason"]
    unreleased = answer_for(three, 1e-5, 0.55, replace(released, constant=None)).estimate
    assert "constant" not in (unreleased["reason"] or "")


@pytest.mark.parametrize(("accuracy", "warned"), [(0.8825, True), (0.9, True), (0.95, False)])
def test_pilot_near_a_constant_is_said_with_the_epsilon(accuracy: float, warned: bool) -> None:
    schema = Schema(rows=2000, classes=("a", "b"), columns=(Column(name="x"),))
    pilot = Pilot(accuracy=accuracy, error=0.0226, signal=2.5, constant=0.8835)
    estimate = answer_for(schema, 1e-5, 0.96 if accuracy > 0.9 else 0.9, pilot).estimate
    assert estimate["epsilon"] is not None
    assert ("may be no better than a constant prediction" in (estimate["reason"] or "")) is warned


def test_doubt_about_the_pilot_is_part_of_the_answer() -> None:
    estimate = {"epsilon": 0.36, "low": 0.05, "high": 4.7, "chance": 0.95, "about": "this table", "reason": "Beware."}
    (answer,) = answer_lines(SimpleNamespace(estimate=estimate, accuracy=0.9))
    assert answer.startswith(
        "By a pilot on this table, accuracy 0.9 needs about epsilon 0.36 (80% interval: 0.05 to 4.7)."
    )
    assert answer.endswith(
        "accuracies within about 0.02 of 0.9 count as 0.9, so the accuracies below may reach 0.9 at another epsilon. "
        "Beware."
    )
    (answer,) = answer_lines(SimpleNamespace(estimate={**estimate, "chance": 0.61}, accuracy=0.9))
    assert "if the table reaches it: the probability that it does at epsilon 10 or less is 61%." in answer


def test_an_accuracy_that_is_hardly_reached_is_said_first() -> None:
    estimate = {"epsilon": 1.7, "low": 0.2, "high": 7.0, "chance": 0.4, "about": "this table", "reason": None}
    (answer,) = answer_lines(SimpleNamespace(estimate=estimate, accuracy=0.8))
    assert answer.startswith(
        "By a pilot, this table probably does not reach accuracy 0.8: the probability that it does at epsilon 10 or "
        "less is 40%. If it does, it needs about epsilon 1.7"
    )


@pytest.mark.parametrize("accuracy", [0.83, 0.84, 0.85, 0.9])
def test_answer_says_not_reached_exactly_as_its_curve(accuracy: float) -> None:
    schema = Schema(rows=3500, classes=("a", "b"), columns=(Column(name="x"),))
    released = Pilot(accuracy=0.809, error=0.0157, signal=2.264, constant=0.822)
    answer = answer_for(schema, 1e-5, accuracy, released)
    (line,) = answer_lines(SimpleNamespace(estimate=answer.estimate, accuracy=accuracy))
    assert ("probably does not reach" in line) is (answer.curve[-1]["accuracy"] < accuracy)


def test_accuracy_out_of_reach_names_no_epsilon() -> None:
    schema = Schema(rows=4000, classes=("a", "b"), columns=(Column(name="x"),))
    flat = Pilot(accuracy=0.61, error=0.005, signal=2.5, constant=0.6)
    estimate = answer_for(schema, 1e-5, 0.999, flat).estimate
    assert estimate["epsilon"] is None
    assert estimate["reason"].startswith("Not reached: at epsilon 10 expect")


def test_moved_pilot_is_found_and_not_paid_again(tmp_path: Path) -> None:
    people = write_rows(tmp_path / "people.csv", 3000)
    asked: dict[str, Any] = {"target": "y", "accuracy": 0.8, "pilot": 0.2}
    first = advise(people, **asked, out=tmp_path / "pilot")
    (tmp_path / "pilot").rename(tmp_path / "moved")
    ledger = Ledger.open(tmp_path / "people.csv.ledger")
    assert ledger.entries()[1].what.endswith("and its score into pilot")
    with pytest.raises(WrongInput, match=r"already paid, as entry 1 .* was expected in '.*pilot'; if that folder was"):
        advise(people, **asked, out=tmp_path / "pilot")
    again = advise(people, **asked, out=tmp_path / "moved")
    assert again.pilot == first.pilot
    assert len(ledger.history()) == 1
