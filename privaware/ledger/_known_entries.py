"""What the owner's data folder knows of the entries of a ledger: an older copy of the file is noticed.

The registry keeps a copy of every entry of the ledgers that it knows, in one file for each ledger. An entry is copied
after it is on disk, so that every copy must be found in the chain. A ledger that lacks one was replaced by an older
copy, or is one of two copies that were both charged: it is refused. `Ledger.restore` writes the lost entries again.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path

from privaware._files import ledger_folder
from privaware.errors import WrongInput
from privaware.ledger._entry import Entry, body, parsed
from privaware.ledger._owner_folder import append_lines, owner_folder, read_lines

__all__ = ["RolledBack", "lost_entries", "note", "restored_words", "watch"]

RESTORED = "restored entry "
"""How the purpose of an entry begins that stands for a lost one."""


class RolledBack(WrongInput):
    """A ledger lacks entries that it had before."""


def watch(genesis: str, entries: Iterable[Entry]) -> None:
    """Begins to keep copies of the entries of the ledger whose first entry has the hash `genesis`."""
    owner_folder()
    if not os.path.exists(_file(genesis)):
        append_lines(_file(genesis), map(_line, entries))


def note(genesis: str, entry: Entry) -> None:
    """Keeps a copy of an entry that is on disk, if the registry knows the ledger.

    The charge stands, so that a full disk is warned of and does not stop the run.
    """
    if not os.path.exists(_file(genesis)):
        return
    try:
        append_lines(_file(genesis), [_line(entry)])
    except WrongInput as problem:
        warnings.warn(f"entry {entry.number} of the ledger is written but not copied: {problem}", stacklevel=3)


def lost_entries(genesis: str, entries: Iterable[Entry]) -> list[Entry]:
    """The entries that the registry knows and that the chain neither holds nor has written again, in order."""
    if not os.path.exists(_file(genesis)):  # or the folder is of another user, who knows other ledgers
        return []
    lines = read_lines(_file(genesis))
    present = {_origin(entry) for entry in entries}
    known = {line.get("hash"): line.get("body") for line in lines}
    copies = (parsed(words, digest) for digest, words in known.items())
    lost = {_origin(entry): entry for entry in copies if _origin(entry) not in present}
    return sorted(lost.values(), key=lambda entry: entry.number)


def restored_words(entry: Entry) -> str:
    """How an entry is called that is written again: it names the entry that it stands for."""
    return entry.what if entry.what.startswith(RESTORED) else f"{RESTORED}{_origin(entry)}: {entry.what}"


def _origin(entry: Entry) -> str:
    """The hash, or its beginning, of the entry that this one is or stands for."""
    return (entry.what.removeprefix(RESTORED) if entry.what.startswith(RESTORED) else entry.hash)[:16]


def _line(entry: Entry) -> dict[str, str]:
    return {"hash": entry.hash, "body": body(entry)}


def _file(genesis: str) -> Path:
    return ledger_folder() / f"{genesis}.entries"
