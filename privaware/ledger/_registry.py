"""The registry of which ledgers were charged for which rows, so that one data set has one budget under any name.

The registry is in the user's data folder (`$PRIVAWARE_LEDGERS`, or the default of the platform). It holds the key of
the digests; for each digest of rows, the ledgers that were charged for them, and a sketch of the rows by which another
table with most of these rows is recognised; copies of the entries of these ledgers; and the ledgers of rows that came
from memory. Its key, sketches and lists are readable by the user only, and nothing of the registry is copied into a
released folder. Without the key, a digest reveals nothing about any row.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from privaware._files import atomic_write, ledger_folder
from privaware.errors import WrongInput
from privaware.events import NOTHING, Event
from privaware.ledger._entry import Entry, Facts
from privaware.ledger._ledger import Ledger
from privaware.ledger._owner_folder import (
    RolledBack,
    append_lines,
    lost_entries,
    owner_folder,
    read_lines,
    unusable,
    watch,
)
from privaware.ledger._spent import epsilon_of, spends, total

KEY = "key"
KEY_BYTES = 32
"""Length of the key of the digests in bytes."""
_NEW_KEY = secrets.token_bytes(KEY_BYTES)
"""The key that this process writes if the data folder has none."""
_UNWRITTEN: ContextVar[bool] = ContextVar("unwritten", default=False)
"""Whether `digest_key` leaves a new key unwritten."""


class HasEntries(Protocol):
    """The interface of a ledger, or of its known charges: the method `entries` returns all entries in order."""

    def entries(self) -> tuple[Entry, ...]: ...


@dataclass(frozen=True, kw_only=True)
class KnownCharges:
    """The entries of a known ledger, from its file or, if the file cannot be read, from copies in the data folder.

    Attributes
    ----------
    path
        The file of the ledger.
    genesis
        The hash of the first entry.
    known
        The entries; empty if the file cannot be read and the data folder has no copies.
    problem
        Why the file cannot be read; empty if it was read.
    """

    path: Path
    genesis: str
    known: tuple[Entry, ...]
    problem: str = ""

    def entries(self) -> tuple[Entry, ...]:
        """Return the entries in order."""
        return self.known

    @property
    def facts(self) -> Facts | None:
        """The facts fixed when the ledger was created (limit, delta, unit, ...); None if no entries are known."""
        return self.known[0].facts if self.known else None

    @property
    def promise(self) -> tuple[str, int, str] | None:
        """The unit, the cap and the relation of the ledger; None if no entries are known."""
        return None if self.facts is None else self.facts.promise

    def spent(self) -> float:
        """Return the epsilon of all charges, composed, at the delta of the ledger; `known` must not be empty."""
        assert self.facts is not None
        return spent_together([self], self.facts.delta)


@dataclass(frozen=True, kw_only=True)
class KnownLedger:
    """A ledger that was charged for some rows: its file at that time (`path`), and the hash of its first entry.

    This hash, `genesis`, tells whether the file still holds this ledger.
    """

    path: Path
    genesis: str

    def open(self) -> Ledger | None:
        """Return the opened ledger; None if its file is gone, damaged or changed, or is another ledger.

        Raise `RolledBack` if the file is an older copy of the ledger.
        """
        ledger = self._opened()
        return ledger if isinstance(ledger, Ledger) else None

    def charges(self) -> KnownCharges:
        """Return the charges of the ledger, from the copies in the data folder if its file cannot be read.

        Raise `RolledBack` if the file is an older copy of the ledger.
        """
        ledger = self._opened()
        if isinstance(ledger, Ledger):
            return KnownCharges(path=self.path, genesis=self.genesis, known=ledger.entries())
        copies: tuple[Entry, ...] = ()
        with suppress(WrongInput, ValueError, TypeError, KeyError):  # damaged copies count as none
            copies = tuple(lost_entries(self.genesis, ()))
        whole = bool(copies) and copies[0].facts is not None
        return KnownCharges(path=self.path, genesis=self.genesis, known=copies if whole else (), problem=ledger)

    def _opened(self) -> Ledger | str:
        """Return the ledger, or the reason why its file cannot be used.

        Raise `RolledBack` if the file is an older copy of the ledger.
        """
        try:
            ledger = Ledger.open(self.path)
        except RolledBack:
            raise
        except WrongInput as problem:
            return str(problem)
        return ledger if ledger.genesis == self.genesis else "another ledger is in its place"


def digest_key() -> bytes:
    """Return the secret key of this user's digests of rows: 32 random bytes, created at the first call.

    Its file is readable by the user only. Within `unwritten_key` no file is created. Raise `WrongInput` if others can
    open the file (on POSIX), if it has another length, or if it cannot be read or written.
    """
    if _UNWRITTEN.get() and not knows_rows():
        return _NEW_KEY
    path = owner_folder() / KEY
    if not os.path.exists(path):
        _make_key(path)
    try:
        key, mode = path.read_bytes(), stat.S_IMODE(path.stat().st_mode)
    except OSError as problem:
        raise unusable(path, problem) from None
    if os.name == "posix" and mode & 0o077:
        raise WrongInput(f"expected that only its owner can open '{path}', got mode {mode:o}; type `chmod 600 {path}`")
    if len(key) != KEY_BYTES:
        raise WrongInput(f"expected {KEY_BYTES} bytes in '{path}', got {len(key)}; put back a copy of it or remove it")
    return key


@contextmanager
def unwritten_key() -> Iterator[None]:
    """Let `digest_key` return the key that this process would write, if there is none, without writing it.

    Digests that only this process keeps in memory then leave no trace. Later digests of this process have the same key,
    unless another process writes one first.
    """
    token = _UNWRITTEN.set(True)
    try:
        yield
    finally:
        _UNWRITTEN.reset(token)


def _make_key(path: Path) -> None:
    draft = path.with_name(f"{KEY}-{secrets.token_hex(8)}")
    try:
        atomic_write(draft, _NEW_KEY, mode=0o600)
        try:
            os.link(draft, path)
        except FileExistsError:  # another process created a key first: use that key
            pass
        except OSError:  # a file system without hard links
            os.replace(draft, path)
        draft.unlink(missing_ok=True)
    except OSError as problem:
        raise unusable(path, problem) from None


def memory_ledger(digest: str) -> Path:
    """Return the path of the ledger for rows that came from memory and have this digest; the file may be missing."""
    return owner_folder() / f"{digest}.ledger"


def known_ledgers(digest: str) -> list[KnownLedger]:
    """Return the ledgers that were registered for the rows with this digest, the earliest first."""
    return [
        KnownLedger(path=Path(line["path"]), genesis=line["genesis"])
        for line in read_lines(owner_folder() / f"{digest}.ledgers")
        if isinstance(line.get("path"), str) and isinstance(line.get("genesis"), str)
    ]


def known_sketches() -> Iterator[tuple[str, bytes]]:
    """Yield the digest of each known table, and its sketch as `register` received it, in the order of the digests.

    Raise `WrongInput` if a sketch cannot be read.
    """
    for path in sorted(owner_folder().glob("*.sketch")):
        try:
            yield path.stem, path.read_bytes()
        except OSError as problem:
            raise unusable(path, problem) from None


def knows_rows() -> bool:
    """Return whether this user's data folder has a key, without which it knows no rows; no key is created."""
    return os.path.exists(ledger_folder() / KEY)


