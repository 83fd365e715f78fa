"""The ledger: spend or raise, never a refund, and every change of the file is noticed."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privaware import accounting
from privaware.errors import BudgetExceeded, PrivawareError, Refused, WrongInput
from privaware.events import NOTHING, Composed, Disjoint, Event, Gaussian, Laplace, Pure, Unproven, leaves
from privaware.ledger import Ledger, _chain, _spent

DELTA = 1e-5
REAL = accounting.epsilon
pytestmark = pytest.mark.usefixtures("adding")


def add(event: Event, delta: float) -> float:
    """The simplest accountant: exact, fast, and nothing but addition and maximum."""
    if isinstance(event, Unproven):
        raise Refused(event.reason)
    if isinstance(event, Disjoint):
        return max(add(part, delta) for part in event.events)
    if isinstance(event, Gaussian):
        return 4 / event.noise
    if isinstance(event, Pure):
        return event.epsilon
    return sum(times * add(leaf, delta) for leaf, times in leaves(event))


@pytest.fixture
def adding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "epsilon", add)


@pytest.fixture
def real(adding: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "epsilon", REAL)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.ledger"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger.create(path, limit=1.0, delta=DELTA, partitions=("left", "right"))


def pure(epsilon: float) -> Event:
    return Pure(epsilon=epsilon)


def filled(path: Path) -> Ledger:
    """A ledger with an entry of every kind and every field in use."""
    ledger = Ledger.create(path, limit=1.0, delta=DELTA, partitions=("left", "right"), who="ann")
    ledger.spend(pure(0.1), who="ann", what="a count", run="one", seed=7)
    ledger.spend(pure(0.3), who="bob", what="a mean", partition="left")
    ledger.set_limit(2.0, who="ann")
    ledger.spend(Gaussian(noise=40.0), who="bob", what="a sum")
    ledger.finish("one", who="ann")
    return ledger


# Spending


def test_nothing_is_spent_at_first(ledger: Ledger) -> None:
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


def test_a_spend_past_the_limit_raises_and_records_nothing(ledger: Ledger, path: Path) -> None:
    ledger.spend(pure(0.9), what="a first")
    before = path.read_bytes()
    with pytest.raises(BudgetExceeded, match=r"a second would bring .* past the limit of 1 ") as no:
        ledger.spend(pure(0.2), what="a second")
    assert no.value.code == 3
    assert path.read_bytes() == before


@pytest.mark.usefixtures("real")
def test_the_limit_itself_can_be_spent(ledger: Ledger) -> None:
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
def test_a_spend_is_taken_exactly_when_it_fits(tmp_path: Path, wishes: list[tuple[float, str | None]]) -> None:
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
def test_partitions_cost_their_maximum(ledger: Ledger) -> None:
    for part in ("left", "right"):
        ledger.spend(pure(0.7), what="a part", partition=part)
    assert ledger.spent() == pytest.approx(accounting.epsilon(pure(0.7), DELTA), rel=5e-3)
    with pytest.raises(BudgetExceeded):
        ledger.spend(pure(0.5), what="all rows")
    ledger.spend(pure(0.2), what="all rows")
    with pytest.raises(BudgetExceeded):
        ledger.spend(pure(0.3), what="a part", partition="right")


def test_an_unknown_partition_is_refused(ledger: Ledger) -> None:
    with pytest.raises(WrongInput, match="among left, right, got 'middle'"):
        ledger.spend(pure(0.1), what="a part", partition="middle")
    assert ledger.spent() == 0.0


@pytest.mark.usefixtures("real")
def test_an_unproven_event_is_refused_with_its_reason(ledger: Ledger) -> None:
    for act in (ledger.spend, ledger.ready):
        with pytest.raises(Refused, match="nobody proved it"):
            act(pure(0.1) + Unproven(reason="nobody proved it"), what="a hope")
    assert len(ledger.entries()) == 1


def test_an_event_that_cannot_be_written_down_is_refused(ledger: Ledger) -> None:
    class Own(Event):
        pass

    for event in (Own(), None, "Pure"):
        with pytest.raises(WrongInput):
            ledger.spend(event, what="a release")  # type: ignore[arg-type]
    assert len(ledger.entries()) == 1


def test_an_entry_says_who_what_and_when(ledger: Ledger) -> None:
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


def test_a_spend_waits_for_the_disk(ledger: Ledger) -> None:
    """SQLite's EXTRA (3): the file, its journal and their folder are synced before a commit returns."""
    with _chain.locked(ledger.path) as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (3,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


# Runs


def test_the_same_run_is_charged_once(ledger: Ledger) -> None:
    first = ledger.spend(pure(0.6), what="a fit", run="key", seed=1)
    assert ledger.find("key") == first
    ledger.ready(pure(0.6), run="key", seed=1)
    assert ledger.spend(pure(0.6), what="a fit", run="key", seed=1) == first
    assert len(ledger.entries()) == 2
    assert ledger.find("other") is None


def test_a_run_key_with_something_else_is_refused(ledger: Ledger) -> None:
    ledger.spend(pure(0.2), what="a fit", run="key", seed=1)
    changes: list[dict[str, Any]] = [{"seed": 2}, {"seed": 1, "partition": "left"}]
    for change in changes:
        with pytest.raises(WrongInput, match="charged for something else"):
            ledger.spend(pure(0.2), what="a fit", run="key", **change)
    with pytest.raises(WrongInput, match="charged for something else"):
        ledger.spend(pure(0.1), what="a fit", run="key", seed=1)
    assert len(ledger.entries()) == 2


def test_a_finished_run_cannot_be_resumed_nor_finished_twice(ledger: Ledger) -> None:
    with pytest.raises(WrongInput, match="nothing was charged"):
        ledger.finish("key")
    ledger.spend(pure(0.2), what="a fit", run="key")
    assert not ledger.finished("key")
    ledger.finish("key")
    assert ledger.finished("key")
    for act in (lambda: ledger.spend(pure(0.2), what="a fit", run="key"), lambda: ledger.finish("key")):
        with pytest.raises(WrongInput, match="already finished"):
            act()
    assert ledger.spent() == pytest.approx(accounting.epsilon(pure(0.2), DELTA))
    assert Ledger.verify(ledger.path) == []


# Facts


def test_the_limit_changes_only_on_the_record(ledger: Ledger, path: Path) -> None:
    with pytest.raises(WrongInput, match=r"expected limit 1.0 .* got 5.0; change it with --set-limit"):
        Ledger.open_or_create(path, limit=5.0, delta=DELTA)
    entry = ledger.set_limit(5, who="ann")
    assert (entry.kind, entry.limit, entry.who) == ("limit", 5.0, "ann")
    assert ledger.entries()[-1] == entry
    assert Ledger.open_or_create(path, limit=5, delta=DELTA).limit == 5.0
    with pytest.raises(WrongInput, match=r"expected limit 5\.0"):
        Ledger.open_or_create(path, limit=1.0, delta=DELTA)
    ledger.spend(pure(3.0), what="much")
    assert Ledger.verify(path) == []


def test_the_limit_never_goes_below_what_is_spent(ledger: Ledger, path: Path) -> None:
    ledger.spend(pure(0.6), what="a first")
    with pytest.raises(WrongInput, match=r"at least 0\.6"):
        ledger.set_limit(0.5)
    ledger.set_limit(0.7)
    with pytest.raises(BudgetExceeded):
        ledger.spend(pure(0.2), what="a second")
    assert ledger.limit == 0.7
    assert Ledger.verify(path) == []


@pytest.mark.parametrize(
    "other", [{"delta": 1e-6}, {"unit": "label"}, {"relation": "replace_one"}, {"cap": 3}, {"partitions": []}]
)
def test_one_ledger_holds_one_delta_unit_and_relation(ledger: Ledger, path: Path, other: dict[str, Any]) -> None:
    same = Ledger.open_or_create(path, limit=None, delta=None)
    assert same == ledger
    with pytest.raises(WrongInput, match=f"expected {next(iter(other))} .* use another ledger"):
        Ledger.open_or_create(path, limit=None, **other)


def test_a_new_ledger_needs_a_limit(path: Path) -> None:
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
def test_wrong_facts_make_no_file(path: Path, wrong: dict[str, Any]) -> None:
    facts = {"limit": 1.0, "delta": DELTA} | wrong
    with pytest.raises(WrongInput):
        Ledger.create(path, **facts)
    assert list(path.parent.iterdir()) == []


def test_creating_leaves_one_file_and_never_overwrites(ledger: Ledger, path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(WrongInput, match="never overwritten"):
        Ledger.create(path, limit=1.0, delta=DELTA)
    assert list(path.parent.iterdir()) == [path]
    assert path.read_bytes() == before


def test_creating_works_without_hard_links(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / f"{name}.ledger"
    path.parent.mkdir()
    Ledger.create(path, limit=1.0, delta=DELTA).spend(pure(0.1), what="a count")
    assert os.listdir(path.parent) == [path.name]
    assert len(Ledger.open(path).entries()) == 2


def test_json_tells_everything(path: Path) -> None:
    ledger = filled(path)
    told = json.loads(json.dumps(ledger.json()))
    assert told["epsilon_spent"] == ledger.spent()
    assert (told["limit"], told["delta"]) == (2.0, DELTA)
    assert (told["unit"], told["relation"]) == ("row", "add_remove")
    assert [event["number"] for event in told["events"]] == [1, 2, 4]
    assert [event["who"] for event in told["events"]] == ["ann", "bob", "bob"]
    assert [event["partition"] for event in told["events"]] == [None, "left", None]
    assert told["events"][1]["epsilon"] == accounting.epsilon(pure(0.3), DELTA)
    assert told["events"][2]["event"] == {"kind": "Gaussian", "noise": 40.0}
    assert told["events"][2]["hash"] == ledger.entries()[4].hash
    assert told["limits"][0]["limit"] == 2.0
    assert told["finished"] == ["one"]


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


def test_a_ledger_held_too_long_is_one_sentence(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_chain, "PATIENCE", 0.05)
    with _chain.locked(ledger.path):
        for act in (ledger.ready, ledger.spend):
            with pytest.raises(WrongInput, match="held by another process"):
                act(pure(0.1), what="a count")
    assert len(ledger.entries()) == 1


def test_a_head_that_moved_is_priced_again(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_replaced_ledger_is_noticed(ledger: Ledger, path: Path) -> None:
    path.unlink()
    Ledger.create(path, limit=1.0, delta=DELTA, partitions=("left", "right"))
    with pytest.raises(WrongInput, match="was replaced"):
        ledger.spend(pure(0.1), what="a count")
    path.unlink()
    with pytest.raises(WrongInput, match="there is no ledger"):
        ledger.spend(pure(0.1), what="a count")
    assert not path.exists()


# Tampering


def edit(path: Path, change: Callable[[sqlite3.Connection], Any]) -> None:
    """What somebody with a database tool and no respect can do: take the guards off, and put them back."""
    db = sqlite3.connect(path)
    guards = [sql for sql in _chain.TABLES if "TRIGGER" in sql]
    for sql in guards:
        db.execute(f"DROP TRIGGER {sql.split()[2]}")
    change(db)
    for sql in guards:
        db.execute(sql)
    db.commit()
    db.close()


def rows(path: Path) -> list[tuple[int, str, str]]:
    db = sqlite3.connect(path)
    found = db.execute("SELECT number, body, hash FROM entries ORDER BY number").fetchall()
    db.close()
    return found


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def rewrite(path: Path, number: int, change: Callable[[dict[str, Any]], Any]) -> None:
    """Changes one entry and gives it a hash that fits."""
    values = json.loads(rows(path)[number][1])
    change(values)
    body = json.dumps(values, sort_keys=True, separators=(",", ":"))
    edit(
        path,
        lambda db: db.execute("UPDATE entries SET body = ?, hash = ? WHERE number = ?", (body, digest(body), number)),
    )


def test_the_file_refuses_every_change(path: Path) -> None:
    filled(path)
    before = rows(path)
    body = before[1][1]
    attempts: list[tuple[str, tuple[Any, ...]]] = [
        ("UPDATE entries SET body = ? WHERE number = 1", (body,)),
        ("UPDATE entries SET number = 9 WHERE number = 5", ()),
        ("UPDATE OR REPLACE entries SET hash = ''", ()),
        ("DELETE FROM entries", ()),
        ("DELETE FROM entries WHERE number = 5", ()),
        ("INSERT OR REPLACE INTO entries VALUES (1, ?, '')", (body,)),
        ("REPLACE INTO entries VALUES (0, ?, '')", (body,)),
        ("INSERT INTO entries VALUES (7, ?, '')", (body,)),
        ("INSERT INTO entries VALUES (-1, ?, '')", (body,)),
    ]
    db = sqlite3.connect(path)
    for statement, values in attempts:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(statement, values)
    db.close()
    assert rows(path) == before
    assert Ledger.verify(path) == []


FIELDS = [
    (0, "facts"),
    (0, "previous"),
    (0, "time"),
    (0, "who"),
    (0, "kind"),
    (1, "event"),
    (1, "run"),
    (1, "seed"),
    (1, "who"),
    (1, "what"),
    (1, "time"),
    (1, "number"),
    (2, "partition"),
    (3, "limit"),
    (4, "previous"),
    (4, "event"),
    (5, "run"),
    (5, "kind"),
]


def forge(values: dict[str, Any], name: str) -> None:
    other: dict[str, Any] = {
        "facts": values.get("facts", {}) | {"limit": 9.0},
        "event": {"kind": "Pure", "epsilon": 0.01},
        "partition": "right",
        "kind": "spend",
        "number": 2,
        "limit": 9.0,
        "seed": 8,
    }
    values[name] = other.get(name, "another")


@pytest.mark.parametrize(("number", "name"), FIELDS)
def test_any_changed_field_is_noticed(path: Path, number: int, name: str) -> None:
    ledger = filled(path)
    body = json.loads(rows(path)[number][1])
    forge(body, name)
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    edit(path, lambda db: db.execute("UPDATE entries SET body=? WHERE number=?", (text, number)))
    assert "its hash is not that of its words" in Ledger.verify(path)[0]
    for act in (lambda: Ledger.open(path), lambda: ledger.spend(pure(0.01), what="a count")):
        with pytest.raises(WrongInput, match="was changed"):
            act()


@pytest.mark.parametrize(("number", "name"), [pair for pair in FIELDS if pair[0] < 5])
def test_a_changed_field_with_a_fitting_hash_breaks_the_chain(path: Path, number: int, name: str) -> None:
    filled(path)
    rewrite(path, number, lambda values: forge(values, name))
    assert Ledger.verify(path) != []
    with pytest.raises(WrongInput, match="was changed"):
        Ledger.open(path)


@pytest.mark.parametrize("gone", [[0], [1], [3], [5], [4, 5], [0, 1, 2, 3, 4, 5]])
def test_a_dropped_entry_is_noticed(path: Path, gone: list[int]) -> None:
    filled(path)
    places = ",".join(map(str, gone))
    edit(path, lambda db: db.execute(f"DELETE FROM entries WHERE number IN ({places})"))
    assert len(Ledger.verify(path)) >= 1
    with pytest.raises(WrongInput, match="was changed"):
        Ledger.open(path)


def test_a_dropped_entry_is_noticed_after_renumbering(path: Path) -> None:
    filled(path)
    edit(
        path,
        lambda db: [
            db.execute("DELETE FROM entries WHERE number = 2"),
            *(db.execute(f"UPDATE entries SET number = {n - 1} WHERE number = {n}") for n in (3, 4, 5)),
            db.execute("UPDATE sqlite_sequence SET seq = 4"),
        ],
    )
    assert len(Ledger.verify(path)) >= 1


def test_swapped_entries_are_noticed(path: Path) -> None:
    filled(path)
    edit(
        path,
        lambda db: [
            db.execute(f"UPDATE entries SET number = {new} WHERE number = {old}")
            for old, new in ((1, 99), (2, 1), (99, 2))
        ],
    )
    assert len(Ledger.verify(path)) >= 1


def test_an_entry_of_another_ledger_is_noticed(path: Path, tmp_path: Path) -> None:
    filled(path)
    other = filled(tmp_path / "other").path
    _, body, own = rows(other)[4]
    edit(path, lambda db: db.execute("UPDATE entries SET body=?, hash=? WHERE number=4", (body, own)))
    assert any("does not follow" in problem for problem in Ledger.verify(path))


def test_a_whole_forged_chain_must_still_keep_to_its_limit(path: Path) -> None:
    """Somebody who recomputes every hash can hide; but not more spending than the limit of the time."""
    ledger = filled(path)

    def respell(cheap: float) -> list[tuple[str, str, int]]:
        previous, out = "", []
        for number, body, _ in rows(path):
            values = json.loads(body)
            values["previous"] = previous or values["previous"]
            if number == 1:
                values["event"] = {"kind": "Pure", "epsilon": cheap}
            text = json.dumps(values, sort_keys=True, separators=(",", ":"))
            previous = digest(text)
            out.append((text, previous, number))
        return out

    def put(cheap: float) -> None:
        forged = respell(cheap)
        edit(path, lambda db: db.executemany("UPDATE entries SET body=?, hash=? WHERE number=?", forged))

    named = ledger.entries()[1].hash
    put(1.5)
    assert any("more than the limit of 1 that held then" in p for p in Ledger.verify(path))
    put(0.01)
    assert Ledger.verify(path) == []
    assert Ledger.open(path).entry(named) is None  # what a model folder remembers gives it away


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        "[]",
        "null",
        "nonsense",
        "[" * 50_000,
        '{"kind":"spend"}',
        b"\xff\xfe",
        7,
        '{"kind":"spend","who":"a","what":"b","event":{"kind":["Pure"]}}',
        '{"kind":"spend","who":"a","what":"b","event":{"kind":"Pure","epsilon":1e999}}',
        '{"kind":"spend","who":"a","what":"b","event":{"kind":"Pure","epsilon":' + "9" * 400 + "}}",
        '{"kind":"created","who":"a","what":"b","facts":{}}',
        '{"kind":"created","who":"a","what":"b","facts":[]}',
    ],
)
@pytest.mark.parametrize("number", [0, 5])
def test_nonsense_in_an_entry_is_a_sentence(path: Path, body: Any, number: int) -> None:
    filled(path)
    own = digest(body) if isinstance(body, str) else "0" * 64
    edit(path, lambda db: db.execute("UPDATE entries SET body=?, hash=? WHERE number=?", (body, own, number)))
    problems = Ledger.verify(path)
    assert len(problems) >= 1
    assert all("\n" not in problem for problem in problems)
    with pytest.raises(WrongInput):
        Ledger.open(path)


def test_a_missing_guard_is_noticed(path: Path) -> None:
    filled(path)
    db = sqlite3.connect(path)
    db.execute("DROP TRIGGER no_delete")
    db.close()
    assert "guards" in Ledger.verify(path)[0]
    with pytest.raises(WrongInput, match="guards"):
        Ledger.open(path)


def foreign(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE entries (number, body, hash)")
    db.commit()
    db.close()


def older(path: Path) -> None:
    filled(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 0")
    db.close()


def truncated(path: Path) -> None:
    filled(path)
    os.truncate(path, 6000)


def beheaded(path: Path) -> None:
    filled(path)
    os.truncate(path, 60)


STRANGERS: list[Callable[[Path], Any]] = [
    foreign,
    older,
    truncated,
    beheaded,
    lambda path: path.touch(),
    lambda path: path.write_text("age,income\n1,2\n"),
    lambda path: path.write_bytes(os.urandom(20_000)),
    lambda path: path.write_bytes(b"SQLite format 3\0" + os.urandom(20_000)),
    lambda path: path.mkdir(),
    lambda path: path.symlink_to(path),
    lambda path: path.symlink_to(path.with_name("nowhere")),
    lambda path: os.mkfifo(path),
]


@pytest.mark.parametrize("make", STRANGERS)
def test_what_is_no_ledger_is_refused_and_left_alone(path: Path, make: Callable[[Path], Any]) -> None:
    make(path)
    before = path.read_bytes() if path.is_file() else None
    acts: list[Callable[[], Any]] = [
        lambda: Ledger.open(path),
        lambda: Ledger.create(path, limit=1.0, delta=DELTA),
        lambda: Ledger.open_or_create(path, limit=1.0, delta=DELTA),
    ]
    for act in acts:
        with pytest.raises(WrongInput) as no:
            act()
        assert "\n" not in str(no.value)
    try:
        assert len(Ledger.verify(path)) >= 1
    except WrongInput:
        assert not path.is_file()
    assert (path.read_bytes() if path.is_file() else None) == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("path", ["no/such/folder/x.ledger", "", ".", "/", "a\0b", "x" * 5000, None, 3])
def test_a_path_that_cannot_be_is_one_sentence(path: Any) -> None:
    for act in (Ledger.open, Ledger.verify, lambda p: Ledger.create(p, limit=1.0, delta=DELTA)):
        with pytest.raises(WrongInput) as no:
            act(path)
        assert "\n" not in str(no.value)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bytes_are_noticed_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    sound = tmp_path / "sound"
    if not sound.exists():
        filled(sound)
    whole = sound.read_bytes()
    entries = Ledger.open(sound).entries()
    bent = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        bent[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path / os.urandom(8).hex()
    path.write_bytes(bent)
    problems = Ledger.verify(path)
    assert all("\n" not in problem for problem in problems)
    try:
        assert Ledger.open(path).entries() == entries
    except PrivawareError:
        assert problems


@pytest.mark.usefixtures("real")
def test_runs_that_split_the_rows_anew_may_meet_a_row_in_different_parts(tmp_path: Path) -> None:
    """Noises at which two runs in either part cost epsilon 1; one in each part costs 1.15."""
    one, other = Gaussian(noise=5.2771), Laplace(noise=2.0005)
    ledger = Ledger.create(tmp_path / "a.ledger", limit=9.0, delta=1e-5)
    ledger.spend(Disjoint(events=(one, other)), what="a search")
    assert ledger.total() == Disjoint(events=(one, other))
    ledger.spend(Disjoint(events=(one, other)), what="the same again")
    worst = max(accounting.epsilon(event, 1e-5) for event in (2 * one, 2 * other, one + other))
    assert worst == pytest.approx(accounting.epsilon(one + other, 1e-5))
    assert worst <= ledger.spent() <= 1.05 * worst


@pytest.mark.usefixtures("real")
def test_many_different_searches_fit_one_ledger() -> None:
    pairs = [(Gaussian(noise=9.0 + at), Laplace(noise=4.0 + at)) for at in range(7)]
    total = _spent.total((None, Disjoint(events=pair)) for pair in pairs)
    assert not any(isinstance(leaf, Disjoint) for leaf, _ in leaves(total))
    every = Composed(events=tuple(Disjoint(events=pair) for pair in pairs))
    exact = accounting.epsilon(every, DELTA)  # every choice of parts, one by one
    assert exact <= accounting.epsilon(total, DELTA) <= 1.1 * exact
