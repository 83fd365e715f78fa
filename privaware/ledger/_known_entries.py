"""Copies of ledger entries in the owner's data folder, which reveal that a ledger was replaced by an older copy.

The registry copies every entry of the ledgers that it knows, into one file for each ledger. An entry is copied after it
is on disk, so every copy must be in the chain. A ledger that lacks one was replaced by an older copy, or is one of two
copies that were both charged. Opening it raises. `Ledger.restore` writes the lost entries again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from privaware._files import ledger_folder
from privaware.errors import WrongInput, warn_caller
from privaware.ledger._entry import Entry, body, parsed
from privaware.ledger._owner_folder import append_lines, owner_folder, read_lines

__all__ = ["RolledBack", "lost_entries", "note", "restored_words", "watch"]

RESTORED = "restored entry "
"""Prefix of the purpose of an entry that replaces a lost entry."""


class RolledBack(WrongInput):
    """The error for a ledger that lacks entries which it had before."""


def watch(genesis: str, entries: Iterable[Entry]) -> None:
    """Start to copy the entries of the ledger whose first entry has the hash `genesis`: copy `entries` now.

    Do nothing if this ledger is copied already.
    """
    owner_folder()
    if not os.path.exists(_file(genesis)):
        append_lines(_file(genesis), map(_line, entries))


def note(genesis: str, entry: Entry) -> None:
    """Copy an entry that is on disk, if the registry copies the ledger whose first entry has the hash `genesis`.

    The charge is already written, so a full disk causes a warning and does not stop the run.
    """
    if not os.path.exists(_file(genesis)):
        return
    try:
        append_lines(_file(genesis), [_line(entry)])
    except WrongInput as problem:
        warn_caller(f"entry {entry.number} of the ledger is written but not copied: {problem}")


def lost_entries(genesis: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the copied entries that `entries` neither contain nor replace, in the order of their numbers.

    Return none if the registry does not copy the ledger whose first entry has the hash `genesis`.
    """
    if not os.path.exists(_file(genesis)):  # or the folder belongs to another user, who knows other ledgers
        return []
    lines = read_lines(_file(genesis))
    present = {_origin(entry) for entry in entries}
    known = {line.get("hash"): line.get("body") for line in lines}
    copies = (parsed(words, digest) for digest, words in known.items())
    lost = {_origin(entry): entry for entry in copies if _origin(entry) not in present}
    return sorted(lost.values(), key=lambda entry: entry.number)


def restored_words(entry: Entry) -> str:
    """Return the purpose of a restored entry, which names the entry that it replaces."""
    return entry.what if entry.what.startswith(RESTORED) else f"{RESTORED}{_origin(entry)}: {entry.what}"


def _origin(entry: Entry) -> str:
    """Return the first 16 digits of the hash of this entry, or of the lost entry that it replaces."""
    return (entry.what.removeprefix(RESTORED) if entry.what.startswith(RESTORED) else entry.hash)[:16]


def _line(entry: Entry) -> dict[str, str]:
    return {"hash": entry.hash, "body": body(entry)}


def _file(genesis: str) -> Path:
    return ledger_folder() / f"{genesis}.entries"
