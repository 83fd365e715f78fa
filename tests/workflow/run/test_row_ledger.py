"""One data set has one budget, whatever its name: rows are known again, or their owner is warned."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware import Ledger, accounting, fit, select
from privaware._rounded import rounded_up
from privaware.errors import BudgetExceeded, OverlapWarning, Refused, WrongInput
from privaware.events import Laplace
from privaware.ledger import spent_together
from privaware.schema import Schema
from privaware.workflow.run.charge import ChargedRun
from privaware.workflow.run.row_ledger import expect_new_limit
from tests.cli.people import contents

CALL: dict[str, Any] = {"target": "y", "epsilon": 1.0, "accept_schema": True, "learner": "majority"}
ROWS = 120


def table(seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    return pd.DataFrame({"age": draw.integers(18, 90, ROWS), "y": draw.choice(["no", "yes"], ROWS)})


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A file whose budget of epsilon 1 is spent."""
    table().to_csv(tmp_path / "people.csv", index=False)
    fit(tmp_path / "people.csv", **CALL)
    return tmp_path / "people.csv"


def copied(people: Path) -> Path:
    return Path(shutil.copy(people, people.with_name("copy.csv")))


def linked(people: Path) -> Path:
    people.with_name("link.csv").symlink_to(people)
    return people.with_name("link.csv")


def in_another_format(people: Path) -> Path:
    table()[::-1].to_parquet(people.with_name("rows.parquet"))
    return people.with_name("rows.parquet")


def in_memory(people: Path) -> pd.DataFrame:
    return pd.read_csv(people)


@pytest.mark.parametrize("renamed", [copied, linked, in_another_format, in_memory])
def test_p49_rows_under_another_name_find_their_ledger(people: Path, renamed: Any) -> None:
    with pytest.raises(BudgetExceeded, match=r"people\.csv\.ledger"):
        fit(renamed(people), **CALL)
    said: list[str] = []
    Ledger.open(f"{people}.ledger").set_limit(3.0)
    fit(renamed(people) if renamed is not linked else people.with_name("link.csv"), say=said.append, **CALL)
    assert any("used before, under another name" in sentence and "people.csv.ledger" in sentence for sentence in said)
    assert [path.name for path in people.parent.glob("*.ledger")] == ["people.csv.ledger"]
    assert len(Ledger.open(f"{people}.ledger").json()["events"]) == 2


def test_p49_second_ledger_of_same_rows_warns_with_both_epsilons(people: Path) -> None:
    other = people.with_name("other.ledger")
    with pytest.warns(OverlapWarning, match="another ledger too") as warned:
        fit(in_memory(people), ledger=other, **CALL)
    both = spent_together((Ledger.open(other), Ledger.open(f"{people}.ledger")), 1e-5)
    assert 1.0 < both <= 2.0
    assert f"epsilon {rounded_up(both)} at delta 1e-5; charge one of them only (ledger=" in str(warned[0].message)
    said: list[str] = []
    Ledger.open(other).set_limit(3.0)
    fit(people, ledger=other, say=said.append, **CALL)
    (sentence,) = (sentence for sentence in said if "another ledger too" in sentence)
    assert sentence.endswith("charge one of them only (ledger=FILE).")


def test_rows_from_memory_have_a_ledger_outside_the_release(tmp_path: Path) -> None:
    fit(table(), out=tmp_path / "m", **CALL)
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [
        "model.json",
        "model.safetensors",
        "report.html",
    ]
    with pytest.raises(BudgetExceeded):
        select(table(), target="y", epsilon=1.0, accept_schema=True)
    fit(table(seed=1), **CALL)
    ledgers = list(Path(os.environ["PRIVAWARE_LEDGERS"]).glob("*.ledger"))
    assert len(ledgers) == 2


def test_what_is_written_down_does_not_hold_the_key_or_a_row(people: Path) -> None:
    folder = Path(os.environ["PRIVAWARE_LEDGERS"])
    key = (folder / "key").read_bytes()
    assert len(key) == 32
    assert (folder / "key").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    book = Path(f"{people}.ledger").read_bytes()
    assert key not in book
    assert key.hex().encode() not in book
    digest = Ledger.open(f"{people}.ledger").json()["events"][0]["rows"]
    assert len(digest) == 32
    (folder / "key").write_bytes(bytes(32))
    with pytest.raises(BudgetExceeded):
        fit(people, **CALL)
    fit(in_memory(people), **CALL)  # known by another key only
    assert digest not in {path.stem for path in folder.glob("*.ledger")}


