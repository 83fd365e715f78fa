"""The ledger: spend or raise, never a refund, and a run is charged once."""

from __future__ import annotations

import json
import os
import re
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privaware import accounting
from privaware.errors import BudgetExceeded, Refused, WrongInput, naming_options
from privaware.events import NOTHING, Event, Gaussian, Laplace, Unproven
from privaware.ledger import Ledger, _chain, _lock, spent_together
from tests.ledger.books import DELTA, filled, pure

pytestmark = pytest.mark.usefixtures("adding")


# Spending


def test_new_ledger_has_spent_nothing(ledger: Ledger) -> None:
    assert ledger.spent() == 0.0
    assert ledger.remaining() == 1.0
    assert ledger.total() == NOTHING
    assert [entry.kind for entry in ledger.entries()] == ["created"]


@pytest.mark.usefixtures("real")
def test_spent_is_the_price_of_the_composition(ledger: Ledger) -> None:
    events = [pure(0.2), Gaussian(noise=30.0), Laplace(noise=9.0), Gaussian(noise=30.0)]
    for event in events:
        ledger.spend(event, what="a release")
    together = accounting.epsilon(events[0] + events[1] + events[2] + events[3], DELTA)
    assert ledger.spent() == pytest.approx(together, rel=5e-3)
    assert ledger.remaining() == pytest.approx(1.0 - together, rel=5e-3)
    assert accounting.epsilon(ledger.total(pure(0.1)), DELTA) > together


def test_charge_past_the_limit_is_refused_and_not_recorded(ledger: Ledger, path: Path) -> None:
    ledger.spend(pure(0.9), what="a first")
    before = path.read_bytes()
    refusal = r"a second would bring .* past the limit of 1 .*raise the limit \(`Ledger.set_limit`\)"
    with pytest.raises(BudgetExceeded, match=refusal) as no:
        ledger.spend(pure(0.2), what="a second")
    assert no.value.code == 3
    assert path.read_bytes() == before


@pytest.mark.usefixtures("real")
def test_charge_up_to_the_limit_is_taken(ledger: Ledger) -> None:
    price = accounting.epsilon(pure(1.0), DELTA)
    tight = Ledger.create(ledger.path.with_name("tight"), limit=price / (1 + 5e-10), delta=DELTA)
    tight.spend(pure(1.0), what="all of it")
    with pytest.raises(BudgetExceeded):
        tight.spend(pure(0.001), what="a crumb")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    wishes=st.lists(
        st.tuples(st.sampled_from([0.125, 0.25, 0.625]), st.sampled_from([None, "left", "right"])), max_size=7
    )
)
def test_charge_is_taken_exactly_when_it_fits(tmp_path: Path, wishes: list[tuple[float, str | None]]) -> None:
    ledger = Ledger.create(tmp_path / os.urandom(8).hex(), limit=1.0, delta=DELTA, partitions=("left", "right"))
    taken: list[tuple[float, str | None]] = []
    for epsilon, part in wishes:
        spent = dict.fromkeys((None, "left", "right"), 0.0)
        for other, name in [*taken, (epsilon, part)]:
            spent[name] += other
        fits = spent[None] + max(spent["left"], spent["right"]) <= 1.0
        try:
            ledger.spend(pure(epsilon), what="a release", partition=part)
        except BudgetExceeded:
            assert not fits
        else:
            assert fits
            taken.append((epsilon, part))
    spends = [entry for entry in ledger.entries() if entry.kind == "spend"]
    assert [(entry.event, entry.partition) for entry in spends] == [(pure(e), p) for e, p in taken]
    assert Ledger.verify(ledger.path) == []


