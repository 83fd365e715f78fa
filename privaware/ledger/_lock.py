"""Open the SQLite file of a ledger, wait for its lock, and turn errors of the file into sentences."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from privaware._validate import expect_path
from privaware.errors import WrongInput

LOCK_TIMEOUT = 120.0
"""Seconds to wait for a lock that another process holds."""


@contextmanager
def locked(path: Path, *, called: Path | None = None) -> Iterator[sqlite3.Connection]:
    """Lock the ledger and yield a connection; writes are on disk when the block ends, and are dropped if it raises.

    Wait for at most `LOCK_TIMEOUT` seconds, then raise `WrongInput`. Messages name the file `called`, or else `path`.
    """
    with connected(path, called=called) as db:
        db.execute("BEGIN IMMEDIATE")
        yield db
        db.execute("COMMIT")


@contextmanager
def connected(path: Path, *, mode: str = "rw", called: Path | None = None) -> Iterator[sqlite3.Connection]:
    """Yield a connection to the file `path`; errors of SQLite are raised as `WrongInput`.

    Messages name the file `called`, or `path` if `called` is None. If `mode` is "rw" the file must exist; "rwc" creates
    it if it is missing.
    """
    if mode == "rw":
        expect_file(path)
    try:
        address = f"{path.as_uri()}?mode={mode}"  # a URI, because paths may contain ? and #
        db = sqlite3.connect(address, uri=True, timeout=LOCK_TIMEOUT, isolation_level=None)
        with closing(db):
            for setting in ("trusted_schema=OFF", "synchronous=EXTRA", "fullfsync=ON"):
                db.execute(f"PRAGMA {setting}")
            yield db
    except (sqlite3.Error, UnicodeError) as problem:  # UnicodeError: garbage in a message of SQLite
        raise WrongInput(f"{shown_path(called or path)} {_words(problem)}") from None


def absolute(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path; raise `WrongInput` if `path` is no path or has a zero character."""
    expect_path("a ledger", path)
    full = Path(path).absolute()
    if "\0" in str(full):
        raise WrongInput(f"expected a path without a zero character, got {shown_path(full)}")
    return full


def expect_file(path: Path) -> None:
    """Raise `WrongInput` unless `path` is a regular file.

    The file is not opened, because closing it would drop the locks of SQLite.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise WrongInput(f"there is no ledger at {shown_path(path)}") from None
    except OSError as problem:
        raise WrongInput(f"{shown_path(path)} cannot be opened: {problem.strerror}") from None
    if not stat.S_ISREG(mode):
        raise WrongInput(f"{shown_path(path)} is not a ledger: expected a file that privaware made")


def shown_path(path: Path) -> str:
    """Return a path for a message, in quotation marks, with escapes for characters that cannot be printed."""
    return f"'{path}'" if str(path).isprintable() else ascii(str(path))


def _words(problem: Exception) -> str:
    words = {
        sqlite3.SQLITE_BUSY: f"was held by another process for {LOCK_TIMEOUT:g} seconds: try later",
        sqlite3.SQLITE_FULL: "cannot be written because the disk is full: free some space",
        sqlite3.SQLITE_IOERR: "cannot be read or written: check its disk and the room left on it",
        sqlite3.SQLITE_READONLY: "cannot be written: make the file and its folder writable",
        sqlite3.SQLITE_CANTOPEN: "cannot be opened: make the file and its folder writable",
        sqlite3.SQLITE_PERM: "cannot be opened: make the file and its folder writable",
        sqlite3.SQLITE_NOTADB: "is not a ledger: expected a file that privaware made",
        sqlite3.SQLITE_CORRUPT: "is damaged: put back a copy of it",
    }
    code = getattr(problem, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary error code
    return words.get(code, f"cannot be used as a ledger: {error_line(problem)}")


def error_line(problem: Exception) -> str:
    """Return the message of `problem` on one line, cut to 200 characters."""
    return " ".join(str(problem).split())[:200]