def test_moved_and_copied_ledgers_count_once(people: Path) -> None:
    book = Path(f"{people}.ledger")
    Ledger.open(book).set_limit(9.0)
    there = people.parent / "there"
    there.mkdir()
    for path in (people, book):
        shutil.move(path, there / path.name)
    fit(there / people.name, **CALL)  # the same ledger in another folder: nothing to warn of
    shutil.copy(there / people.name, people)
    shutil.copy(there / book.name, book)
    fit(there / people.name, **CALL)
    with pytest.raises(WrongInput, match="lacks 2 entries that it had before"):
        fit(people, **CALL)  # the copy does not know of the last run
    Ledger.restore(book)
    with pytest.warns(OverlapWarning, match="another ledger too"):
        fit(people, **CALL)
    assert Ledger.open(book).spent() > 3.0
    with pytest.raises(WrongInput, match="lacks 2 entries that it had before"):
        Ledger.open(there / book.name)
    for path in (book, there / book.name):
        path.unlink()
    with pytest.warns(OverlapWarning) as warned:
        fit(people, **CALL)
    total, unread = (str(warning.message) for warning in warned)
    assert "(epsilon 3.999): with this run both together spend epsilon 4.999" in total  # each charge once
    assert "which cannot be read" in unread


def test_other_unit_of_the_same_rows_has_no_common_epsilon(people: Path) -> None:
    other = {**CALL, "delta": 1e-6}
    with pytest.raises(WrongInput, match="expected delta"):
        fit(in_memory(people), **other)
    with pytest.warns(OverlapWarning, match="no epsilon holds for both"):
        fit(in_memory(people), ledger=people.with_name("labels.ledger"), unit="label", **CALL)


def test_ledgers_of_another_unit_share_one_sentence(people: Path) -> None:
    for name in ("one.ledger", "two.ledger"):
        with pytest.warns(OverlapWarning):
            fit(in_memory(people), ledger=people.with_name(name), unit="label", **CALL)
    with pytest.warns(OverlapWarning) as warned:
        fit(in_memory(people), ledger=people.with_name("rows.ledger"), **CALL)
    uncounted = [str(each.message) for each in warned if "no epsilon holds for all of them" in str(each.message)]
    assert len(uncounted) == 1
    assert "one.ledger', '" in uncounted[0]


def test_dry_run_leaves_no_digest(people: Path) -> None:
    folder = Path(os.environ["PRIVAWARE_LEDGERS"])
    before = sorted(folder.iterdir())
    fit(table(seed=2), dry_run=True, **CALL)
    assert sorted(folder.iterdir()) == before


def test_ledger_named_like_built_in_data_is_not_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    other = Ledger.create("wisconsin.ledger", limit=1.0)
    other.spend(Laplace(noise=1.0), what="another run", run="other")
    other.finish("other")
    assert fit("wisconsin", epsilon=1.0, learner="majority").epsilon <= 1.0


def test_spent_ledger_is_refused_before_a_row_is_read(people: Path) -> None:
    people.write_text("unreadable")
    with pytest.raises(BudgetExceeded, match="nothing is left"):
        fit(people, out=people.with_name("new"), **CALL)
    people.with_name("used").mkdir()
    table().to_csv(people, index=False)
    (people.with_name("used") / "notes.txt").write_text("mine")
    with pytest.raises(WrongInput, match="new or empty folder"):
        fit(people, out=people.with_name("used"), **CALL)


