"""The charge before the rows: which ledger, what a command is called in it, and the run that follows.

Every verb that reads private rows goes this way: the ledger agrees, the rows are read, the ledger
takes the charge on disk, and only then does the mechanism see them.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from privaware.data import Data
from privaware.errors import WrongInput
from privaware.ledger import Entry, Ledger
from privaware.noise import Rng
from privaware.workflow._plan import Plan
from privaware.workflow._source import Source

__all__ = ["Charged", "Say", "charged", "command_key", "first_open", "ledger_of", "plain", "tell"]

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Charged:
    """What a run released, its ledger entry, and rows to score on where there are any."""

    released: Any
    entry: Entry
    seconds: float
    scored: Data | None


def charged(source: Source, made: Plan, book: Ledger, run: str, what: str, rng: Rng, say: Say) -> Charged:
    """Nothing is said before the input is known to be good, and nothing is charged."""
    book.ready(made.event, what=what, run=run, seed=rng.seed)
    rows, scored = source.rows()
    rows = rows.keep(tuple(column.name for column in made.schema.used))
    tell(made, say)
    resumed = book.find(run) is not None
    entry = book.spend(made.event, what=what, run=run, seed=rng.seed)
    say("resuming: this run was charged before" if resumed else f"charged to the ledger: entry {entry.number}")
    began = time.perf_counter()
    released = made.mechanism.run(rows, made.noise, rng)
    seconds = time.perf_counter() - began
    return Charged(released=released, entry=entry, seconds=seconds, scored=scored)


def tell(made: Plan, say: Say) -> None:
    """The plan, a sentence at a time."""
    for words in made.sentences:
        say(words)


class ledger_of:
    """The ledger of this data set: the one given, beside the file, inside the folder, or for this call only."""

    def __init__(
        self, given: Any, source: Source, folder: Path | None, limit: float | None, epsilon: float, delta: float
    ) -> None:
        self.given, self.source, self.folder = given, source, folder
        self.limit, self.epsilon, self.delta = limit, epsilon, delta
        self.scratch: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Ledger:
        if isinstance(self.given, Ledger):
            self._expect_same(self.given)
            return self.given
        schema = self.source.schema
        return Ledger.open_or_create(
            self._place(),
            limit=self.limit,
            delta=self.delta,
            new_limit=self.epsilon,
            unit=schema.unit,
            relation=schema.relation,
            cap=schema.cap,
        )

    def __exit__(self, *problem: object) -> None:
        if self.scratch is not None:
            self.scratch.cleanup()

    def _place(self) -> Path:
        if self.given is not None:
            return Path(self.given)
        if self.source.path is not None:
            return Path(f"{str(self.source.path).rstrip('/')}.ledger")
        if self.folder is not None:
            return self.folder / "run.ledger"
        self.scratch = tempfile.TemporaryDirectory()
        return Path(self.scratch.name) / "run.ledger"

    def _expect_same(self, book: Ledger) -> None:
        schema = self.source.schema
        has = (book.unit, book.facts.cap, book.relation, book.delta)
        asked = (schema.unit, schema.cap, schema.relation, self.delta)
        if has != asked:
            raise WrongInput(
                f"the ledger is for unit, cap, relation and delta {has}, this run for {asked}; "
                "one ledger holds one of each"
            )


def first_open(book: Ledger, key: str) -> int:
    """How many runs of this command were charged and ended; the next one may be charged already."""
    closed = {entry.run for entry in book.entries() if entry.kind == "finished"}
    return next(at for at in itertools.count() if f"{key}-{at}" not in closed)


def command_key(verb: str, source: Source, made: Plan, epsilon: float, seed: int | None, folder: Path | None) -> str:
    """One name for one command: the same data, settings and folder resume, anything else is a new run."""
    where = "memory" if source.path is None else str(source.path.resolve())
    facts = {
        "data": source.name if source.builtin else where,
        "schema": made.schema.json(),
        "verb": verb,
        "learner": made.learner,
        "settings": plain(made.settings),
        "epsilon": epsilon,
        "delta": made.delta,
        "seed": seed,
        "out": time.time_ns() if folder is None else str(folder.resolve()),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as plain values."""
    return {key: asdict(value) if hasattr(value, "__dataclass_fields__") else value for key, value in settings.items()}