def forget_sketch(digest: str) -> None:
    """Remove the sketch of the rows with this `digest`, if it exists; call this if the sketch cannot be read.

    The next charge for these rows writes a new sketch.
    """
    with suppress(OSError):
        (owner_folder() / f"{digest}.sketch").unlink(missing_ok=True)


def register(digest: str, ledger: Ledger, sketch: bytes | None = None) -> None:
    """Record, before a charge, that the ledger is for the rows with this digest, and start to copy its entries.

    What is already recorded, such as a sketch, stays unchanged. Raise `WrongInput` if the data folder cannot be
    written.

    Parameters
    ----------
    digest : str
        The keyed digest of the rows.
    ledger : Ledger
        The ledger that will be charged.
    sketch : bytes, optional
        The sketch of the rows, by which another table with most of these rows is recognised; it is stored unchanged.
    """
    folder = owner_folder()
    watch(ledger.genesis, ledger.entries())
    if sketch is not None and not (folder / f"{digest}.sketch").exists():
        try:
            atomic_write(folder / f"{digest}.sketch", sketch, mode=0o600)
        except OSError as problem:
            raise unusable(folder, problem) from None
    if KnownLedger(path=ledger.path, genesis=ledger.genesis) not in known_ledgers(digest):
        append_lines(folder / f"{digest}.ledgers", [{"path": str(ledger.path), "genesis": ledger.genesis}])


def charged_together(ledgers: Iterable[HasEntries], event: Event = NOTHING) -> Event:
    """Return `event` composed with all charges of `ledgers`, which are ledgers of the same rows.

    An entry that several ledgers have, with the same hash, counts once: a copied ledger shares entries with the
    original.
    """
    counted: set[str] = set()
    together = event
    for ledger in ledgers:
        every = ledger.entries()
        entries = [entry for entry in every if entry.hash not in counted]
        counted |= {entry.hash for entry in entries}
        if entries:
            assert every[0].facts is not None
            together = together + total(spends(entries, every[0].facts))
    return together


def spent_together(ledgers: Iterable[HasEntries], delta: float, event: Event = NOTHING) -> float:
    """Return the epsilon at `delta` of `event` and all charges of `ledgers` together (`charged_together`)."""
    return epsilon_of(charged_together(ledgers, event), delta)
