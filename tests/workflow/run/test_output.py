"""What is shown in a folder is what the ledger knows as finished."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from privaware._files import private_folder
from privaware.errors import WrongInput
from privaware.ledger import Ledger
from privaware.testing import example, rows_for
from privaware.workflow.audit import audit
from privaware.workflow.crossover import crossover
from privaware.workflow.select import select


def _select(table: Path, out: Path) -> Any:
    return select(table, target="y", method="worth", epsilon=1.0, accept_schema=True, out=out)


def _crossover(table: Path, out: Path) -> Any:
    return crossover(
        table,
        target="y",
        simple="majority",
        complex="linear:steps=2",
        epsilons=[1.0],
        repeats=1,
        accept_schema=True,
        out=out,
    )


def _audit(table: Path, out: Path) -> Any:
    call: dict[str, Any] = {"learner": "linear", "settings": {"steps": 2}, "canaries": 20}
    return audit(table, target="y", attack="one_run", insert="input", accept_schema=True, out=out, **call)


@pytest.mark.parametrize(
    ("verb", "name"), [(_select, "selection.json"), (_crossover, "crossover.json"), (_audit, "audit.json")]
)
@pytest.mark.parametrize("late", [False, True])
def test_result_is_not_visible_before_its_run_is_closed(
    verb: Callable[[Path, Path], Any], name: str, late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result visible before its run is closed could be released again, with other noise, without a charge."""
    table, out = tmp_path / "rows.csv", tmp_path / "out"
    rows = rows_for(example(rows=200), 200)
    lines = [f"{a},{b},{'yes' if y else 'no'}" for (a, b), y in zip(rows.x[:, :2], rows.y, strict=True)]
    table.write_text("\n".join(["a,b,y", *lines]) + "\n")
    finish = Ledger.finish

    def dying(self: Ledger, run: str, **named: Any) -> Any:
        if late:
            finish(self, run, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "finish", dying)
        with pytest.raises(KeyboardInterrupt):
            verb(table, out)
    assert not (out / name).exists()
    staged = (out / ".staged" / name).read_bytes()
    again = verb(table, out)
    assert (out / name).read_bytes() == staged
    assert json.loads(json.dumps(again.json())).items() >= _without_runtime(staged).items()
    ledger = Ledger.open(f"{table}.ledger")
    assert [entry.kind for entry in ledger.entries()] == ["created", "spend", "finished"]


def _without_runtime(staged: bytes) -> dict[str, Any]:
    added = ("format", "version", "unit", "relation", "seed", "events", "ledger", "settings")
    return {name: value for name, value in json.loads(staged).items() if name not in added}


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
@pytest.mark.parametrize("name", ["", ".staged", ".search"])
def test_link_in_place_of_a_private_folder_costs_nothing(name: str, tmp_path: Path) -> None:
    """The owner of the linked folder could read what is not released, or give the run noise that they know."""
    other, out, table = tmp_path / "other", tmp_path / "out", tmp_path / "rows.csv"
    other.mkdir()
    table.write_text("a,b,y\n" + "1,2,yes\n2,1,no\n" * 100)
    if name:
        out.mkdir()
    (out / name).symlink_to(other)
    with pytest.raises(WrongInput, match="link"):
        _select(table, out)
    assert [*other.iterdir()] == []
    assert not [entry for path in tmp_path.glob("*.ledger") for entry in Ledger.open(path).entries() if entry.event]


@pytest.mark.skipif(os.name != "posix", reason="owners of POSIX")
def test_private_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private_folder(tmp_path / "own")
    private_folder(tmp_path / "own")
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(os, "geteuid", lambda: (tmp_path / "own").stat().st_uid + 1)
    with pytest.raises(WrongInput, match="another user"):
        private_folder(tmp_path / "own")


def test_a_file_in_place_of_the_folder_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("")
    (tmp_path / "data.csv").write_text("a,y\n" + "1,n\n2,y\n" * 50)
    with pytest.raises(WrongInput, match=r"expected a folder, got the file '.*m'; choose another folder"):
        _select(tmp_path / "data.csv", tmp_path / "m")