@pytest.mark.usefixtures("real")
def test_disjoint_partitions_cost_their_maximum(ledger: Ledger) -> None:
    for part in ("left", "right"):
        ledger.spend(pure(0.7), what="a part", partition=part)
    assert ledger.spent() == pytest.approx(accounting.epsilon(pure(0.7), DELTA), rel=5e-3)
    with pytest.raises(BudgetExceeded):
        ledger.spend(pure(0.5), what="all rows")
    ledger.spend(pure(0.2), what="all rows")
    with pytest.raises(BudgetExceeded):
        ledger.spend(pure(0.3), what="a part", partition="right")


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize(
    "facts", [{"unit": "patient", "cap": 3}, {"relation": "replace_one"}], ids=["person", "replaced"]
)
def test_partitions_add_up_where_a_unit_may_be_in_two(tmp_path: Path, facts: dict[str, Any]) -> None:
    ledger = Ledger.create(tmp_path / "b.ledger", limit=1.0, delta=DELTA, partitions=("left", "right"), **facts)
    ledger.spend(pure(0.7), what="a part", partition="left")
    with pytest.raises(BudgetExceeded):
        ledger.spend(pure(0.7), what="a part", partition="right")
    ledger.spend(pure(0.2), what="a part", partition="right")
    both = pytest.approx(accounting.epsilon(pure(0.7) + pure(0.2), DELTA), rel=5e-3)
    assert (ledger.spent(), spent_together([ledger], DELTA)) == (both, both)


def test_unknown_partition_is_refused(ledger: Ledger) -> None:
    with pytest.raises(WrongInput, match="among left, right, got 'middle'"):
        ledger.spend(pure(0.1), what="a part", partition="middle")
    assert ledger.spent() == 0.0


@pytest.mark.usefixtures("real")
def test_unproven_event_is_refused_with_its_reason(ledger: Ledger) -> None:
    for act in (ledger.spend, ledger.ready):
        with pytest.raises(Refused, match="nobody proved it"):
            act(pure(0.1) + Unproven(reason="nobody proved it"), what="a hope")
    assert len(ledger.entries()) == 1


def test_event_without_json_is_refused(ledger: Ledger) -> None:
    class Own(Event):
        pass

    for event in (Own(), None, "Pure"):
        with pytest.raises(WrongInput):
            ledger.spend(event, what="a release")  # type: ignore[arg-type]
    assert len(ledger.entries()) == 1


def test_entry_has_author_purpose_and_time(ledger: Ledger) -> None:
    entry = ledger.spend(pure(0.1), what="ein Zähler", who="Zoë", seed=2**100)
    assert ledger.entry(entry.hash) == entry == ledger.entries()[-1]
    assert (entry.who, entry.what, entry.number, entry.seed) == ("Zoë", "ein Zähler", 1, 2**100)
    assert entry.time.endswith("+00:00")
    assert entry.previous == ledger.genesis
    assert ledger.entry("0" * 64) is None
    assert ledger.spend(pure(0.1), what="a count").who != ""


def test_ready_raises_what_spend_would_and_records_nothing(ledger: Ledger) -> None:
    ledger.ready(pure(0.5))
    ledger.spend(pure(0.6), what="a first")
    with pytest.raises(BudgetExceeded):
        ledger.ready(pure(0.6))
    assert len(ledger.entries()) == 2
    assert Ledger.verify(ledger.path) == []


def test_rehearsal_raises_what_the_disk_would_and_leaves_nothing(tmp_path: Path) -> None:
    Ledger.rehearse_creation(tmp_path / "new.ledger")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(WrongInput, match=r"new\.ledger'.*its folder does not exist"):
        Ledger.rehearse_creation(tmp_path / "nowhere" / "new.ledger")


