"""Model folders and ledgers that were cut, overwritten or edited, by the thousand.

`damaged(seed, count)` yields cases. A case changes copies of a good model folder `m` and of its ledger
`book.ledger`, and says which verb to call and which exit codes are honest: 2 where a file is not what
it should be, 4 where `verify` can read everything and finds that it does not hold.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Draw = np.random.Generator
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**400,
    1e400,
    float("nan"),
    "",
    "x" * 5000,
    "\ud800",
    [],
    {},
    [[]],
    {"kind": []},
    "../../etc",
    [1, 2],
    {"name": "linear"},
    -1.5,
    "<b>",
)


@dataclass(frozen=True, kw_only=True)
class Damage:
    """`spoil` is handed the folder that holds `m`, `book.ledger` and `people.csv`."""

    kind: str
    spoil: Callable[[Path], None]
    words: tuple[str, ...]
    codes: tuple[int, ...]


def damaged(seed: int, count: int) -> Iterator[Damage]:
    """`count` cases, the families in turn, each with its own details drawn from `seed`."""
    families = (cut, overwritten, removed, edited, nested, ledger_bytes, ledger_rows)
    draw = np.random.default_rng(seed)
    for at in range(count):
        yield families[at % len(families)](draw)


def _pick(draw: Draw, options: tuple[Any, ...]) -> Any:
    return options[int(draw.integers(len(options)))]


VERIFY = ("verify", "m")
VERBS = (VERIFY, ("predict", "m", "people.csv", "--out", "p.csv"))


def _read_verb(draw: Draw, name: str) -> tuple[str, ...]:
    report = (("report", "m", "--out", "page.html"),)
    verbs: tuple[tuple[str, ...], ...] = VERBS + report if name == "model.json" else VERBS
    return tuple(_pick(draw, verbs))


def cut(draw: Draw) -> Damage:
    name = _pick(draw, ("model.json", "model.safetensors"))
    share = float(draw.random())

    def spoil(folder: Path) -> None:
        path = folder / "m" / name
        content = path.read_bytes()
        path.write_bytes(content[: int(share * (len(content) - 1))])

    return Damage(kind=f"cut: {name}", spoil=spoil, words=_read_verb(draw, name), codes=(2,))


def overwritten(draw: Draw) -> Damage:
    """Random bytes in the place of a file, or of a part of it."""
    name = _pick(draw, ("model.json", "model.safetensors"))
    garbage = b"\xff" + draw.bytes(int(draw.integers(8, 200)))

    def spoil(folder: Path) -> None:
        path = folder / "m" / name
        path.write_bytes(garbage + path.read_bytes()[len(garbage) :])

    return Damage(kind=f"garbage: {name}", spoil=spoil, words=_read_verb(draw, name), codes=(2,))


def removed(draw: Draw) -> Damage:
    name = _pick(draw, ("model.json", "model.safetensors"))
    folder_instead = draw.random() < 0.5

    def spoil(folder: Path) -> None:
        (folder / "m" / name).unlink()
        if folder_instead:
            (folder / "m" / name).mkdir()

    return Damage(kind=f"removed: {name}", spoil=spoil, words=_read_verb(draw, name), codes=(2,))


NEEDED = (
    ("schema",),
    ("features",),
    ("architecture",),
    ("guarantee",),
    ("events",),
    ("format",),
    ("guarantee", "epsilon"),
    ("guarantee", "delta"),
    ("events", 0),
    ("events", 0, "event"),
    ("events", 0, "event", "kind"),
    ("events", 0, "event", "count"),
    ("events", 0, "event", "event"),
    ("events", 0, "event", "event", "noise"),
    ("architecture", "name"),
    ("architecture", "inputs"),
    ("architecture", "outputs"),
    ("features", 0),
    ("features", 0, "name"),
    ("schema", "columns"),
    ("schema", "columns", 0),
    ("schema", "columns", 0, "low"),
    ("schema", "columns", 1, "categories"),
    ("schema", "classes"),
    ("schema", "form"),
    ("schema", "rows"),
    ("tensors",),
    ("ledger",),
    ("ledger", "entry"),
)


def edited(draw: Draw) -> Damage:
    """One entry of `model.json` becomes something else."""
    keys = _pick(draw, NEEDED)
    value = _pick(draw, ODD)

    def spoil(folder: Path) -> None:
        path = folder / "m" / "model.json"
        facts = inner = json.loads(path.read_text())
        for step in keys[:-1]:
            inner = inner[step]
        inner[keys[-1]] = value
        path.write_text(json.dumps(facts))

    words = (*VERIFY, "--ledger", "book.ledger")
    kind = f"edited: {'.'.join(map(str, keys))} = {value!r:.20}"
    return Damage(kind=kind, spoil=spoil, words=words, codes=(2, 4))


def nested(draw: Draw) -> Damage:
    """Events or values inside each other without end."""
    depth = int(draw.integers(101, 100_000))
    event = '{"kind": "Repeated", "count": 1, "event": ' * depth + "0" + "}" * depth
    text = _pick(draw, (event, "[" * depth + "]" * depth))

    def spoil(folder: Path) -> None:
        path = folder / "m" / "model.json"
        facts = json.loads(path.read_text())
        facts["events"][0]["event"] = "here"
        path.write_text(json.dumps(facts).replace('"here"', text))

    words = _pick(draw, (VERIFY, ("report", "m", "--out", "page.html")))
    return Damage(kind=f"nested: {depth}", spoil=spoil, words=words, codes=(2,))


LEDGER_VERBS = (
    ("ledger", "book.ledger"),
    ("ledger", "book.ledger", "--set-limit", "99"),
    ("fit", "people.csv", "--schema", "people.toml", "--ledger", "book.ledger", "--out", "n"),
    (*VERIFY, "--ledger", "book.ledger"),
)


def _ledger_case(draw: Draw, kind: str, spoil: Callable[[Path], None]) -> Damage:
    words = _pick(draw, LEDGER_VERBS)
    codes = (2, 4) if words[0] == "verify" else (2,)
    return Damage(kind=f"ledger: {kind}, {words[0]}", spoil=spoil, words=words, codes=codes)


def ledger_bytes(draw: Draw) -> Damage:
    """A ledger that is cut short, overwritten at its head, or no database at all."""
    kind = _pick(draw, ("cut", "head", "random", "empty", "text", "folder"))
    share, garbage = float(draw.random()), b"\xff" + draw.bytes(99)

    def spoil(folder: Path) -> None:
        path = folder / "book.ledger"
        content = path.read_bytes()
        damaged = {
            "cut": content[: int(share * (len(content) - 1))],
            "head": garbage + content[100:],
            "random": garbage * 50,
            "empty": b"",
            "text": b"limit = 1000000\n",
        }
        if kind == "folder":
            path.unlink()
            path.mkdir()
        else:
            path.write_bytes(damaged[kind])

    return _ledger_case(draw, kind, spoil)


EDITS = (
    "UPDATE entries SET body = replace(body, '\"limit\":9.0', '\"limit\":900.0')",
    "UPDATE entries SET hash = upper(hash) WHERE number = 1",
    "UPDATE entries SET body = '{}' WHERE number = 1",
    "UPDATE entries SET body = NULL WHERE number = 1",
    "UPDATE entries SET body = x'ff00ff' WHERE number = 1",
    "UPDATE entries SET body = '[' || body || ']'",
    "UPDATE entries SET number = number + 5 WHERE number > 0",
    "DELETE FROM entries WHERE number = 1",
    "DELETE FROM entries WHERE number = (SELECT max(number) FROM entries)",
    "DELETE FROM entries",
    "DROP TABLE entries",
    "DROP TABLE scratch",
    "ALTER TABLE entries ADD COLUMN more TEXT",
    "PRAGMA application_id = 7",
    "PRAGMA user_version = 2",
    "CREATE TABLE other (x)",
    "INSERT INTO entries VALUES (99, '{}', 'ab')",
)


def ledger_rows(draw: Draw) -> Damage:
    """A ledger edited as a database, its guards taken away for the purpose and perhaps put back."""
    edit, back = _pick(draw, EDITS), bool(draw.random() < 0.5)

    def spoil(folder: Path) -> None:
        with closing(sqlite3.connect(folder / "book.ledger", isolation_level=None)) as db:
            guards = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for name, _ in guards:
                db.execute(f"DROP TRIGGER {name}")
            try:
                db.execute(edit)
            except sqlite3.IntegrityError:  # NOT NULL: then an empty text
                db.execute(edit.replace("NULL", "''"))
            for _, sql in guards:
                if back and "DROP TABLE entries" not in edit:
                    db.execute(sql)

    return _ledger_case(draw, edit[:40], spoil)
