"""Private rows are read in one place, in one order: ledger, rows, charge on disk, mechanism, publication."""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privaware
from privaware import _files, fit, report, search, select, verify
from privaware.card import ModelCard
from privaware.data import Data
from privaware.errors import BudgetExceeded, WrongInput
from privaware.learners.linear import Linear
from privaware.learners.majority import Majority
from privaware.ledger import Ledger
from privaware.schema import Column
from privaware.workflow.run.charge import charged_run
from privaware.workflow.run.options import RunOptions
from privaware.workflow.run.source import Source
from privaware.workflow.run.staging import Staged
from privaware.workflow.run.training_plan import training_plan

ROOT = Path(privaware.__file__).parent


def test_only_a_charged_run_reads_private_rows() -> None:
    readers = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if "read_private_rows" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "read_private_rows"
    }
    assert readers == {"workflow/run/charge.py"}


def test_modules_that_parse_rows_are_listed() -> None:
    imports = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if "from privaware.data import" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "privaware.data"
        if "read" in {alias.name for alias in node.names}
    }
    assert imports == {
        "workflow/run/source.py",  # into `read_private_rows`, and for a schema that the owner confirms or pays for
        "workflow/run/public_rows.py",  # rows of --public
        "workflow/run/declared_kinds.py",  # the names of columns, for a draft of their kinds
        "bench/_rows.py",  # rows that a grid declares public
        "model.py",  # rows to predict
        "estimators/_models.py",  # rows to predict
        "estimators/_transformers.py",  # rows to transform
        "estimators/_declared.py",  # a frame of polars as one of pandas; nothing is looked at
    }


@pytest.fixture
def people(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"age": draw.integers(18, 90, 200), "y": draw.choice(["no", "yes"], 200)})
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