def test_charge_without_a_run_is_not_taken_for_an_open_run(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("unreadable")
    ledger = Ledger.create(tmp_path / "people.csv.ledger", limit=1.0)
    ledger.spend(Laplace(noise=1.0), what="train Linear")  # as `train` charges without a checkpoint
    with pytest.raises(BudgetExceeded, match="nothing is left"):
        fit(tmp_path / "people.csv", **CALL)


def test_rest_of_a_large_limit_can_be_spent(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "people.csv", index=False)
    ledger = Ledger.create(tmp_path / "people.csv.ledger", limit=1000.0)
    ledger.spend(Laplace(noise=1 / 999.5), what="another run", run="other")
    ledger.finish("other")
    fit(tmp_path / "people.csv", **{**CALL, "epsilon": 0.4})
    assert len(ledger.json()["events"]) == 2


def patients(seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(draw.normal(size=(300, 4)).round(3), columns=["age", "weight", "pulse", "sugar"])
    return frame.assign(y=draw.choice(["no", "yes"], 300))


@pytest.fixture
def ward(tmp_path: Path) -> Path:
    patients().to_csv(tmp_path / "ward.csv", index=False)
    fit(tmp_path / "ward.csv", **CALL)
    return tmp_path / "ward.csv"


CHANGED = {
    "dropped": lambda frame: frame.drop(columns="age"),
    "added": lambda frame: frame.assign(visit=range(300)),
    "renamed": lambda frame: frame.rename(columns={"age": "years"}),
    "rows less": lambda frame: frame[10:],
    "rows more": lambda frame: pd.concat([frame, patients(seed=1)[:20]]),
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_p49_file_with_most_rows_of_another_asks_for_its_ledger(ward: Path, change: Any) -> None:
    changed = ward.with_name("changed.csv")
    change(patients()).to_csv(changed, index=False)
    with pytest.raises(
        WrongInput, match=r"'changed.csv' probably shares rows with a table that was charged to '.*ward.csv.ledger'"
    ) as refused:
        fit(changed, **CALL)
    together = spent_together([Ledger.open(f"{ward}.ledger")], 1e-5, Ledger.open(f"{ward}.ledger").entries()[1].event)
    assert f"epsilon {rounded_up(together)} at delta 1e-5" in str(refused.value)
    assert "new_ledger=True" in str(refused.value)
    assert [path.name for path in ward.parent.glob("*.ledger")] == ["ward.csv.ledger"]


def everything(ward: Path) -> dict[str, bytes]:
    return {**contents(ward.parent), **contents(Path(os.environ["PRIVAWARE_LEDGERS"]))}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_dry_run_foretells_that_most_rows_have_a_ledger(ward: Path, change: Any) -> None:
    changed, said = ward.with_name("changed.csv"), list[str]()
    change(patients()).to_csv(changed, index=False)
    before = everything(ward)
    plan = fit(changed, dry_run=True, say=said.append, **CALL)
    assert everything(ward) == before
    with pytest.raises(WrongInput) as refused:
        fit(changed, **CALL)
    assert plan.refusal == str(refused.value)
    assert f"This run would be refused: {refused.value}." in said


def test_dry_run_says_the_total_after_the_run(ward: Path) -> None:
    said = list[str]()
    ledger = Ledger.open(f"{ward}.ledger")
    ledger.set_limit(5.0)
    plan = fit(ward, dry_run=True, say=said.append, **CALL)
    after = rounded_up(accounting.epsilon(ledger.total(plan.event), ledger.delta))
    assert said[-1] == (
        f"Ledger '{ledger.path}': epsilon {rounded_up(ledger.spent())} of 5 is spent; after this run it is {after}."
    )


def test_dry_run_foretells_that_the_budget_is_spent(ward: Path) -> None:
    with pytest.warns(UserWarning, match=r"would be refused.*past the limit of 1 of"):
        assert "past the limit" in fit(copied(ward), dry_run=True, **CALL).refusal
    with pytest.warns(UserWarning, match="expected a limit of at least the cost of this run"):
        fit(patients(seed=1), dry_run=True, limit=0.5, **CALL)


def test_refused_limit_differs_from_the_cost_that_it_needs() -> None:
    with pytest.raises(BudgetExceeded, match=r"epsilon 0\.9999, got 0\.9998;"):
        expect_new_limit(0.9998003, 0.9998)


def test_dry_run_of_a_charged_run_foretells_no_refusal(ward: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other, call = ward.with_name("other.csv"), {**CALL, "out": ward.with_name("m")}
    patients(seed=1).to_csv(other, index=False)
    with monkeypatch.context() as patch:
        patch.setattr(ChargedRun, "execute", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fit(other, **call)
    said = list[str]()
    assert fit(other, dry_run=True, say=said.append, **call).refusal == ""
    assert said[-1] == "This run is already charged, as entry 1: it would resume and charge nothing."
    fit(other, **call)
    assert fit(other, dry_run=True, say=said.append, **call).refusal == ""
    assert said[-1] == "This run has already finished, so it would charge nothing."


def test_dry_run_of_a_finished_run_with_a_schema_opens_no_file(ward: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema(columns=(), target="y", classes=("no", "yes"), rows=300)
    call = {"epsilon": 1.0, "learner": "majority", "schema": schema, "out": ward.with_name("m"), "limit": 1.0}
    other = ward.with_name("other.csv")
    patients(seed=1).to_csv(other, index=False)
    fit(other, **call)
    monkeypatch.setattr("privaware.workflow.run.source.read", lambda *_, **__: pytest.fail("a row was read"))
    assert fit(other, dry_run=True, **call).refusal == ""


@pytest.mark.parametrize("limit", [1.0, 9.0])
@pytest.mark.parametrize("gone", ["folder", "file", "closed"])
def test_dry_run_says_that_a_lost_result_is_charged_again(
    ward: Path, gone: str, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = Schema(columns=(), target="y", classes=("no", "yes"), rows=300)
    out, said = ward.with_name("m"), list[str]()
    call = {"epsilon": 1.0, "learner": "majority", "schema": schema, "out": out, "limit": limit, "say": said.append}
    other = ward.with_name("other.csv")
    patients(seed=1).to_csv(other, index=False)
    if gone == "closed":
        with monkeypatch.context() as patch:
            patch.setattr(ChargedRun, "execute", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                fit(other, **call)
        assert fit(other, dry_run=True, **call).refusal == ""
        assert said[-1].endswith("if the file is the same, it would charge nothing again.")
        Ledger.open(f"{other}.ledger").close(1)
    else:
        fit(other, **call)
        assert fit(other, dry_run=True, **call).refusal == ""
        assert said[-1].endswith("if the file is the same, it would charge nothing again.")
        shutil.rmtree(out) if gone == "folder" else (out / "report.html").unlink()
    monkeypatch.setattr("privaware.workflow.run.source.read", lambda *_, **__: pytest.fail("a row was read"))
    refusal = fit(other, dry_run=True, **call).refusal
    if gone == "file":  # the run itself refuses the rest of the result, too
        assert "holds a finished model, which is never overwritten" in refusal
        return
    assert ("past the limit of 1" in refusal) == (limit == 1.0)
    assert ("after this run it is" in said[-1]) == (limit == 9.0)


def test_dry_run_that_opens_no_file_says_what_it_left_out(ward: Path) -> None:
    other, said = ward.with_name("other.csv"), list[str]()
    patients().drop(columns="age").to_csv(other, index=False)
    schema = Schema(columns=(), target="y", classes=("no", "yes"), rows=300)
    call = {"epsilon": 1.0, "learner": "majority", "schema": schema, "dry_run": True, "say": said.append}
    assert fit(other, **call).refusal == ""
    assert sum(line.startswith("Not checked: whether these rows already have a ledger") for line in said) == 1


def test_p49_answer_to_the_question_is_taken(ward: Path) -> None:
    changed = ward.with_name("changed.csv")
    patients().drop(columns="age").to_csv(changed, index=False)
    with pytest.raises(BudgetExceeded):
        fit(changed, ledger=f"{ward}.ledger", **CALL)
    said: list[str] = []
    fit(changed, new_ledger=True, say=said.append, **CALL)
    assert any(
        "A table that probably shares rows with this one is charged to another ledger too" in sentence
        for sentence in said
    )
    assert Ledger.open(f"{changed}.ledger").spent() <= 1.0
    with pytest.raises(WrongInput, match="expected one of ledger= and new_ledger="):
        fit(changed, new_ledger=True, ledger=f"{ward}.ledger", **CALL)
    with pytest.raises(WrongInput, match="expected no new_ledger= for rows that are charged"):
        fit(copied(ward), new_ledger=True, **CALL)


def test_total_that_accountants_dispute_stops_no_run(ward: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def disputed(*_: object) -> float:
        raise Refused("the accountants disagree")

    monkeypatch.setattr("privaware.workflow.run.other_ledgers.spent_together", disputed)
    changed, said = ward.with_name("changed.csv"), list[str]()
    patients().drop(columns="age").to_csv(changed, index=False)
    fit(changed, new_ledger=True, say=said.append, **CALL)
    assert any("both together spend more than can be stated at delta 1e-5" in sentence for sentence in said)


def test_p49_frame_with_most_rows_of_another_table_warns(ward: Path) -> None:
    with pytest.warns(
        OverlapWarning,
        match=r"a table that probably shares rows with this one .*ward.csv.ledger.*both together spend epsilon",
    ):
        fit(patients().drop(columns="age"), **CALL)


def test_tables_of_other_people_are_not_asked_about(ward: Path) -> None:
    patients(seed=1).to_csv(ward.with_name("other.csv"), index=False)
    fit(ward.with_name("other.csv"), **CALL)
    split = patients(seed=2)
    for name, rows in (("train.csv", split[:200]), ("test.csv", split[200:])):
        rows.to_csv(ward.with_name(name), index=False)
        fit(ward.with_name(name), **CALL)
    assert len(list(ward.parent.glob("*.ledger"))) == 4


def test_streamed_table_is_known_by_a_part_of_its_columns(ward: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privaware.data._large.LARGE", 100)
    patients().drop(columns="age").to_parquet(ward.with_name("part.parquet"))
    with pytest.raises(WrongInput, match=r"'part.parquet' probably shares rows with a table that was charged to"):
        fit(ward.with_name("part.parquet"), **{**CALL, "accept_schema": False})


def test_damaged_sketch_costs_one_warning(ward: Path) -> None:
    (sketch,) = Path(os.environ["PRIVAWARE_LEDGERS"]).glob("*.sketch")
    sketch.write_bytes(b"torn")
    with pytest.warns(UserWarning, match="is damaged"):
        fit(patients(seed=1), **CALL)
    fit(patients(seed=2), **CALL)


def test_ledger_put_back_from_a_copy_gives_no_new_budget(ward: Path) -> None:
    book = Path(f"{ward}.ledger")
    older = book.read_bytes()
    Ledger.open(book).set_limit(3.0)
    fit(ward, **CALL)
    book.write_bytes(older)
    for data in (ward, copied(ward), patients()):
        with pytest.raises(WrongInput, match="lacks 3 entries that it had before"):
            fit(data, **CALL)
    Ledger.restore(book)
    assert Ledger.open(book).spent() > 1.0


def test_nothing_of_the_sketch_is_in_a_ledger_or_a_release(tmp_path: Path) -> None:
    fit(patients(), out=tmp_path / "m", ledger=tmp_path / "m.ledger", **CALL)
    (sketch,) = Path(os.environ["PRIVAWARE_LEDGERS"]).glob("*.sketch")
    with np.load(sketch) as file:
        hashes = file["hashes"]
    written = b"".join(path.read_bytes() for path in (tmp_path / "m.ledger", *(tmp_path / "m").iterdir()))
    assert not any(value.tobytes() in written or str(int(value)).encode() in written for value in hashes)


def test_p49_all_ledgers_of_the_same_rows_have_one_total(people: Path) -> None:
    others = [people.with_name(f"{name}.ledger") for name in ("b", "c")]
    with pytest.warns(OverlapWarning):
        fit(in_memory(people), ledger=others[0], **CALL)
    said: list[str] = []
    fit(in_memory(people), ledger=others[1], say=said.append, **CALL)
    (sentence,) = [sentence for sentence in said if "charged to 2 other ledgers too" in sentence]
    together = spent_together([Ledger.open(path) for path in (*others, f"{people}.ledger")], 1e-5)
    assert 2.0 < together <= 3.0
    assert f"with this run all 3 ledgers together spend epsilon {rounded_up(together)} at delta 1e-5" in sentence
    assert str(others[0]) in sentence
    assert f"{people}.ledger" in sentence


def test_resumed_run_counts_its_own_charge_once(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = {**CALL, "ledger": people.with_name("other.ledger"), "out": people.with_name("m")}
    said: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(ChargedRun, "execute", lambda *_: exit("killed"))
        with pytest.raises(SystemExit):
            fit(people, say=said.append, **call)
    fit(people, say=said.append, **call)
    first, again = [sentence for sentence in said if "another ledger too" in sentence]
    assert first == again
    assert any(sentence.startswith("Resuming") for sentence in said)


def test_damaged_ledger_of_the_same_rows_is_counted_from_copies(people: Path) -> None:
    book = Path(f"{people}.ledger")
    book.write_bytes(book.read_bytes()[:3000])
    said: list[str] = []
    other = people.with_name("other.ledger")
    fit(people, ledger=other, say=said.append, **CALL)
    sentences = [sentence for sentence in said if str(book) in sentence]
    assert len(sentences) == 2
    assert Ledger.open(other).spent() < 1.0 < float(sentences[0].split("both together spend epsilon ")[1].split()[0])
    assert "cannot be read" in sentences[1]
    assert "counted from the copies" in sentences[1]


def test_unreadable_ledger_without_copies_is_not_counted(people: Path) -> None:
    book = Path(f"{people}.ledger")
    book.unlink()
    for copy in Path(os.environ["PRIVAWARE_LEDGERS"]).glob("*.entries"):
        copy.unlink()
    with pytest.warns(OverlapWarning, match=r"people.csv.ledger', which cannot be read .* is NOT counted"):
        fit(people, ledger=people.with_name("other.ledger"), **CALL)
