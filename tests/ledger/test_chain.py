"""The file of a ledger: append-only, and every change of it is noticed."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privaware.errors import PrivawareError, WrongInput
from privaware.ledger import Ledger, _chain
from tests.ledger.books import DELTA, filled, pure

pytestmark = pytest.mark.usefixtures("adding")


def edit(path: Path, change: Callable[[sqlite3.Connection], Any]) -> None:
    """Edits the file as a database tool could: without its triggers, which are restored afterwards."""
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
    entries = db.execute("SELECT number, body, hash FROM entries ORDER BY number").fetchall()
    db.close()
    return entries


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


def test_append_only_triggers_refuse_every_change(path: Path) -> None:
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
def test_changed_field_is_noticed(path: Path, number: int, name: str) -> None:
    ledger = filled(path)
    body = json.loads(rows(path)[number][1])
    forge(body, name)
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    edit(path, lambda db: db.execute("UPDATE entries SET body=? WHERE number=?", (text, number)))
    assert "its hash does not match its content" in Ledger.verify(path)[0]
    for act in (lambda: Ledger.open(path), lambda: ledger.spend(pure(0.01), what="a count")):
        with pytest.raises(WrongInput, match="was changed"):
            act()


@pytest.mark.parametrize(("number", "name"), [pair for pair in FIELDS if pair[0] < 5])
def test_changed_field_with_new_hash_breaks_the_chain(path: Path, number: int, name: str) -> None:
    filled(path)
    rewrite(path, number, lambda values: forge(values, name))
    assert Ledger.verify(path) != []
    with pytest.raises(WrongInput, match="was changed"):
        Ledger.open(path)


@pytest.mark.parametrize("gone", [[0], [1], [3], [5], [4, 5], [0, 1, 2, 3, 4, 5]])
def test_dropped_entry_is_noticed(path: Path, gone: list[int]) -> None:
    filled(path)
    places = ",".join(map(str, gone))
    edit(path, lambda db: db.execute(f"DELETE FROM entries WHERE number IN ({places})"))
    assert len(Ledger.verify(path)) >= 1
    with pytest.raises(WrongInput, match="was changed"):
        Ledger.open(path)


def test_dropped_entry_is_noticed_after_renumbering(path: Path) -> None:
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


def test_audit_of_a_run_that_was_not_closed_is_noticed(path: Path) -> None:
    ledger = filled(path)
    ledger.record_audit("one", files={"audit.json": "0" * 64}, what="an audit")
    assert Ledger.verify(path) == []
    rewrite(path, 6, lambda values: values.update(run="two"))
    assert Ledger.verify(path) == ["entry 6 (audit) is out of place"]


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


def test_entry_of_another_ledger_is_noticed(path: Path, tmp_path: Path) -> None:
    filled(path)
    other = filled(tmp_path / "other").path
    _, body, hash_ = rows(other)[4]
    edit(path, lambda db: db.execute("UPDATE entries SET body=?, hash=? WHERE number=4", (body, hash_)))
    assert any("does not follow" in problem for problem in Ledger.verify(path))


def test_forged_chain_past_its_limit_is_noticed(path: Path) -> None:
    """Recomputing every hash hides an edit, but not a charge past the limit that held then."""
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
def test_unreadable_entry_is_one_sentence(path: Path, body: Any, number: int) -> None:
    filled(path)
    hash_ = digest(body) if isinstance(body, str) else "0" * 64
    edit(path, lambda db: db.execute("UPDATE entries SET body=?, hash=? WHERE number=?", (body, hash_, number)))
    problems = Ledger.verify(path)
    assert len(problems) >= 1
    assert all("\n" not in problem for problem in problems)
    with pytest.raises(WrongInput):
        Ledger.open(path)


def test_missing_trigger_is_noticed(path: Path) -> None:
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
def test_file_that_is_no_ledger_is_refused_and_unchanged(path: Path, make: Callable[[Path], Any]) -> None:
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
def test_impossible_path_is_one_sentence(path: Any) -> None:
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
    content = sound.read_bytes()
    entries = Ledger.open(sound).entries()
    flipped = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        flipped[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path / os.urandom(8).hex()
    path.write_bytes(flipped)
    problems = Ledger.verify(path)
    assert all("\n" not in problem for problem in problems)
    try:
        assert Ledger.open(path).entries() == entries
    except PrivawareError:
        assert problems
