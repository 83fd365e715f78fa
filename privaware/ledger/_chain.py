"""Entries that each carry the hash of the entry before, in one append-only SQLite file.

This module is the file format of the ledger, without budgets. It writes entries to disk and finds what is wrong with an
edited file. Hashes reveal an edit, not its author. Rewriting every hash, or restoring an older copy, is detected only
by a hash that is kept elsewhere. That is why a released model names the hash of its entry.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from privaware._files import sync_folder
from privaware.errors import WrongInput
from privaware.ledger._entry import Entry, body, hashed, misplaced, parsed
from privaware.ledger._lock import connected, error_line, locked, shown_path

APPLICATION = 0x70767731  # "pvw1", in the header of the file: distinguishes a ledger from other databases
VERSION = 1
"""Version of the file format of a ledger."""
TABLES = (  # AUTOINCREMENT remembers the highest number ever used, so a lost last entry is noticed
    "CREATE TABLE entries (number INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE scratch (slot INTEGER PRIMARY KEY, filler BLOB NOT NULL)",
    "CREATE TRIGGER no_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'append-only'); END",
    "CREATE TRIGGER no_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'append-only'); END",
    # REPLACE deletes a row without firing the trigger above, so a number in use is rejected here
    "CREATE TRIGGER in_order BEFORE INSERT ON entries"
    " WHEN NEW.number IS NOT (SELECT coalesce(max(number) + 1, 0) FROM entries)"
    " BEGIN SELECT RAISE(ABORT, 'append-only'); END",
)


def create(path: Path, entry: Entry) -> None:
    """Create the ledger file `path`, with `entry` (of kind "created") as its first entry.

    The entry is stored with the present time and, as hash of the entry before it, a random one. Where the file system
    has hard links, the file is complete before it gets its name. Raise `WrongInput` if `path` exists or cannot be
    created.
    """
    with _draft(path, entry) as draft:
        _publish(draft, path)


def rehearse_creation(path: Path, entry: Entry) -> None:
    """Raise the `WrongInput` that the disk would cause for `create` and a first charge; leave no file behind.

    A `path` that exists raises nothing here.
    """
    with _draft(path, entry) as draft, locked(draft, called=path) as db:
        rehearse(db, entry)


@contextmanager
def _draft(path: Path, entry: Entry) -> Iterator[Path]:
    """Yield a file next to `path` with a ledger and its first entry, `entry`; the file is removed when the block ends.

    Raise `WrongInput` if the folder is missing, and for an `OSError`, also if the block raises it.
    """
    if not path.parent.is_dir():
        raise WrongInput(f"{shown_path(path)}: its folder does not exist; make it first")
    draft = path.parent / f".ledger-{secrets.token_hex(8)}"
    try:
        with connected(draft, mode="rwc", called=path) as db:
            db.execute(f"PRAGMA application_id={APPLICATION}")
            db.execute(f"PRAGMA user_version={VERSION}")
            db.execute("BEGIN IMMEDIATE")
            for statement in TABLES:
                db.execute(statement)
            # a random predecessor, so that two ledgers with the same facts and time differ
            _insert(db, replace(entry, previous=secrets.token_hex(32), time=_now()))
            db.execute("COMMIT")
        yield draft
    except FileExistsError:
        raise WrongInput(f"{shown_path(path)} exists already and is never overwritten") from None
    except OSError as problem:
        raise WrongInput(f"{shown_path(path)} cannot be created: {problem.strerror}") from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def read(path: Path, db: sqlite3.Connection) -> tuple[Entry, ...]:
    """Return every entry, starting with the entry of the creation; `db` is an open connection to the ledger `path`.

    Raise `WrongInput` if the file is no ledger, or if an entry was changed, moved or removed.
    """
    entries, problems = examine(path, db)
    if problems:
        raise WrongInput(f"{shown_path(path)} was changed: {problems[0]}")
    return entries


def examine(path: Path, db: sqlite3.Connection) -> tuple[tuple[Entry, ...], list[str]]:
    """Return the entries before the first unreadable one, and the problems that were found, one sentence each.

    `db` is an open connection to the file `path`. Raise `WrongInput` if the file is no ledger of this version, is cut
    off, or has other tables or triggers.

    Each entry is checked for its hash, its number and the hash of the entry before it. Only if all of these are right,
    entries that are not allowed at their position are found (`misplaced`). Whether entries were removed from the end is
    checked only if there is no other problem.
    """
    rows, last = _rows(path, db)
    entries: list[Entry] = []
    problems: list[str] = []
    for index, (number, words, digest) in enumerate(rows):
        try:
            entry = parsed(words, digest)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as problem:
            problems.append(f"entry {number!r:.40} cannot be read: {error_line(problem)}")
            break
        if not number == entry.number == index:
            problems.append(f"entry {number} should be number {index}: one was removed or moved")
        if entries and entry.previous != entries[-1].hash:
            problems.append(f"entry {number} does not follow the entry before it")
        entries.append(entry)
    problems = problems or [*misplaced(entries)]
    if not problems and last != len(rows) - 1:
        problems.append("entries were removed from its end")
    return tuple(entries), problems


def append(db: sqlite3.Connection, head: Entry, entry: Entry) -> Entry:
    """Write `entry` after `head`, the last entry of the ledger, and return it as written.

    It is on disk when the surrounding lock is released. `db` is the connection that `locked` yields. The returned entry
    has its number, its time, the hash of `head` and its own hash. A closing entry (kind "finished") has an empty time.
    """
    time = "" if entry.kind == "finished" else _now()  # the time at which a run ended is never written
    following = replace(entry, number=head.number + 1, previous=head.hash, time=time)
    return replace(following, hash=_insert(db, following))


def set_file_time(path: Path, entries: Sequence[Entry]) -> None:
    """Set the file's time to the time of its last entry that has one, plus one second for each later entry.

    `entries` are all entries of the ledger `path`. The file's time then does not reveal when a run was closed, and
    copying tools still notice the change. A file of another user keeps the system time, because only the owner of a
    file can set its time.
    """
    last = max(at for at, entry in enumerate(entries) if entry.time)
    seconds = datetime.fromisoformat(entries[last].time).timestamp() + len(entries) - 1 - last
    with suppress(PermissionError):
        os.utime(path, (seconds, seconds))


def head(db: sqlite3.Connection) -> str:
    """Return the hash of the last entry of the ledger to which `db` is connected."""
    return str(db.execute("SELECT hash FROM entries ORDER BY number DESC LIMIT 1").fetchone()[0])


def rehearse(db: sqlite3.Connection, entry: Entry) -> None:
    """Write more bytes than `entry` needs into a scratch table, so that a full disk or a read-only file raises now.

    No entry is written. `db` is the connection that `locked` yields; `locked` turns errors of the disk into
    `WrongInput`.
    """
    size = 8192 + len(body(entry))
    db.execute("REPLACE INTO scratch (slot, filler) VALUES (0, zeroblob(?))", (size,))


def _insert(db: sqlite3.Connection, entry: Entry) -> str:
    words = body(entry)
    digest = hashed(words)
    db.execute("INSERT INTO entries VALUES (?, ?, ?)", (entry.number, words, digest))
    return digest


def _rows(path: Path, db: sqlite3.Connection) -> tuple[list[Any], Any]:
    """Return the rows (number, body, hash) as stored, and the highest number ever used, or None if there are no rows.

    `db` is an open connection to the file `path`. Raise `WrongInput` if the file is no ledger of this version, is cut
    off, or has other tables or triggers.
    """
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise WrongInput(f"{shown_path(path)} is not a ledger: expected a file that privaware made")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        raise WrongInput(f"{shown_path(path)}: expected a ledger of version {VERSION}, got {version}")
    expected = db.execute("PRAGMA page_count").fetchone()[0] * db.execute("PRAGMA page_size").fetchone()[0]
    if os.stat(path).st_size < expected:  # SQLite would notice only when it needs the missing pages
        raise WrongInput(f"{shown_path(path)} is damaged: its end is cut off; put back a copy of it")
    tables = db.execute("SELECT sql FROM sqlite_master WHERE name != 'sqlite_sequence'").fetchall()
    if sorted(map(repr, tables)) != sorted(repr((sql,)) for sql in TABLES):
        raise WrongInput(f"{shown_path(path)} was changed: its tables and guards are not a ledger's")
    rows = db.execute(
        "SELECT number, body, hash, (SELECT max(seq) FROM sqlite_sequence WHERE name = 'entries')"
        " FROM entries ORDER BY number"  # one statement, so that both results are of the same moment
    ).fetchall()
    return [row[:3] for row in rows], rows[-1][3] if rows else None


def _publish(draft: Path, path: Path) -> None:
    """Give the finished `draft` the name `path`, and make the name durable; raise `FileExistsError` if it is taken."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        with open(path, "xb") as file:
            file.write(draft.read_bytes())
            file.flush()
            os.fsync(file.fileno())
    sync_folder(path.parent)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