def test_charge_is_flushed_to_disk(ledger: Ledger) -> None:
    """SQLite's EXTRA (3): the file, its journal and their folder are synced before a commit returns."""
    with _lock.locked(ledger.path) as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (3,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


# Runs


def test_resumed_run_is_charged_once(ledger: Ledger) -> None:
    first = ledger.spend(pure(0.6), what="a fit", run="key", seed=1)
    assert ledger.find("key") == first
    ledger.ready(pure(0.6), run="key", seed=1)
    assert ledger.spend(pure(0.6), what="a fit", run="key", seed=1) == first
    assert len(ledger.entries()) == 2
    assert ledger.find("other") is None


def test_run_key_with_another_event_is_refused(ledger: Ledger) -> None:
    ledger.spend(pure(0.2), what="a fit", run="key", seed=1)
    changes: list[dict[str, Any]] = [{"seed": 2}, {"seed": 1, "partition": "left"}]
    for change in changes:
        with pytest.raises(WrongInput, match="charged for other settings or rows"):
            ledger.spend(pure(0.2), what="a fit", run="key", **change)
    with pytest.raises(WrongInput, match="charged for other settings or rows"):
        ledger.spend(pure(0.1), what="a fit", run="key", seed=1)
    assert len(ledger.entries()) == 2


def test_finished_run_is_neither_resumed_nor_finished_again(ledger: Ledger) -> None:
    with pytest.raises(WrongInput, match="nothing was charged"):
        ledger.finish("key")
    ledger.spend(pure(0.2), what="a fit", run="key")
    assert ledger.closing("key") is None
    assert ledger.finish("key") == ledger.closing("key")
    for act in (lambda: ledger.spend(pure(0.2), what="a fit", run="key"), lambda: ledger.finish("key")):
        with pytest.raises(WrongInput, match="already ended"):
            act()
    assert ledger.spent() == pytest.approx(accounting.epsilon(pure(0.2), DELTA))
    assert Ledger.verify(ledger.path) == []


FILES = {"model.json": "0" * 64, "model.safetensors": "a1" * 32}


@pytest.mark.parametrize(("name", "value"), [("files", FILES), ("release", "selection")])
def test_closing_entry_names_files_and_kind_of_release(ledger: Ledger, name: str, value: Any) -> None:
    ledger.spend(pure(0.2), what="a selection", run="key")
    closing = ledger.finish("key", **{name: value})
    assert Ledger.open(ledger.path).closing("key") == closing
    assert getattr(closing, name) == value


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        *(
            ("files", files, "files as names with their SHA-256")
            for files in ({"model.json": "0" * 63}, {"model.json": "0" * 63 + "G"}, {"": "0" * 64}, {"m": 3}, [])
        ),
        ("release", "poem", "release among model, selection, transformation, crossover, audit"),
    ],
)
def test_wrong_files_and_kind_of_release_are_refused(ledger: Ledger, name: str, value: Any, expected: str) -> None:
    ledger.spend(pure(0.2), what="a fit", run="key")
    with pytest.raises(WrongInput, match=expected):
        ledger.finish("key", **{name: value})
    assert ledger.closing("key") is None


