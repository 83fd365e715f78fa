"""Small files in the user's data folder: lists of JSON lines that several processes append to, and copies of entries.

A killed process or a full disk may leave an incomplete line. Such a line is overwritten by spaces, with one warning.

The registry copies every entry of the ledgers that it knows, into one file for each ledger. An entry is copied after it
is on disk, so every copied entry must be in its ledger. A ledger that lacks a copied entry was replaced by an older
copy, or is one of two copies that were both charged. Opening it raises `RolledBack`. `Ledger.restore` writes the lost
entries again.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from privaware._files import ledger_folder
from privaware.errors import WrongInput, warn_caller
from privaware.ledger._entry import Entry, body, parsed

RESTORED = "restored entry "
"""Prefix of the purpose of an entry that replaces a lost entry."""


class RolledBack(WrongInput):
    """The error for a ledger file that lacks entries which this user has seen in it before."""


def owner_folder() -> Path:
    """Return the data folder, created for this user alone if missing.

    Raise `WrongInput` if its path is not absolute, if it cannot be created, and on POSIX if another user owns it or can
    write to it.
    """
    folder = ledger_folder()
    if not folder.is_absolute():  # otherwise every working directory would have its own registry
        raise WrongInput(f"expected an absolute path in PRIVAWARE_LEDGERS, got '{folder}'; write the whole path")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = os.stat(folder)
    except OSError as problem:
        raise unusable(folder, problem) from None
    if os.name == "posix" and (facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o022):
        raise WrongInput(
            f"expected a folder for digests of rows that this user alone can write to, got '{folder}'; name another "
            "folder in PRIVAWARE_LEDGERS"
        )
    return folder


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the JSON objects in the file `path`, one for each line; an empty list if there is no file.

    A line that is no JSON object is overwritten by spaces in the file, and left out, with one warning. A file that
    cannot be read raises `WrongInput`.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise unusable(path, problem) from None
    lines = list(_lines(content))
    if any(line is None for _, _, line in lines):
        _blank_torn_lines(path)
    return [line for _, _, line in lines if line is not None]


def append_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Append `lines`, each as one line of JSON, to the file `path` in one durable write.

    A new file is readable by the user only. If the file ends inside a line, the first new line starts after a line
    break. Raise `WrongInput` if the file cannot be written; after a full disk it is as it was before.
    """
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    try:
        with _locked(path) as handle:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                content = b"\n" + content
            if os.write(handle, content) != len(content):
                os.ftruncate(handle, size)
                raise OSError(28, "No space left on device")
            os.fsync(handle)
    except OSError as problem:
        raise unusable(path, problem) from None


def _blank_torn_lines(path: Path) -> None:
    """Overwrite each line of the file `path` that is no JSON object by spaces, so that nothing else moves, and warn.

    An error of the disk is ignored.
    """
    with suppress(OSError), _locked(path, appending=False) as handle:
        content = os.pread(handle, os.fstat(handle).st_size, 0)
        for at, length, line in _lines(content):
            if line is None:
                os.pwrite(handle, b" " * length, at)
        os.fsync(handle)
    warn_caller(
        f"a line of '{path}' was torn, by a full disk or a process that was killed, and is left out: a ledger that "
        "was charged for these rows may be missing; give it if you know it (--ledger FILE)"
    )


def _lines(content: bytes) -> Iterator[tuple[int, int, dict[str, Any] | None]]:
    """Yield the position and length in bytes, and the object, of each line of `content` that is not blank.

    The object is None if the line is no JSON object.
    """
    at = 0
    for line in content.split(b"\n"):
        if line.strip():
            try:
                value = json.loads(line)
            except ValueError:
                value = None
            yield at, len(line), value if isinstance(value, dict) else None
        at += len(line) + 1


@contextmanager
def _locked(path: Path, *, appending: bool = True) -> Iterator[int]:
    """Yield the descriptor of the open file, on POSIX systems locked against other processes of this package.

    With `appending` a missing file is created, and writes go to its end.
    """
    handle = os.open(path, os.O_RDWR | (os.O_CREAT | os.O_APPEND if appending else 0), 0o600)
    try:
        if os.name == "posix":
            from filelock import lock_descriptor

            with suppress(NotImplementedError):
                lock_descriptor(handle, blocking=True)
        yield handle
    finally:
        os.close(handle)


def unusable(path: Path, problem: OSError) -> WrongInput:
    """Return the error for the file or folder `path` of the registry, which cannot be read or written.

    The message names `path` and says what `problem` says.
    """
    return WrongInput(
        f"cannot keep digests of rows in '{path}': {problem.strerror}; name another folder in PRIVAWARE_LEDGERS"
    )


def watch(genesis: str, entries: Iterable[Entry]) -> None:
    """Copy `entries` of the ledger whose first entry has the hash `genesis`; `note` then copies later entries.

    Do nothing if this ledger is copied already.
    """
    owner_folder()
    if not os.path.exists(_file(genesis)):
        append_lines(_file(genesis), map(_line, entries))


def note(genesis: str, entry: Entry) -> None:
    """Copy an entry that is on disk, if the registry copies the ledger whose first entry has the hash `genesis`.

    If the copy cannot be written, warn, because the entry itself is already in the ledger.
    """
    if not os.path.exists(_file(genesis)):
        return
    try:
        append_lines(_file(genesis), [_line(entry)])
    except WrongInput as problem:
        warn_caller(f"entry {entry.number} of the ledger is written but not copied: {problem}")


def lost_entries(genesis: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the copied entries that `entries` neither contain nor replace, in the order of their numbers.

    An entry that `Ledger.restore` wrote replaces the lost entry that it names. Return an empty list if the registry
    does not copy the ledger whose first entry has the hash `genesis`. A damaged copy raises what `parsed` raises.
    """
    if not os.path.exists(_file(genesis)):  # or the folder belongs to another user, who knows other ledgers
        return []
    present = {_origin(entry) for entry in entries}
    known = {line.get("hash"): line.get("body") for line in read_lines(_file(genesis))}
    copies = (parsed(words, digest) for digest, words in known.items())
    lost = {_origin(entry): entry for entry in copies if _origin(entry) not in present}
    return sorted(lost.values(), key=lambda entry: entry.number)


def restored_words(entry: Entry) -> str:
    """Return the purpose of the entry that restores the lost `entry`; it names the entry that was first lost."""
    return entry.what if entry.what.startswith(RESTORED) else f"{RESTORED}{_origin(entry)}: {entry.what}"


def _origin(entry: Entry) -> str:
    """Return the first 16 hexadecimal digits of the hash of `entry`, or of the lost entry that `entry` replaces."""
    return (entry.what.removeprefix(RESTORED) if entry.what.startswith(RESTORED) else entry.hash)[:16]


def _line(entry: Entry) -> dict[str, str]:
    return {"hash": entry.hash, "body": body(entry)}


def _file(genesis: str) -> Path:
    return ledger_folder() / f"{genesis}.entries"
