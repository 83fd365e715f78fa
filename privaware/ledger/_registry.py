"""Which ledgers know which rows: one data set has one budget, whatever its name.

In the user's data folder (`$PRIVAWARE_LEDGERS`, or the platform's) lie the key of the digests, for each digest of rows
the ledgers that were charged for them, and the ledgers of rows that came from memory. Only the user may read it, and
nothing of it is ever copied into a folder that is released: without the key a digest tells nothing about any row.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from privaware._files import atomic_write, ledger_folder
from privaware.errors import WrongInput
from privaware.events import NOTHING, Event
from privaware.ledger._ledger import Ledger
from privaware.ledger._spent import epsilon_of, spends, total

__all__ = ["KnownLedger", "digest_key", "known_ledgers", "memory_ledger", "register", "spent_together"]

KEY = "key"
KEY_BYTES = 32


@dataclass(frozen=True, kw_only=True)
class KnownLedger:
    """A ledger that was charged for some rows: its file then, and the hash of its first entry."""

    path: Path
    genesis: str

    def open(self) -> Ledger | None:
        """The ledger, if its file is still there and still the same."""
        try:
            ledger = Ledger.open(self.path)
        except WrongInput:
            return None
        return ledger if ledger.genesis == self.genesis else None


def digest_key() -> bytes:
    """The key of this user's digests: 256 bits of the operating system, made once and readable by the user only."""
    path = _private_folder() / KEY
    if not path.exists():
        draft = path.with_name(f"{KEY}-{secrets.token_hex(8)}")
        atomic_write(draft, secrets.token_bytes(KEY_BYTES), mode=0o600)
        try:
            os.link(draft, path)
        except FileExistsError:  # another process was first: take its key
            pass
        except OSError:  # a file system without hard links
            os.replace(draft, path)
        draft.unlink(missing_ok=True)
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise WrongInput(f"expected {KEY_BYTES} bytes in '{path}', got {len(key)}; put back a copy of it or remove it")
    return key


def memory_ledger(digest: str) -> Path:
    """The file of the ledger for rows that came from memory."""
    return _private_folder() / f"{digest}.ledger"


def known_ledgers(digest: str) -> list[KnownLedger]:
    """The ledgers that were charged for the rows of this digest, the first one first."""
    with suppress(FileNotFoundError):
        lines = (_private_folder() / f"{digest}.ledgers").read_text().splitlines()
        facts = [json.loads(line) for line in lines if line]
        return [KnownLedger(path=Path(fact["path"]), genesis=fact["genesis"]) for fact in facts]
    return []


def register(digest: str, ledger: Ledger) -> None:
    """Notes that the ledger is charged for the rows of this digest."""
    known = KnownLedger(path=ledger.path, genesis=ledger.genesis)
    if known in known_ledgers(digest):
        return
    line = json.dumps({"path": str(known.path), "genesis": known.genesis}) + "\n"
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND  # one short write: lines of two processes do not mix
    handle = os.open(_private_folder() / f"{digest}.ledgers", flags, 0o600)
    try:
        os.write(handle, line.encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def spent_together(ledgers: Iterable[Ledger], delta: float, event: Event = NOTHING) -> float:
    """The epsilon of several ledgers and of `event`, all about the same rows; an entry of two copies counts once."""
    counted: set[str] = set()
    together = event
    for ledger in ledgers:
        entries = [entry for entry in ledger.entries() if entry.hash not in counted]
        counted |= {entry.hash for entry in entries}
        together = together + total(spends(entries))
    return epsilon_of(together, delta)


def _private_folder() -> Path:
    folder = ledger_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise WrongInput(
            f"cannot keep digests of rows in '{folder}': {problem.strerror}; name another folder in PRIVAWARE_LEDGERS"
        ) from None
    return folder
