"""A command that is repeated after its run has ended gives its result again, and charges nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware import fit, select
from privaware.errors import WrongInput
from privaware.ledger import Ledger
from privaware.workflow.run.staging import Staged
from tests.cli.people import write_people


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return write_people(tmp_path / "people.csv", rows=200)


def call(people: Path, said: list[str] | None = None, **more: Any) -> Any:
    return fit(
        people,
        **{"target": "y", "epsilon": 1.0, "learner": "majority", "out": people.parent / "m"} | more,
        say=None if said is None else said.append,
    )


def entries(people: Path) -> int:
    return len(Ledger.open(f"{people}.ledger").entries())


def test_finished_command_returns_its_model_and_its_place(people: Path) -> None:
    first, said = call(people), list[str]()
    count = entries(people)
    again = call(people, said)
    assert entries(people) == count
    assert again.epsilon == first.epsilon
    assert again.out == first.out
    assert again.model is not None
    assert all(np.array_equal(again.model.tensors[name], first.model.tensors[name]) for name in first.model.tensors)
    assert said == [
        f"This run has already finished, so nothing is charged. Its result is in {str(people.parent / 'm')!r}."
    ]


@pytest.mark.parametrize("change", ["rows", "file", "settings", "ledger"])
def test_other_run_in_the_same_folder_is_refused(people: Path, change: str) -> None:
    call(people, limit=9.0)
    more: dict[str, Any] = {"limit": 9.0}
    if change == "rows":
        write_people(people, rows=200, seed=99)
    elif change == "file":
        report = people.parent / "m" / "report.html"
        report.write_text(report.read_text() + " ")
    elif change == "settings":
        more["epsilon"] = 0.5
    else:
        more["ledger"] = people.parent / "other.ledger"
    with pytest.raises(WrongInput, match="holds a finished model"):
        call(people, **more)


@pytest.mark.parametrize("reason", ["there is nothing called", "expected a target"])
@pytest.mark.parametrize("published", [True, False])
def test_unusable_test_rows_do_not_hide_the_result(
    people: Path, reason: str, published: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = write_people(people.parent / "test.csv", rows=50, seed=1)
    if published:
        assert call(people, test=test).internal["test_score"] is not None
        first = "This run has already finished, so nothing is charged."
    else:
        with monkeypatch.context() as patch:
            patch.setattr(Staged, "publish", interrupt)
            with pytest.raises(KeyboardInterrupt):
                call(people, test=test)
        first = "This run had finished without publishing its result. The result is published now."
    if reason.startswith("there"):
        test.unlink()
    else:
        test.write_text("age,town\n20,n\n")
    count, said = entries(people), list[str]()
    again = call(people, said, test=test)
    assert entries(people) == count
    assert again.model is not None
    assert again.internal == {"test_score": None}
    assert said[0].startswith(first)
    assert said[1].startswith("The test rows cannot be scored: ")
    assert reason in said[1]
    assert len(said) == 2
    assert again.notices == said[1:]
    with pytest.warns(UserWarning, match="^The test rows cannot be scored: "):
        call(people, test=test)


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_finished_selection_is_read_again(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.linspace(0, 1, 100), "b": np.linspace(1, 0, 100), "y": ["no", "yes"] * 50})
    frame.to_csv(tmp_path / "t.csv", index=False)
    options: dict[str, Any] = {"target": "y", "method": "top", "epsilon": 1.0, "out": tmp_path / "s"}
    first = select(tmp_path / "t.csv", settings={"columns": 1}, **options)
    count = len(Ledger.open(tmp_path / "t.csv.ledger").entries())
    assert select(tmp_path / "t.csv", settings={"columns": 1}, **options).columns == first.columns
    assert len(Ledger.open(tmp_path / "t.csv.ledger").entries()) == count
