"""The ledger: create, open, charge, close and read."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from privaware import _rounded
from privaware._summary import Summarised, card_html
from privaware.accounting import DEFAULT_DELTA
from privaware.errors import BudgetExceeded, PrivawareError, WrongInput, at_command_line
from privaware.events import Event
from privaware.ledger import _chain as chain
from privaware.ledger import _lock as lock
from privaware.ledger._entry import Entry, Facts, as_float, author, find, unfinished, writable
from privaware.ledger._owner_folder import RolledBack, lost_entries, note, restored_words
from privaware.ledger._print import printable
from privaware.ledger._spent import SLACK, epsilon_of, limit_of, overspent, refuse_endless, rounded_up, spends, total
from privaware.ranks import expect_led

Paths = str | os.PathLike[str]
BEGUN: list[str] = []
"""Files of the ledgers that this process began to charge, in order; an interrupted command names them."""
NO_TOTAL = "two such ledgers then have no common total"
"""What a second ledger for the same rows, with another unit or cap, means."""
CHARGES_SHOWN = 5
"""Largest number of charges in a card for notebooks."""


@dataclass(frozen=True, repr=False)
class Ledger(Summarised):
    """The privacy budget of one data set, in an append-only file with a hash chain.

    `Ledger.create` makes a new file and `Ledger.open` opens one. Every call opens the file again, so threads and forked
    processes can share a ledger.

    Attributes
    ----------
    path
        The file.
    facts
        The first limit, delta, unit, cap, neighbouring relation and partitions, fixed at creation. The present limit is
        the property `limit` of the ledger.
    genesis
        The hash of the first entry, which identifies the ledger.
    lasting
        Whether the file is kept. A temporary ledger is removed by its creator and is not registered for its rows.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from privaware.events import Gaussian
    >>> with TemporaryDirectory() as folder:
    ...     ledger = Ledger.create(f"{folder}/patients.ledger", limit=3.0)
    ...     charges = [ledger.spend(Gaussian(noise=4.0), what="a noisy sum") for _ in range(2)]
    ...     alone, together = ledger.json()["events"][0]["epsilon"], ledger.spent()
    >>> alone < together < 2 * alone  # composed exactly, which is less than the sum
    True
    """

    path: Path
    facts: Facts
    genesis: str
    lasting: bool = True

    def _facts(self) -> dict[str, Any]:
        """Return the path, the delta, the unit, a cap above 1 and the relation by name, for `repr`; no file is read."""
        protected = {"unit": self.unit, **({"cap": self.facts.cap} if self.facts.cap > 1 else {})}
        return {"path": str(self.path), "delta": self.delta, **protected, "relation": self.relation}

    def _repr_html_(self) -> str:
        """Return a card (HTML) with the spent epsilon, the limit and the last charges.

        If the ledger cannot be read, the card shows the error instead.
        """
        try:
            book = self.json()
        except (PrivawareError, OSError) as problem:
            return card_html(type(self).__name__, self._facts(), str(problem))
        budget = {"spent": book["epsilon_spent"], "limit": book["limit"], "charges": len(book["events"])}
        charges = {
            f"charge {each['number']}": f"{each['what']} (epsilon {_rounded.rounded_up(each['epsilon'])})"
            for each in book["events"][-CHARGES_SHOWN:]
        }
        return card_html(type(self).__name__, {**self._facts(), **budget, **charges})

    @classmethod
    def create(
        cls,
        path: Paths,
        *,
        limit: float,
        delta: float = DEFAULT_DELTA,
        unit: str = "row",
        relation: str = "add_remove",
        cap: int = 1,
        partitions: Iterable[str] = (),
        who: str | None = None,
    ) -> Ledger:
        """Create a new ledger; raise `WrongInput` if `path` exists.

        Parameters
        ----------
        path
            The new file.
        limit
            The largest total epsilon.
        delta
            The delta of the total.
        unit, cap
            The unit of privacy, and the largest number of rows of one unit.
        relation
            "add_remove" or "replace_one".
        partitions
            The names of disjoint parts of the rows. Only the most costly part counts, unless a unit may be in several:
            if persons are protected or rows are replaced, the costs of all parts add up.
        who
            The author of the first entry. Default: the user of the system.

        Returns
        -------
        Ledger
            The new ledger.
        """
        facts = Facts(
            limit=as_float("limit", limit),
            delta=as_float("delta", delta),
            unit=unit,
            relation=relation,
            cap=cap,
            partitions=tuple(partitions),
        )
        absolute = lock.absolute(path)
        chain.create(absolute, Entry(kind="created", who=author(who), what="created", facts=facts))
        return cls.open(absolute)

    @classmethod
    def open(cls, path: Paths) -> Ledger:
        """Open the ledger at `path`.

        Raise `WrongInput` if there is none, if its hash chain is broken, or if it lacks entries that it had before.
        """
        absolute = lock.absolute(path)
        with lock.connected(absolute) as db:
            created = chain.read(absolute, db)[0]
        assert created.facts is not None
        ledger = cls(path=absolute, facts=created.facts, genesis=created.hash)
        ledger.entries()
        return ledger

    @classmethod
    def open_or_create(
        cls,
        path: Paths,
        *,
        limit: float | None = None,
        delta: float | None = None,
        unit: str = "row",
        relation: str = "add_remove",
        cap: int = 1,
        partitions: Iterable[str] | None = None,
        new_limit: float | None = None,
    ) -> Ledger:
        """Open the ledger at `path`, or create it with these facts; raise `WrongInput` if it has other facts.

        An existing ledger must have this `unit`, `relation` and `cap`, and this `limit`, `delta` and `partitions` if
        they are not None. For a new ledger, None means the limit `new_limit` (`WrongInput` is raised if it is None
        too), the delta `privaware.accounting.DEFAULT_DELTA`, and no partitions.
        """
        facts: dict[str, Any] = {"unit": unit, "relation": relation, "cap": cap}
        requested = {"limit": limit, "delta": delta} | facts
        if partitions is not None:
            requested["partitions"] = facts["partitions"] = tuple(partitions)
        absolute = lock.absolute(path)
        if not os.path.lexists(absolute):
            first = new_limit if limit is None else limit
            if first is None:
                raise WrongInput(f"there is no ledger at {lock.shown_path(absolute)}: give a limit for it")
            try:
                return cls.create(absolute, limit=first, delta=DEFAULT_DELTA if delta is None else delta, **facts)
            except WrongInput:
                if not os.path.lexists(absolute):  # otherwise another process created it first: open that one
                    raise
        ledger = cls.open(absolute)
        ledger._expect_facts({name: value for name, value in requested.items() if value is not None})
        return ledger

    @staticmethod
    def restore(path: Paths, *, who: str | None = None) -> tuple[Entry, ...]:
        """Write entries that an older copy of a ledger lacks into it again, so that they count as spent.

        The entries are taken from the copies in this user's folder of ledgers.

        Parameters
        ----------
        path : str or path
            The ledger file that was restored from a copy. A ledger that lacks no known entry raises `WrongInput`.
        who : str, optional
            The author of the new entries. Default: the user of the system.

        Returns
        -------
        tuple of Entry
            The new entries; each names the entry that it replaces.
        """
        absolute, written = lock.absolute(path), []
        with lock.locked(absolute) as db:
            entries = chain.read(absolute, db)
            lost = lost_entries(entries[0].hash, entries)
            if not lost:
                raise WrongInput(f"{lock.shown_path(absolute)} lacks no entry that is known: nothing to restore")
            head = entries[-1]
            for entry in lost:
                head = chain.append(db, head, replace(entry, who=author(who), what=restored_words(entry)))
                written.append(head)
        for entry in written:
            note(entries[0].hash, entry)
        return tuple(written)

    @staticmethod
    def rehearse_creation(path: Paths) -> None:
        """Raise the errors that the disk would raise for a new ledger at `path` and its first charge; leave no file.

        A `path` that exists raises nothing here.
        """
        entry = Entry(kind="created", who=author(None), what="created", facts=Facts(limit=1.0, delta=DEFAULT_DELTA))
        chain.rehearse_creation(lock.absolute(path), entry)

    @property
    def limit(self) -> float:
        return limit_of(self.entries())

    @property
    def delta(self) -> float:
        return self.facts.delta

    @property
    def unit(self) -> str:
        return self.facts.unit

    @property
    def relation(self) -> str:
        return self.facts.relation

    @property
    def unit_settings(self) -> str:
        """The settings that give a run the unit and the cap of this ledger, as a message names them (`for_caller`)."""
        return f"--unit={shlex.quote(self.unit)}" + (f" --cap={self.facts.cap}" if self.facts.cap > 1 else "")

    def spend(
        self,
        event: Event,
        *,
        what: str,
        who: str | None = None,
        run: str | None = None,
        partition: str | None = None,
        seed: int | None = None,
        rows: str | None = None,
    ) -> Entry:
        """Charge `event`: write it to disk, or raise and write nothing.

        Raise `BudgetExceeded` if the total would exceed the limit, and `Refused` if no finite epsilon is proven or if
        `torchrun` started several processes and this one does not lead them.

        Parameters
        ----------
        event
            The cost of a release.
        what
            The purpose of the charge in words.
        who
            The author of the entry. Default: the user of the system.
        run
            The key of the run. If the run was already charged for the same event, partition, seed and rows and has not
            finished, its entry is returned and nothing is charged. Any other charge for the same run raises
            `WrongInput`. Rows are compared only if both charges have them. Without a key, every call charges.
        partition
            The part of the rows that the release uses, a name in `facts.partitions` (another raises `WrongInput`).
            Default: all rows.
        seed
            The seed of the run, if it is seeded.
        rows
            The keyed digest of the rows. Default: the entry has none.

        Returns
        -------
        Entry
            The charge, which is on disk.
        """
        expect_led()
        entry = self._charge(event, what=what, who=who, run=run, partition=partition, seed=seed, rows=rows)
        entries = self.entries()  # checked before locking, and again only if another entry was added
        BEGUN.append(str(self.path))
        if charged := self._admit(entries, entry):
            return charged
        with lock.locked(self.path) as db:
            if chain.head(db) != entries[-1].hash:
                entries = self._same(chain.read(self.path, db))
                if charged := self._admit(entries, entry):
                    return charged
            spent = chain.append(db, entries[-1], entry)
        return self._noted(spent)

    def ready(
        self,
        event: Event,
        *,
        what: str = "this",
        run: str | None = None,
        partition: str | None = None,
        seed: int | None = None,
    ) -> None:
        """Raise what `spend` would raise with these arguments, and charge nothing; a test write checks the disk.

        Which process of `torchrun` calls is not checked. The rows of a run that was charged before are not compared.
        """
        entry = self.expect_room(event, what=what, run=run, partition=partition, seed=seed)
        with lock.locked(self.path) as db:
            chain.rehearse(db, entry)

    def expect_room(
        self,
        event: Event,
        *,
        what: str = "this",
        run: str | None = None,
        partition: str | None = None,
        seed: int | None = None,
    ) -> Entry:
        """Return the entry of this charge, not yet written, or raise what `spend` would raise; the file is only read.

        The arguments mean the same as for `spend`. For a run that was charged before, `spend` would write no entry, but
        an entry is returned here. The rows of that run are not compared, and which process of `torchrun` calls is not
        checked.
        """
        entry = self._charge(event, what=what, who=None, run=run, partition=partition, seed=seed)
        self._admit(self.entries(), entry)
        return entry

    def finish(
        self,
        run: str,
        *,
        files: Mapping[str, str] | None = None,
        release: str | None = None,
        who: str | None = None,
        what: str = "finished",
    ) -> Entry:
        """Close a charged run, once: raise `WrongInput` if nothing was charged for it or it is closed already.

        Parameters
        ----------
        run
            The key under which the run was charged.
        files
            The SHA-256 hashes of the files that the run releases, by name. A file that claims to come from this run,
            but that neither this entry nor a later audit names, is a forgery. Default: no hashes.
        release
            The kind of release: "model", "selection", "transformation", "crossover", "audit" or "pilot".
        who
            The author of the entry. Default: the user of the system.
        what
            The purpose of the entry in words.

        Returns
        -------
        Entry
            The closing entry, which is on disk.
        """
        entry = Entry(kind="finished", who=author(who), what=what, run=run, files=files, release=release)
        with lock.locked(self.path) as db:
            entries = self._same(chain.read(self.path, db))
            if find(entries, "spend", run) is None:
                raise WrongInput(f"{lock.shown_path(self.path)}: nothing was charged for run {run!r}")
            if find(entries, "finished", run):
                raise WrongInput(f"{lock.shown_path(self.path)}: run {run!r} has already ended")
            closing = chain.append(db, entries[-1], entry)
        chain.set_file_time(self.path, (*entries, closing))
        return self._noted(closing)

    def close(self, number: int, *, who: str | None = None) -> Entry:
        """Close an unfinished run without a result; its charge stays spent, and the run cannot be resumed.

        Parameters
        ----------
        number
            The number of the entry that charged the run. Any other number raises `WrongInput`.
        who
            The author of the closing entry. Default: the user of the system.

        Returns
        -------
        Entry
            The closing entry, which is on disk and vouches for no file.
        """
        runs = {entry.number: entry.run for entry in unfinished(self.entries())}
        run = runs.get(number)
        if run is None:
            numbers = f"one of {', '.join(map(str, runs))}" if runs else "but every run has ended"
            where = lock.shown_path(self.path)
            raise WrongInput(f"{where}: expected the entry of an unfinished run, {numbers}, got {number!r:.40}")
        return self.finish(run, files={}, who=who, what="closed without a result")

    def record_audit(self, run: str, *, files: Mapping[str, str], what: str, who: str | None = None) -> Entry:
        """Record the SHA-256 hashes of the files that an audit adds to the release of a closed run; return the entry.

        `run` is the key of the run, `files` maps names to hashes, `what` is the purpose in words, and `who` the author
        (default: the user of the system). Nothing is charged. Raise `WrongInput` if `run` is not closed.
        """
        entry = Entry(kind="audit", who=author(who), what=what, run=run, files=files)
        with lock.locked(self.path) as db:
            entries = self._same(chain.read(self.path, db))
            if find(entries, "finished", run) is None:
                raise WrongInput(f"{lock.shown_path(self.path)}: run {run!r} has not finished: audit what it released")
            audited = chain.append(db, entries[-1], entry)
        return self._noted(audited)

    def set_limit(self, epsilon: float, *, who: str | None = None) -> Entry:
        """Change the limit to `epsilon`, and return the entry that records the change.

        If this is the limit already, nothing is written, and the entry that set it is returned. `who` is the author of
        the entry (default: the user of the system). Raise `WrongInput` if the spent epsilon is above the new limit or
        the new limit is not a finite number above 0, and `Refused` if the spent epsilon is infinite.
        """
        limit = as_float("limit", epsilon)
        entry = Entry(kind="limit", who=author(who), what="limit changed", limit=limit)
        with lock.locked(self.path) as db:
            entries = self._same(chain.read(self.path, db))
            spent = self._epsilon(entries)
            refuse_endless(spent, entries, self.delta, lock.shown_path(self.path))
            if not spent <= limit * (1 + SLACK):
                raise WrongInput(
                    f"{lock.shown_path(self.path)}: expected a limit of at least {rounded_up(spent)}, which is"
                    f" spent and cannot be taken back, got {_exact(limit)}"
                )
            if limit == limit_of(entries):
                return [entry for entry in entries if entry.kind in ("created", "limit")][-1]
            changed = chain.append(db, entries[-1], entry)
        return self._noted(changed)

    def total(self, *more: Event) -> Event:
        """Return all charges composed, and with them `more`, events on all rows that are not charged, as one event."""
        return total((*spends(self.entries(), self.facts), *((None, event) for event in more)))

    def spent(self, last: int | None = None) -> float:
        """Return the epsilon of all charges, composed, at the delta of the ledger; 0 without charges.

        If `last` is given, only the charges up to and including the entry of this number count.
        """
        entries = self.entries()
        return self._epsilon(entries if last is None else entries[: last + 1])

    def remaining(self) -> float:
        """Return the limit minus the spent epsilon, at least 0; a larger charge may fit, because charges compose."""
        entries = self.entries()
        return max(0.0, limit_of(entries) - self._epsilon(entries))

    def history(self) -> list[tuple[Entry, float]]:
        """Return each charge and the epsilon of all charges up to and including it, composed, in order."""
        return self._history(self.entries())

    def entries(self) -> tuple[Entry, ...]:
        """Return every entry in order; the first entry created the ledger.

        Raise `WrongInput` if the file was changed, was replaced by another ledger, or lacks entries that it had before.
        """
        with lock.connected(self.path) as db:
            try:
                return self._same(chain.read(self.path, db))
            except RolledBack:  # another process may have added an entry after this one read the file
                return self._same(chain.read(self.path, db))

    def entry(self, hash: str) -> Entry | None:
        """Return the entry with this hash, or None."""
        return next((entry for entry in self.entries() if entry.hash == hash), None)

    def find(self, run: str) -> Entry | None:
        """Return the charge of the run with the key `run`, or None."""
        return find(self.entries(), "spend", run)

    def closing(self, run: str) -> Entry | None:
        """Return the entry with which `finish` or `close` closed the run with the key `run`, or None."""
        return find(self.entries(), "finished", run)

    def json(self, *, totals: bool = False) -> dict[str, Any]:
        """Return the whole ledger as plain values: path, facts, charges, spent epsilon and more (see `printable`).

        The `epsilon` of an event is its cost without the other events. With `totals`, each event also has the `total`
        of all events up to and including it, composed. This needs one more run of the accountant for each event.
        """
        entries = self.entries()
        running = [total for _, total in self._history(entries)] if totals else None
        return printable(self.path, self.facts, entries, self._epsilon(entries), running)

    @staticmethod
    def verify(path: Paths) -> list[str]:
        """Return what is wrong with the ledger at `path`, one sentence each; an empty list if nothing is.

        Whether a limit was exceeded is checked only if nothing else is wrong. Raise `WrongInput` if there is no file at
        `path`.
        """
        absolute = lock.absolute(path)
        lock.expect_file(absolute)
        try:
            with lock.connected(absolute) as db:
                entries, problems = chain.examine(absolute, db)
                damage = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        except WrongInput as problem:
            return [str(problem)]
        if damage != "ok":
            problems.append(f"the file is damaged: {' '.join(str(damage).split())}")
        if not problems and (lost := lost_entries(entries[0].hash, entries)):
            problems.append(_rolled_back(absolute, len(lost)))
        return problems or list(overspent(entries))

    def _same(self, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        if entries[0].hash != self.genesis:
            raise WrongInput(f"{lock.shown_path(self.path)} was replaced by another ledger: open it again")
        if self.lasting and (lost := lost_entries(self.genesis, entries)):
            raise RolledBack(_rolled_back(self.path, len(lost)))
        return entries

    def _history(self, entries: tuple[Entry, ...]) -> list[tuple[Entry, float]]:
        charges = [entry for entry in entries if entry.event is not None]
        return [(entry, self._epsilon(entries[: entry.number + 1])) for entry in charges]

    def _noted(self, entry: Entry) -> Entry:
        if self.lasting:
            note(self.genesis, entry)
        return entry

    def _epsilon(self, entries: Iterable[Entry]) -> float:
        return epsilon_of(total(spends(entries, self.facts)), self.delta)

    def _charge(self, event: Event, *, who: str | None, **values: Any) -> Entry:
        entry = Entry(kind="spend", who=author(who), event=event, **values)
        if not writable(event):
            raise WrongInput(f"expected an event that can be written down, got {event!r:.120}")
        if entry.partition is not None and entry.partition not in self.facts.partitions:
            names = ", ".join(self.facts.partitions) or "none"
            where = lock.shown_path(self.path)
            raise WrongInput(f"{where}: expected a partition among {names}, got {entry.partition!r}")
        return entry

    def _admit(self, entries: tuple[Entry, ...], entry: Entry) -> Entry | None:
        """Return the earlier charge of the run of `entry`, or None if `entry` may be charged now.

        `entries` are all entries of the ledger. Nothing is written. Raise `BudgetExceeded` or `Refused` as `spend`
        does, and `WrongInput` if the run is closed or was charged for other settings or rows.
        """
        if entry.run is not None and (charged := find(entries, "spend", entry.run)):
            where = f"{lock.shown_path(self.path)}: entry {charged.number} ({charged.what})"
            if closing := find(entries, "finished", entry.run):
                raise WrongInput(
                    f"{where} has already ended ({closing.what}); name another folder or checkpoint for a new run"
                )
            paid = (charged.event, charged.partition, charged.seed)
            other_rows = None not in (charged.rows, entry.rows) and charged.rows != entry.rows
            if paid != (entry.event, entry.partition, entry.seed) or other_rows:
                raise WrongInput(
                    f"{where} was charged for other settings or rows; resume it with those, or name another folder or "
                    "checkpoint for a new run"
                )
            return charged
        would = self._epsilon((*entries, entry))
        limit = limit_of(entries)
        if would <= limit * (1 + SLACK):
            return None
        refuse_endless(would, (*entries, entry), self.delta, lock.shown_path(self.path))
        spent = _exact(rounded_up(self._epsilon(entries)))
        raise BudgetExceeded(
            f"{entry.what} would bring the total to epsilon {_exact(rounded_up(would))}, past the limit of "
            f"{_exact(limit)} of {lock.shown_path(self.path)} (delta {_exact(self.delta)}, {spent} "
            f"already spent); ask for less, or raise the limit ({limit_setting()})",
            ledger=str(self.path),
            needed=rounded_up(would),
        )

    def _expect_facts(self, requested: Mapping[str, Any]) -> None:
        for name, value in requested.items():
            has = self.limit if name == "limit" else getattr(self.facts, name)
            if value != has:
                change = f"leave --limit out, or change it with {limit_setting()}"
                way = change if name == "limit" else self._way(name)
                where = lock.shown_path(self.path)
                raise WrongInput(
                    f"{where}: expected {name} {_shown(has)} as the ledger has it, got {_shown(value)}; {way}"
                )

    def _way(self, name: str) -> str:
        """Return the advice in an error message to a run whose fact `name`, such as "delta", differs from this one."""
        another = f"to charge this ledger, or --ledger FILE to begin one for the other {name}; {NO_TOTAL}"
        shared = f", because all charges of a ledger share its {name}"
        ways = {
            "delta": f"take --delta={self.delta}{shared}",
            "cap": f"take --cap={self.facts.cap} {another}",
            "unit": f"take {self.unit_settings} {another}",
        }
        return ways.get(name, f"take data and a schema with the same {name}{shared}")


def _shown(fact: Any) -> str:
    return _exact(fact) if isinstance(fact, float) else f"{fact!r:.120}"


def limit_setting() -> str:
    """Return what a message calls the way to change a limit: an option at the command line, a method in Python."""
    return "`privaware ledger --set-limit`" if at_command_line() else "`Ledger.set_limit`"


def _exact(value: float) -> str:
    """Return a number with all its digits, such as 1e-5, so that different numbers look different."""
    return _rounded.number(value, digits=17)


def _rolled_back(path: Path, lost: int) -> str:
    entries = "1 entry" if lost == 1 else f"{lost} entries"
    shown = lock.shown_path(path)
    return (
        f"{shown} lacks {entries} that it had before, as an older copy of it does; put back the newest file, or type "
        f"`privaware ledger {shown} --restore` to write the lost charges into it again"
    )