@pytest.mark.parametrize("new", [False, True], ids=["existing ledger", "new ledger"])
def test_charge_is_on_disk_before_the_mechanism_runs(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: bool
) -> None:
    if not new:
        Ledger.create(tmp_path / "people.csv.ledger", limit=1.0)
    order: list[str] = []

    def recorded(owner: Any, name: str, what: str) -> None:
        function: Callable[..., Any] = getattr(owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            order.append(what)
            if what == "run closed":
                assert not (tmp_path / "m" / "model.json").exists()
            return function(*arguments, **named)

        monkeypatch.setattr(owner, name, call)

    recorded(Ledger, "ready", "ledger asked")
    recorded(Data, "of", "rows parsed")
    recorded(Ledger, "spend", "charge on disk")
    recorded(Majority, "run", "mechanism")
    recorded(Ledger, "finish", "run closed")
    fit(people, target="y", epsilon=1.0, accept_schema=True, learner="majority", out=tmp_path / "m")
    checks = ["ledger asked", "rows parsed"]  # bad rows must not leave a new ledger behind
    assert order == [*(checks[::-1] if new else checks), "charge on disk", "mechanism", "run closed"]
    assert (tmp_path / "m" / "model.json").exists()


def test_each_charge_is_executed_once_by_its_mechanism(people: Path) -> None:
    options = RunOptions(target="y", accept_schema=True)
    with charged_run("fit", people, options) as run:
        plan = training_plan(run.schema, epsilon=1.0, delta=1e-5, learner="majority")
        with pytest.raises(RuntimeError, match="after each charge"):
            run.execute()
        assert run.charge(plan)
        with pytest.raises(RuntimeError, match="the mechanism that was charged"):
            run.execute(Linear())
        run.execute()
        with pytest.raises(RuntimeError, match="after each charge"):
            run.execute()


def test_dry_run_reads_no_row_and_leaves_nothing_behind(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = privaware.Schema(columns=(), target="y", classes=("no", "yes"), rows=200)
    monkeypatch.setattr("privaware.workflow.run.source.read", lambda *_: pytest.fail("a row was read"))
    plan = fit(people, epsilon=1.0, schema=schema, learner="majority", dry_run=True, out=tmp_path / "m")
    assert (plan.model, plan.out, plan.seconds) == (None, None, 0.0)
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


def test_rows_without_a_charge_are_those_of_a_public_benchmark(people: Path) -> None:
    with charged_run("search", "wisconsin", RunOptions()) as run:
        assert len(run.public_rows()) == 455
    with charged_run("search", people, RunOptions(target="y", accept_schema=True)) as run:  # noqa: SIM117
        with pytest.raises(RuntimeError, match="other rows are private"):
            run.public_rows()


@pytest.mark.parametrize("posix", [True, False], ids=["folder itself", "file beside it"])
def test_folder_in_use_is_refused_and_free_again_afterwards(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, posix: bool
) -> None:
    monkeypatch.setattr(_files, "LOCKS_FOLDERS", posix)
    call: dict[str, Any] = {"target": "y", "epsilon": 1.0, "accept_schema": True, "learner": "majority"}
    options = RunOptions(target="y", accept_schema=True, out=tmp_path / "m")
    with charged_run("fit", people, options) as run:
        assert run.charge(training_plan(run.schema, epsilon=1.0, delta=1e-5, learner="majority"))
        with pytest.raises(WrongInput, match="another process is making a model"):
            fit(people, out=tmp_path / "m", **call)
    fit(people, out=tmp_path / "m", **call)
    assert Ledger.open(f"{people}.ledger").spent() <= 1.0
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [
        "model.json",
        "model.safetensors",
        "report.html",
    ]


def test_selection_resumes_with_its_ledger_inside_the_folder(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "choice"
    call: dict[str, Any] = {"target": "y", "epsilon": 1.0, "accept_schema": True, "ledger": out / "own.ledger"}

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "finish", stopped)
        with pytest.raises(KeyboardInterrupt):
            select(people, out=out, **call)
    select(people, out=out, **call)
    assert sum(entry.kind == "spend" for entry in Ledger.open(out / "own.ledger").entries()) == 1


def test_closing_entries_name_a_model_and_a_selection(people: Path, tmp_path: Path) -> None:
    call: dict[str, Any] = {"target": "y", "epsilon": 1.0, "accept_schema": True, "limit": 9.0}
    fit(people, learner="majority", out=tmp_path / "m", **call)
    select(people, out=tmp_path / "choice", **call)
    closings = [entry for entry in Ledger.open(f"{people}.ledger").entries() if entry.kind == "finished"]
    assert [entry.release for entry in closings] == ["model", "selection"]


def test_source_shows_no_row_in_its_repr(people: Path) -> None:
    with charged_run("fit", people, RunOptions(target="y", accept_schema=True)) as run:
        assert isinstance(run.source, Source)
        assert "yes" not in repr(run.source)
        assert "yes" not in repr(run)


# Killed between the last file and the end


def stop_before(owner: Any, name: str) -> Callable[[pytest.MonkeyPatch], None]:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    return lambda patch: patch.setattr(owner, name, stopped)


@pytest.mark.parametrize(
    ("killed", "closed"),
    [
        (stop_before(report, "page"), False),
        (stop_before(Ledger, "finish"), False),
        (stop_before(Staged, "publish"), True),
        (stop_before(ModelCard, "of"), None),
    ],
    ids=["before the report", "before the closing entry", "after it", "before the first file"],
)
def test_p33_p44_resumed_run_publishes_the_complete_model(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: Any, closed: bool | None
) -> None:
    """Without training again: a second model from one charge would be a release that nobody paid for."""
    out, ledger = tmp_path / "m", Path(f"{people}.ledger")
    call: dict[str, Any] = {"target": "y", "epsilon": 1.0, "accept_schema": True, "learner": "majority", "out": out}
    with monkeypatch.context() as patch:
        killed(patch)
        with pytest.raises(KeyboardInterrupt):
            fit(people, **call)
    assert not (out / "model.json").exists()
    kinds = [entry.kind for entry in Ledger.open(ledger).entries()]
    assert kinds == ["created", "spend", *(["finished"] if closed else [])]
    before = None if closed is None else (out / ".staged" / "model.safetensors").read_bytes()
    with monkeypatch.context() as patch:
        if before is not None:
            patch.setattr(Majority, "run", lambda *_: pytest.fail("trained again"))
        fit(people, **call)
    assert before in (None, (out / "model.safetensors").read_bytes())
    assert [entry.kind for entry in Ledger.open(ledger).entries()] == ["created", "spend", "finished"]
    verdict = verify(out, ledger=ledger)
    assert (verdict.valid, verdict.bound) == (True, True), verdict.problems
    charged = datetime.fromisoformat(Ledger.open(ledger).entries()[1].time).timestamp()
    assert {round(path.stat().st_mtime, 3) for path in (out, *out.iterdir())} == {round(charged, 3)}


def test_p44_model_changed_after_its_closing_is_not_published(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "m"
    call: dict[str, Any] = {"target": "y", "epsilon": 1.0, "accept_schema": True, "learner": "majority", "out": out}
    with monkeypatch.context() as patch:
        stop_before(Staged, "publish")(patch)
        with pytest.raises(KeyboardInterrupt):
            fit(people, **call)
    (out / ".staged" / "report.html").write_text("epsilon 0")
    with pytest.raises(BudgetExceeded):  # it would be another run
        fit(people, **call)
    assert not (out / "model.json").exists()


def test_run_that_another_process_closed_releases_nothing_more(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where locks of a network disk fail: two models for one charge would be one too many."""

    def page(card: ModelCard, **_: Any) -> str:
        assert card.ledger.run is not None
        Ledger.open(f"{people}.ledger").finish(card.ledger.run, files={"model.json": "0" * 64})
        return "a page"

    monkeypatch.setattr("privaware.report.page", page)
    with pytest.raises(WrongInput, match="has already ended"):
        fit(people, target="y", epsilon=1.0, accept_schema=True, learner="majority", out=tmp_path / "m")
    assert not (tmp_path / "m" / "model.json").exists()


# Without a price


def test_infinite_price_is_refused_before_ledger_and_rows(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best of about 50 runs, each of which may fail with a chance of 1e-6: more than a delta of 1e-5 allows."""
    monkeypatch.setattr("privaware.workflow.run.source.read", lambda *_, **__: pytest.fail("a row was read"))
    schema = privaware.Schema(
        columns=(Column(name="age", low=18, high=90),), target="y", classes=("no", "yes"), rows=200
    )
    build = {"reach": "$reach", "delta": 1e-6, "analysis": "kifer"}
    space = {"learner": "objective_perturbation", "choices": {"reach": [1.0]}, "build": build}
    call: dict[str, Any] = {"schema": schema, "space": space, "strategy": "rs", "trials": 50, "limit": 100.0}
    for dry_run in (False, True):
        with pytest.raises(WrongInput, match="expected a finite price, but no epsilon is proven at delta 1e-5"):
            search(people, model_epsilon=1.0, out=tmp_path / "m", dry_run=dry_run, **call)
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


def test_calls_without_a_folder_at_one_time_are_charged_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name from the clock would let one of two calls take the other's open charge, where the clock is coarse."""
    monkeypatch.setattr("time.time_ns", lambda: 10**18)
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"a": draw.normal(size=300), "y": draw.choice(["no", "yes"], 300)})
    ledger = Ledger.create(tmp_path / "own.ledger", limit=3.0)
    call: dict[str, Any] = {"target": "y", "epsilon": 1.0, "learner": "majority", "accept_schema": True}
    with monkeypatch.context() as patch:
        patch.setattr(Majority, "run", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fit(frame, ledger=ledger, **call)
    fit(frame, ledger=ledger, **call)
    assert sum(entry.kind == "spend" for entry in ledger.entries()) == 2
