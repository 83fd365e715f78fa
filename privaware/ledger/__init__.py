"""What has been spent on one data set: append-only, on disk before a row is read, spend or raise.

A ledger is one SQLite file, shared safely by several processes. Its first entry fixes the limit,
delta, unit, relation and the names of the disjoint parts of the rows; each later entry carries the
hash of the one before. There is no refund and no running total: what is spent is recomputed from
the events every time.

>>> from tempfile import TemporaryDirectory
>>> from privaware.events import Pure
>>> with TemporaryDirectory() as folder:
...     ledger = Ledger.create(f"{folder}/patients.ledger", limit=1.0, delta=1e-5)
...     entry = ledger.spend(Pure(epsilon=0.75), what="a noisy histogram")
...     ledger.spend(Pure(epsilon=0.5), what="another one")
Traceback (most recent call last):
privaware.errors.BudgetExceeded: another one would bring the total to epsilon 1.25 ...
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from privaware.errors import BudgetExceeded, WrongInput
from privaware.events import Event, from_json, to_json
from privaware.ledger import _chain as chain
from privaware.ledger._entry import Entry, Facts, plain
from privaware.ledger._spent import SLACK, epsilon_of, limit_of, overspent, spends, total

__all__ = ["Entry", "Facts", "Ledger"]

DELTA = 1e-5

Paths = str | os.PathLike[str]


@dataclass(frozen=True)
class Ledger:
    """The budget of one data set. Every call opens the file anew, so threads and forks are safe."""

    path: Path
    facts: Facts
    genesis: str

    @classmethod
    def create(
        cls,
        path: Paths,
        *,
        limit: float,
        delta: float = DELTA,
        unit: str = "row",
        relation: str = "add_remove",
        cap: int = 1,
        partitions: Iterable[str] = (),
        who: str | None = None,
    ) -> Ledger:
        """A new ledger; whatever is already at `path` is left alone and refused."""
        facts = Facts(
            limit=_float("limit", limit),
            delta=_float("delta", delta),
            unit=unit,
            relation=relation,
            cap=cap,
            partitions=tuple(partitions),
        )
        place = chain.absolute(path)
        chain.create(place, Entry(kind="created", who=_who(who), what="created", facts=facts))
        return cls.open(place)

    @classmethod
    def open(cls, path: Paths) -> Ledger:
        """The ledger at `path`, its chain checked."""
        place = chain.absolute(path)
        with chain.connected(place) as db:
            created = chain.read(place, db)[0]
        assert created.facts is not None
        return cls(path=place, facts=created.facts, genesis=created.hash)

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
        """The ledger at `path` if it has these facts, or a new one with them.

        A limit, delta or partitions of None keep what the ledger has; a new one then takes the limit
        `new_limit`, the delta 1e-5 and no partitions.
        """
        facts: dict[str, Any] = {"unit": unit, "relation": relation, "cap": cap}
        asked = {"limit": limit, "delta": delta} | facts
        if partitions is not None:
            asked["partitions"] = facts["partitions"] = tuple(partitions)
        place = chain.absolute(path)
        if not os.path.lexists(place):
            first = new_limit if limit is None else limit
            if first is None:
                raise WrongInput(f"there is no ledger at {chain.said(place)}: give a limit for it")
            try:
                return cls.create(place, limit=first, delta=DELTA if delta is None else delta, **facts)
            except WrongInput:
                if not os.path.lexists(place):  # otherwise another process was first: take its own
                    raise
        ledger = cls.open(place)
        ledger._expect_facts({name: value for name, value in asked.items() if value is not None})
        return ledger

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

    def spend(
        self,
        event: Event,
        *,
        what: str,
        who: str | None = None,
        run: str | None = None,
        partition: str | None = None,
        seed: int | None = None,
    ) -> Entry:
        """Records `event` on disk, or raises and records nothing.

        With the key of a `run` that was charged for the same event and has not finished, that entry
        is returned and nothing is charged again.
        """
        wish = self._wish(event, what=what, who=who, run=run, partition=partition, seed=seed)
        seen = self.entries()  # priced before the lock is taken, and again only if the head moved
        if known := self._admit(seen, wish):
            return known
        with chain.locked(self.path) as db:
            if chain.head(db) != seen[-1].hash:
                seen = self._same(chain.read(self.path, db))
                if known := self._admit(seen, wish):
                    return known
            return chain.append(db, seen[-1], wish)

    def ready(
        self,
        event: Event,
        *,
        what: str = "this",
        run: str | None = None,
        partition: str | None = None,
        seed: int | None = None,
    ) -> None:
        """Raises what `spend` would raise and records nothing, but does write to the disk to be sure."""
        wish = self._wish(event, what=what, who=None, run=run, partition=partition, seed=seed)
        self._admit(self.entries(), wish)
        with chain.locked(self.path) as db:
            chain.rehearse(db, wish)

    def finish(self, run: str, *, who: str | None = None, what: str = "finished") -> Entry:
        """Closes a charged run, once: the second of two processes that shared a run key is refused."""
        wish = Entry(kind="finished", who=_who(who), what=what, run=run)
        with chain.locked(self.path) as db:
            seen = self._same(chain.read(self.path, db))
            if _named(seen, "spend", run) is None:
                raise WrongInput(f"{chain.said(self.path)}: nothing was charged for run {run!r}")
            if _named(seen, "finished", run):
                raise WrongInput(f"{chain.said(self.path)}: run {run!r} has already finished")
            return chain.append(db, seen[-1], wish)

    def set_limit(self, epsilon: float, *, who: str | None = None) -> Entry:
        """Changes the limit, on the record; not below what is spent."""
        limit = _float("limit", epsilon)
        wish = Entry(kind="limit", who=_who(who), what="limit changed", limit=limit)
        with chain.locked(self.path) as db:
            seen = self._same(chain.read(self.path, db))
            spent = self._epsilon(seen)
            if not spent <= limit * (1 + SLACK):
                raise WrongInput(
                    f"{chain.said(self.path)}: expected a limit of at least {spent:.6g}, which is"
                    f" spent and cannot be taken back, got {limit:g}"
                )
            return chain.append(db, seen[-1], wish)

    def total(self, *more: Event) -> Event:
        """All that was spent, and `more` on all rows, as one event."""
        return total((*spends(self.entries()), *((None, event) for event in more)))

    def spent(self) -> float:
        """The epsilon of everything recorded, at the ledger's delta."""
        return self._epsilon(self.entries())

    def remaining(self) -> float:
        """Limit less spent; composition is kinder than addition, so a little more may still fit."""
        entries = self.entries()
        return max(0.0, limit_of(entries) - self._epsilon(entries))

    def entries(self) -> tuple[Entry, ...]:
        """Every entry in order; the first one created the ledger."""
        with chain.connected(self.path) as db:
            return self._same(chain.read(self.path, db))

    def entry(self, hash: str) -> Entry | None:
        """The entry with this hash, if the ledger has it."""
        return next((entry for entry in self.entries() if entry.hash == hash), None)

    def find(self, run: str) -> Entry | None:
        """What was charged for a run, if anything."""
        return _named(self.entries(), "spend", run)

    def finished(self, run: str) -> bool:
        """Whether the run was closed by `finish`."""
        return _named(self.entries(), "finished", run) is not None

    def json(self) -> dict[str, Any]:
        """The whole ledger as plain values; an event's own epsilon is that of the event alone."""
        entries = self.entries()
        events = []
        alone: dict[Event, float] = {}
        for entry in entries:
            if entry.event is not None:
                if entry.event not in alone:
                    alone[entry.event] = epsilon_of(entry.event, self.delta)
                absent = {"partition": None, "run": None, "seed": None}
                events.append(absent | plain(entry) | {"epsilon": alone[entry.event]})
        return {
            "path": str(self.path),
            "epsilon_spent": self._epsilon(entries),
            **(asdict(self.facts) | {"partitions": list(self.facts.partitions)}),
            "limit": limit_of(entries),
            "events": events,
            "limits": [plain(entry) for entry in entries if entry.kind == "limit"],
            "finished": [entry.run for entry in entries if entry.kind == "finished"],
            "head": entries[-1].hash,
        }

    @staticmethod
    def verify(path: Paths) -> list[str]:
        """What is wrong with the ledger at `path`, one sentence each; nothing when it is sound."""
        place = chain.absolute(path)
        chain.expect_file(place)
        try:
            with chain.connected(place) as db:
                entries, problems = chain.examine(place, db)
                damage = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        except WrongInput as problem:
            return [str(problem)]
        if damage != "ok":
            problems.append(f"the file is damaged: {' '.join(str(damage).split())}")
        return problems or list(overspent(entries))

    def _same(self, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        if entries[0].hash != self.genesis:
            raise WrongInput(f"{chain.said(self.path)} was replaced by another: open it again")
        return entries

    def _epsilon(self, entries: Iterable[Entry], *more: tuple[str | None, Event]) -> float:
        return epsilon_of(total((*spends(entries), *more)), self.delta)

    def _wish(self, event: Event, *, who: str | None, **values: Any) -> Entry:
        wish = Entry(kind="spend", who=_who(who), event=event, **values)
        if not _writable(event):
            raise WrongInput(f"expected an event that can be written down, got {event!r:.120}")
        if wish.partition is not None and wish.partition not in self.facts.partitions:
            names = ", ".join(self.facts.partitions) or "none"
            raise WrongInput(f"{chain.said(self.path)}: expected a partition among {names}, got {wish.partition!r}")
        return wish

    def _admit(self, entries: tuple[Entry, ...], wish: Entry) -> Entry | None:
        """The entry that paid for the run of `wish`, or None if it may be charged now, or raises."""
        if wish.run is not None and (known := _named(entries, "spend", wish.run)):
            if _named(entries, "finished", wish.run):
                raise WrongInput(f"{chain.said(self.path)}: run {wish.run!r} has already finished")
            paid = (known.event, known.partition, known.seed)
            if paid != (wish.event, wish.partition, wish.seed):
                raise WrongInput(
                    f"{chain.said(self.path)}: run {wish.run!r} was charged for something else;"
                    " resume it with the settings it had, or start another"
                )
            return known
        assert wish.event is not None
        would = self._epsilon(entries, (wish.partition, wish.event))
        limit = limit_of(entries)
        if would <= limit * (1 + SLACK):
            return None
        raise BudgetExceeded(
            f"{wish.what} would bring the total to epsilon {would:.6g}, past the limit of {limit:g}"
            f" (delta {self.delta:g}, {self._epsilon(entries):.6g} already spent): use more noise, or"
            f" raise the limit of {chain.said(self.path)} with --set-limit"
        )

    def _expect_facts(self, asked: Mapping[str, Any]) -> None:
        for name, value in asked.items():
            has = self.limit if name == "limit" else getattr(self.facts, name)
            if value != has:
                way = "change it with --set-limit" if name == "limit" else "use another ledger"
                raise WrongInput(
                    f"{chain.said(self.path)}: expected {name} {has!r} as the ledger has it, got {value!r:.120}; {way}"
                )


def _writable(event: Event) -> bool:
    with suppress(TypeError, ValueError, RecursionError):
        return bool(from_json(json.loads(json.dumps(to_json(event)))) == event)
    return False


def _named(entries: Iterable[Entry], kind: str, run: str) -> Entry | None:
    return next((entry for entry in entries if (entry.kind, entry.run) == (kind, run)), None)


def _who(who: str | None) -> str:
    if who is not None:
        return who
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # an account without a name, as in some containers
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def _float(name: str, value: Any) -> float:
    """A number of any type as a plain float, so that it is always written the same way."""
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, (bool, str, bytes)):
            return float(value)
    raise WrongInput(f"ledger: expected {name} as a number, got {value!r:.120}")