def test_p40_ledger_does_not_tell_when_a_run_was_closed(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the entry nor in the time of the file, which still moves so that a copying tool sees the change."""
    charge = ledger.spend(pure(0.2), what="a fit", run="key")
    monkeypatch.setattr(_chain, "_now", lambda: "2100-01-01T00:00:00.000+00:00")
    assert ledger.finish("key").time == ""
    assert os.stat(ledger.path).st_mtime == datetime.fromisoformat(charge.time).timestamp() + 1
    assert b"2100" not in ledger.path.read_bytes()


def test_audit_follows_the_run_whose_release_it_examines(ledger: Ledger) -> None:
    ledger.spend(pure(0.2), what="a fit", run="key")
    with pytest.raises(WrongInput, match="has not finished"):
        ledger.record_audit("key", files=FILES, what="an audit")
    ledger.finish("key")
    entry = ledger.record_audit("key", files=FILES, what="an audit")
    assert (entry.kind, entry.run, entry.files) == ("audit", "key", FILES)
    assert entry.time
    assert Ledger.verify(ledger.path) == []
    assert ledger.json()["audits"][0]["files"] == FILES
    assert ledger.spent() == pytest.approx(accounting.epsilon(pure(0.2), DELTA))


# Facts


def test_change_of_limit_is_an_entry(ledger: Ledger, path: Path) -> None:
    with pytest.raises(WrongInput, match=r"expected limit 1 .* got 5; leave limit= out, or change it"):
        Ledger.open_or_create(path, limit=5.0, delta=DELTA)
    entry = ledger.set_limit(5, who="ann")
    assert (entry.kind, entry.limit, entry.who) == ("limit", 5.0, "ann")
    assert ledger.entries()[-1] == entry
    assert Ledger.open_or_create(path, limit=5, delta=DELTA).limit == 5.0
    with pytest.raises(WrongInput, match="expected limit 5 as the ledger has it"):
        Ledger.open_or_create(path, limit=1.0, delta=DELTA)
    ledger.spend(pure(3.0), what="much")
    assert Ledger.verify(path) == []


def test_limit_below_spent_is_refused(ledger: Ledger, path: Path) -> None:
    ledger.spend(pure(0.6), what="a first")
    with pytest.raises(WrongInput, match=r"at least 0\.6"):
        ledger.set_limit(0.5)
    ledger.set_limit(0.7)
    with pytest.raises(BudgetExceeded):
        ledger.spend(pure(0.2), what="a second")
    assert ledger.limit == 0.7
    assert Ledger.verify(path) == []


@pytest.mark.parametrize(
    ("other", "way"),
    [
        ({"delta": 1e-6}, "take delta=1e-05"),
        ({"unit": "label"}, "take unit='row' to charge this ledger, or ledger=FILE to begin one for the other unit"),
        ({"relation": "replace_one"}, "take data and a schema with the same relation"),
        ({"cap": 3}, "take cap=1 to charge this ledger, or ledger=FILE to begin one for the other cap"),
        ({"partitions": []}, "take data and a schema with the same partitions"),
    ],
)
def test_one_ledger_holds_one_delta_unit_and_relation(
    ledger: Ledger, path: Path, other: dict[str, Any], way: str
) -> None:
    same = Ledger.open_or_create(path, limit=None, delta=None)
    assert same == ledger
    with pytest.raises(WrongInput, match=f"expected {next(iter(other))} .*; {way}(, because all charges|; two)"):
        Ledger.open_or_create(path, limit=None, **other)


def test_compared_and_advised_numbers_are_exact(path: Path) -> None:
    ledger = Ledger.create(path, limit=1.00000001, delta=8.10005e-7)
    said = "expected delta 8.10005e-7 as the ledger has it, got 8.1000500001e-7; take delta=8.10005e-07,"
    with pytest.raises(WrongInput, match=re.escape(said)):
        Ledger.open_or_create(path, limit=None, delta=8.1000500001e-7)
    with pytest.raises(WrongInput, match=r"expected limit 1\.00000001 as the ledger has it, got 1;"):
        Ledger.open_or_create(path, limit=1, delta=None)
    with pytest.raises(WrongInput, match=r"expected delta 8\.10005e-7 as the ledger has it, got 1e-5;"):
        Ledger.open_or_create(path, limit=None, delta=1e-5)
    ledger.spend(pure(1.0), what="a count")
    said = r"past the limit of 1\.00000001 of .* \(delta 8\.10005e-7, 1 already spent\)"
    with pytest.raises(BudgetExceeded, match=said):
        ledger.spend(pure(1.0), what="another count")


def test_advice_says_what_another_ledger_would_mean(path: Path) -> None:
    Ledger.create(path, limit=1.0, unit="person", cap=3)
    said = "ledger=FILE to begin one for the other unit; two such ledgers then have no common total"
    with pytest.raises(WrongInput, match=said):
        Ledger.open_or_create(path, limit=None)


def test_another_unit_than_the_ledger_has_names_its_option(path: Path) -> None:
    Ledger.create(path, limit=1.0, unit="case number", cap=2)
    with pytest.raises(WrongInput, match="got 'row'; take unit='case number', cap=2 to charge this"):
        Ledger.open_or_create(path)


def test_command_is_told_the_option_for_the_unit(path: Path) -> None:
    Ledger.create(path, limit=1.0, unit="case number", cap=2)
    with naming_options(), pytest.raises(WrongInput, match="take --unit 'case number' --cap 2 to charge this ledger"):
        Ledger.open_or_create(path)


def test_new_ledger_needs_a_limit(path: Path) -> None:
    with pytest.raises(WrongInput, match="give a limit"):
        Ledger.open_or_create(path, limit=None, delta=DELTA)
    assert not path.exists()
    ledger = Ledger.open_or_create(path, limit=None, delta=None, new_limit=2, unit="person", cap=4)
    assert (ledger.limit, ledger.delta, ledger.unit, ledger.facts.cap) == (2.0, 1e-5, "person", 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"limit": -1.0},
        {"limit": float("nan")},
        {"limit": float("inf")},
        {"limit": "1"},
        {"limit": 10**400},
        {"delta": 0},
        {"delta": 1.0},
        {"unit": ""},
        {"relation": "swap"},
        {"cap": 0},
        {"partitions": ["a", "a"]},
        {"partitions": [1]},
    ],
)
def test_invalid_facts_create_no_file(path: Path, wrong: dict[str, Any]) -> None:
    facts = {"limit": 1.0, "delta": DELTA} | wrong
    with pytest.raises(WrongInput):
        Ledger.create(path, **facts)
    assert list(path.parent.iterdir()) == []


def test_create_leaves_one_file_and_never_overwrites(ledger: Ledger, path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(WrongInput, match="never overwritten"):
        Ledger.create(path, limit=1.0, delta=DELTA)
    assert list(path.parent.iterdir()) == [path]
    assert path.read_bytes() == before


def test_create_works_without_hard_links(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: Any) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", unsupported)
    ledger = Ledger.create(path, limit=1.0, delta=DELTA)
    ledger.spend(pure(0.1), what="a count")
    assert Ledger.verify(path) == []
    with pytest.raises(WrongInput, match="never overwritten"):
        Ledger.create(path, limit=1.0, delta=DELTA)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("name", ["a b", "c?d=1", "e#f", "g%20h", "ñandú", "i&mode=memory", ":memory:", "'\""])
def test_any_file_name_is_accepted(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / f"{name}.ledger"
    path.parent.mkdir()
    Ledger.create(path, limit=1.0, delta=DELTA).spend(pure(0.1), what="a count")
    assert os.listdir(path.parent) == [path.name]
    assert len(Ledger.open(path).entries()) == 2


def test_json_has_every_entry_and_fact(path: Path) -> None:
    ledger = filled(path)
    entries = json.loads(json.dumps(ledger.json()))
    assert entries["epsilon_spent"] == ledger.spent()
    assert (entries["limit"], entries["delta"]) == (2.0, DELTA)
    assert (entries["unit"], entries["relation"]) == ("row", "add_remove")
    assert [event["number"] for event in entries["events"]] == [1, 2, 4]
    assert [event["who"] for event in entries["events"]] == ["ann", "bob", "bob"]
    assert [event["partition"] for event in entries["events"]] == [None, "left", None]
    assert entries["events"][1]["epsilon"] == accounting.epsilon(pure(0.3), DELTA)
    assert entries["events"][2]["event"] == {"kind": "Gaussian", "noise": 40.0}
    assert entries["events"][2]["hash"] == ledger.entries()[4].hash
    assert entries["limits"][0]["limit"] == 2.0
    assert entries["finished"] == ["one"]


# Sharing


def test_threads_never_overspend(ledger: Ledger) -> None:
    refused: list[Exception] = []

    def work() -> None:
        for _ in range(4):
            try:
                ledger.spend(pure(0.09), what="a count")
            except BudgetExceeded as no:
                refused.append(no)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.entries()) - 1 + len(refused) == 16
    assert ledger.spent() <= 1.0 + 1e-9
    assert Ledger.verify(ledger.path) == []


def test_lock_timeout_is_one_sentence(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lock, "LOCK_TIMEOUT", 0.05)
    with _lock.locked(ledger.path):
        for act in (ledger.ready, ledger.spend):
            with pytest.raises(WrongInput, match="held by another process"):
                act(pure(0.1), what="a count")
    assert len(ledger.entries()) == 1


def test_charge_is_priced_again_when_the_head_moved(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = ledger.entries()
    ledger.spend(pure(0.6), what="another process")
    fresh = Ledger.entries
    monkeypatch.setattr(Ledger, "entries", lambda self: stale)
    with pytest.raises(BudgetExceeded):
        ledger.spend(pure(0.6), what="this process")
    ledger.spend(pure(0.2), what="this process")
    monkeypatch.setattr(Ledger, "entries", fresh)
    assert [entry.number for entry in ledger.entries()] == [0, 1, 2]
    assert Ledger.verify(ledger.path) == []


def test_replaced_file_is_noticed(ledger: Ledger, path: Path) -> None:
    path.unlink()
    Ledger.create(path, limit=1.0, delta=DELTA, partitions=("left", "right"))
    with pytest.raises(WrongInput, match="was replaced"):
        ledger.spend(pure(0.1), what="a count")
    path.unlink()
    with pytest.raises(WrongInput, match="there is no ledger"):
        ledger.spend(pure(0.1), what="a count")
    assert not path.exists()


def test_another_cap_is_refused_with_the_cap_that_fits(path: Path) -> None:
    Ledger.open_or_create(path, limit=5.0, delta=DELTA, unit="person", cap=3)
    with pytest.raises(WrongInput, match="expected cap 3 as the ledger has it, got 5; take cap=3 to charge"):
        Ledger.open_or_create(path, limit=5.0, delta=DELTA, unit="person", cap=5)
