"""The entries of a ledger: their fields, their canonical text and hash, and their allowed order."""

from __future__ import annotations

import getpass
import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any

from privaware._validate import expect
from privaware.errors import WrongInput
from privaware.events import RELATIONS, Event, from_json, to_json

KINDS = ("created", "spend", "limit", "finished", "audit")
NOT_RESUMED = "train without checkpoint "
"""Start of the key of a run of `train` without a checkpoint, which cannot be resumed."""
AFTER_A_RUN = ("finished", "audit")
"""Kinds of entries that must name a run, and may have the hashes of its files."""
RELEASES = ("model", "selection", "transformation", "crossover", "audit", "pilot")
"""Kinds of releases that a closing entry can name."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of a ledger, fixed at its creation; a later change of the limit is a separate entry.

    Parameters
    ----------
    limit
        The first limit: the largest total epsilon until an entry changes it.
    delta
        The delta of the total.
    unit
        The unit of privacy: "row", "label" or the column that identifies a person.
    relation
        "add_remove" or "replace_one".
    cap
        The largest number of rows of one unit.
    partitions
        The names of disjoint parts of the rows, which can be charged separately. What belongs to a part must not depend
        on labels if the unit is "label".
    """

    limit: float
    delta: float
    unit: str = "row"
    relation: str = "add_remove"
    cap: int = 1
    partitions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _expect_limit(self.limit)
        _expect(_number(self.delta) and 0 < self.delta < 1, "delta in (0, 1)", self.delta)
        _expect(_text(self.unit), "unit as text", self.unit)
        _expect(self.relation in RELATIONS, f"relation among {', '.join(RELATIONS)}", self.relation)
        _expect(_integer(self.cap) and self.cap >= 1, "cap as a whole number >= 1", self.cap)
        different = all(map(_text, self.partitions)) and len(set(self.partitions)) == len(self.partitions)
        _expect(different, "partitions as different names", self.partitions)

    @property
    def promise(self) -> tuple[str, int, str]:
        """The unit, the cap and the relation: charges compose only if all three are equal."""
        return self.unit, self.cap, self.relation

    @property
    def units_in_one_partition(self) -> bool:
        """Whether neighbours differ in one partition only, so that charges of different partitions do not add up.

        A person may have rows in several partitions, and a row may be replaced by a row of another partition.
        """
        return self.unit == "label" or (self.unit == "row" and self.relation == "add_remove")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry of the ledger.

    `kind` is "created", "spend" (a charge), "limit" (the limit was changed), "finished" (a run was closed) or "audit"
    (of a closed run). Only "created" has `facts`, only "spend" has an `event`, and only "limit" has a `limit`, which is
    the new one. `who` wrote the entry, and `what` is its purpose in words. `partition` is the part of the rows that a
    charge uses (None: all rows). `run` is the key of a run that can be resumed, and `seed` its seed, if it is seeded.
    `number` counts the entries of the ledger from 0, and `time` is ISO 8601 text in UTC. `hash` is the SHA-256 of the
    entry, and `previous` of the entry before it (random for the first entry). `files` maps the names of the files that
    the entry vouches for to their SHA-256 hashes. A closing entry has no time (empty text): the time would reveal how
    long the run took, and so the number of trials of a private selection. Its `release` names what the run released: a
    model, a transformation, or the result of a selection, a crossover, an audit or a pilot; old entries do not name it.
    `rows` is the keyed digest of the rows of a charge. The key is not in the ledger, and without it the digest reveals
    nothing about the rows.
    """

    kind: str
    who: str
    what: str
    number: int = 0
    time: str = ""
    previous: str = ""
    event: Event | None = None
    partition: str | None = None
    run: str | None = None
    seed: int | None = None
    limit: float | None = None
    facts: Facts | None = None
    rows: str | None = None
    files: Mapping[str, str] | None = None
    release: str | None = None
    hash: str = ""

    def __post_init__(self) -> None:
        _expect(self.kind in KINDS, f"kind among {', '.join(KINDS)}", self.kind)
        for name in ("who", "what"):
            _expect(_text(getattr(self, name)), f"{name} as text", getattr(self, name))
        for name in ("time", "previous", "hash"):
            _expect(isinstance(getattr(self, name), str), f"{name} as text", getattr(self, name))
        for name in ("partition", "run", "rows"):
            value = getattr(self, name)
            _expect(value is None or _text(value), f"{name} as text or None", value)
        _expect(_integer(self.number), "number as a whole number", self.number)
        _expect(self.seed is None or _integer(self.seed), "seed as a whole number", self.seed)
        _expect(isinstance(self.event, Event) == (self.kind == "spend"), "an event", self.event)
        _expect((self.facts is not None) == (self.kind == "created"), "facts", self.facts)
        _expect(self.kind not in AFTER_A_RUN or self.run is not None, "the run that finished", None)
        _expect(self.files is None or self.kind in AFTER_A_RUN, "files of a run that finished", self.files)
        _expect(self.files is None or _hashes(self.files), "files as names with their SHA-256", self.files)
        _expect(self.release is None or self.kind == "finished", "a release of a run that finished", self.release)
        _expect(self.release in (None, *RELEASES), f"release among {', '.join(RELEASES)}", self.release)
        _expect((self.limit is not None) == (self.kind == "limit"), "a limit", self.limit)
        if self.limit is not None:
            _expect_limit(self.limit)


def plain(entry: Entry) -> dict[str, Any]:
    """Return the entry as a dict of JSON values by the names of its fields, without the fields that are None."""
    values = {item.name: getattr(entry, item.name) for item in fields(entry)}
    if entry.event is not None:
        values["event"] = to_json(entry.event)
    if entry.facts is not None:
        values["facts"] = asdict(entry.facts) | {"partitions": list(entry.facts.partitions)}
    if entry.files is not None:
        values["files"] = dict(entry.files)
    return {name: value for name, value in values.items() if value is not None}


def body(entry: Entry) -> str:
    """Return the text that is stored and hashed: canonical JSON of the fields, without `hash` and fields of None."""
    values = {name: value for name, value in plain(entry).items() if name != "hash"}
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def hashed(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def parsed(body: Any, digest: Any) -> Entry:
    """Return the entry whose stored text is `body` and whose stored hash is `digest`.

    Raise `WrongInput` if `digest` is not the SHA-256 of `body`. A body that is no entry raises `WrongInput`,
    `ValueError`, `TypeError`, `KeyError`, `OverflowError` or `RecursionError`.
    """
    if not isinstance(body, str) or hashed(body) != digest:
        raise WrongInput("its hash does not match its content")
    values = json.loads(body)
    if not isinstance(values, dict) or "hash" in values:
        raise WrongInput(f"expected a JSON object without a hash, got {body:.120}")
    if "event" in values:
        values["event"] = from_json(values["event"])
    if "facts" in values:
        facts = values["facts"]
        values["facts"] = Facts(**(facts | {"partitions": tuple(facts["partitions"])}))
    return Entry(**values, hash=digest)


def misplaced(entries: list[Entry]) -> Iterator[str]:
    """Yield a sentence for each entry that is valid by itself, but not allowed at its position in a ledger.

    `entries` are all entries in order. Not allowed are a second creation, a second charge of a run, the closing of a
    run that is not charged or is closed already, the audit of a run that is not closed, and a partition that the first
    entry does not name. If there are no entries, or the first one is not the creation, the only sentence says so.
    """
    facts = entries[0].facts if entries else None
    if facts is None:
        yield "it does not begin with its creation"
        return
    charged: set[str | None] = {None}
    closed: set[str | None] = set()
    for entry in entries[1:]:
        spend = entry.kind == "spend"
        recharged = spend and entry.run is not None and entry.run in charged
        stray = entry.kind == "finished" and (entry.run not in charged or entry.run in closed)
        early = entry.kind == "audit" and entry.run not in closed
        if entry.kind == "created" or recharged or stray or early:
            yield f"entry {entry.number} ({entry.kind}) is out of place"
        if entry.partition is not None and entry.partition not in facts.partitions:
            yield f"entry {entry.number} names the unknown partition {entry.partition!r:.120}"
        if spend:
            charged.add(entry.run)
        elif entry.kind == "finished":
            closed.add(entry.run)


def _expect(good: bool, words: str, value: Any) -> None:
    expect(good, "ledger", words, value)


def _expect_limit(value: Any) -> None:
    _expect(_number(value) and value > 0, "limit as a finite number > 0", value)


def _number(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _hashes(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        _text(name) and isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest)
        for name, digest in value.items()
    )


def writable(event: Event) -> bool:
    """Return whether `event` is equal to itself after it is written as JSON and read again."""
    with suppress(TypeError, ValueError, RecursionError):
        return bool(from_json(json.loads(json.dumps(to_json(event)))) == event)
    return False


def find(entries: Iterable[Entry], kind: str, run: str) -> Entry | None:
    """Return the first of `entries` with this `kind` and the key `run`, or None."""
    return next((entry for entry in entries if (entry.kind, entry.run) == (kind, run)), None)


def unfinished(entries: Iterable[Entry]) -> list[Entry]:
    """Return the charges of runs that none of `entries` closes, in order; a charge without a run is left out."""
    known = tuple(entries)
    closed = {entry.run for entry in known if entry.kind == "finished"}
    return [entry for entry in known if entry.kind == "spend" and entry.run is not None and entry.run not in closed]


def author(who: str | None) -> str:
    """Return `who`, or the name of the system's user if it is None.

    A user without a name is "user NUMBER", or "unknown" on a system without user numbers.
    """
    if who is not None:
        return who
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # an account without a name, as in some containers
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def as_float(name: str, value: Any) -> float:
    """Return a number of any numeric type as a plain float, so that it is always written in the same way.

    Raise `WrongInput` for anything else, also for a bool or a text; `name` is for the message.
    """
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, (bool, str, bytes)):
            return float(value)
    raise WrongInput(f"ledger: expected {name} as a number, got {value!r:.120}")
