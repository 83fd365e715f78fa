"""Find the ledger for the rows of a run: the given one, one that was charged for these rows before, or a new one."""

from __future__ import annotations

import math
import os
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from privaware import accounting
from privaware._rounded import number, rounded_up
from privaware._validate import expect_positive
from privaware.data import Raw, Sketch, hashes_and_sketch, rows_digest
from privaware.errors import (
    BudgetExceeded,
    OverlapWarning,
    PrivawareError,
    Refused,
    WrongInput,
    for_caller,
    warn_caller,
)
from privaware.events import NOTHING, Event
from privaware.ledger import (
    KnownLedger,
    Ledger,
    digest_key,
    known_ledgers,
    knows_rows,
    memory_ledger,
    register,
    spent_together,
    unwritten_key,
)
from privaware.ledger._entry import unfinished
from privaware.ledger._ledger import limit_setting
from privaware.workflow.run.options import RunOptions, Say
from privaware.workflow.run.other_ledgers import SameRows, similar_ledgers
from privaware.workflow.run.plan import Plan
from privaware.workflow.run.source import Source

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "collect_row_ledgers",
    "expect_new_limit",
    "expect_unspent",
    "existing_place",
    "is_new",
    "known_path",
    "ledger_place",
    "note_derived",
    "open_ledger",
    "register_rows",
    "what_fits",
]

NEGLIGIBLE_FRACTION = 1e-3
"""Fraction of `min(limit, 1)` below which the remaining budget counts as spent."""
NOT_CHECKED = (
    "Not checked: whether these rows already have a ledger under another name, because a dry run with a schema opens "
    "no file. The run itself checks this before its charge."
)

_COLLECTED: ContextVar[list[SameRows] | None] = ContextVar("collected", default=None)
"""The list that gets the ledgers of the rows of each run, instead of a warning with their total; usually None."""


WITHOUT_LEDGER: dict[tuple[str, tuple[str, int, str]], tuple[Sketch, Event]] = {}
"""Sketch and cost of the rows that this process charged to temporary ledgers, which estimators without a ledger have.

The keys are the digest of the rows, and the unit, the cap and the relation of the charges.
"""


@contextmanager
def collect_row_ledgers() -> Iterator[list[SameRows]]:
    """Yield a list that gets a `SameRows`, the ledgers of the rows, for each run within this context.

    These runs do not warn with the total epsilon of their rows: the caller of this function states it.
    """
    collected: list[SameRows] = []
    token = _COLLECTED.set(collected)
    try:
        yield collected
    finally:
        _COLLECTED.reset(token)


def expect_unspent(data: Any, options: RunOptions) -> None:
    """Raise `BudgetExceeded`, before slow imports, if the ledger of `data` is found by its name and has no budget left.

    Nothing is checked in a dry run, for another unit than row, or if `options` contradict the ledger. A run that is
    charged but not closed, or whose output folder exists, may be resumed: the charge checks it later.
    """
    beside = None
    if isinstance(data, (str, os.PathLike)) and os.path.exists(data):  # else built-in data, which have their own ledger
        beside = f"{str(data).rstrip('/')}.ledger"
    path = options.ledger_path or beside
    out = options.folder is not None and os.path.lexists(options.folder)
    if path is None or options.dry_run or out or not os.path.isfile(path):
        return
    ledger = Ledger.open(path)
    facts = {"delta": ledger.delta, "limit": ledger.limit}
    differs = any(getattr(options, name) not in (None, fact) for name, fact in facts.items())
    if differs or (options.unit or "row") != "row" or ledger.unit != "row":
        return  # another error applies, which is reported later
    if unfinished(ledger.entries()):
        return
    spent, limit = ledger.spent(), ledger.limit
    if limit - spent <= NEGLIGIBLE_FRACTION * min(limit, 1.0):
        raise BudgetExceeded(
            f"epsilon {rounded_up(spent)} of the limit of {number(limit)} of '{ledger.path}' is spent, and nothing is "
            f"left for another run; raise the limit ({limit_setting()})",
            ledger=str(path),
            spent=spent,
        )


def is_new(path: Path | Ledger) -> TypeGuard[Path]:
    """Whether `path` is the path of a ledger that does not exist yet; False for an open `Ledger`."""
    return not isinstance(path, Ledger) and not os.path.lexists(path)


def what_fits(plan: Plan, ledger: Ledger) -> float | None:
    """Return the largest epsilon, rounded down to three significant digits, with which `plan` would fit into `ledger`.

    Return None if no epsilon fits, if `plan` has no requested epsilon, or if the cost of `plan` does not follow from
    its noise multiplier alone.
    """
    if plan.requested is None or plan.at(plan.noise).parts != plan.parts:
        return None
    try:
        noise = accounting.calibrate(lambda noise: ledger.total(plan.at(noise).event), ledger.limit, ledger.delta)
        epsilon = plan.at(noise).epsilon
    except PrivawareError:
        return None
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return float(f"{math.floor(epsilon / step) * step:.3g}")


def open_ledger(place: Path | Ledger, source: Source, options: RunOptions, *, new_limit: float) -> Ledger:
    """Open the ledger at `place` (the result of `ledger_place`), or create it there.

    A new ledger gets the limit `--limit`, or `new_limit` without it. Raise `WrongInput` if an existing ledger has
    another unit, cap, relation or delta than this run, or if `place` is a path and the ledger there has another limit
    than `--limit`.
    """
    schema, delta = source.schema, options.delta_for(source.schema)
    if isinstance(place, Ledger):
        has, needs = (*place.facts.promise, place.delta), (schema.unit, schema.cap, schema.relation, delta)
        if has != needs:
            raise WrongInput(
                f"expected a ledger for unit, cap, relation and delta {needs}, as in this run, got one for {has}; give "
                "another ledger"
            )
        return place
    return Ledger.open_or_create(
        place,
        limit=options.limit,
        delta=delta,
        new_limit=new_limit,
        unit=schema.unit,
        relation=schema.relation,
        cap=schema.cap,
    )


def register_rows(
    ledger: Ledger,
    digest_of_rows: Callable[[], str | None],
    sketch_of_rows: Callable[[], Sketch | None],
    event: Event,
    say: Say | None,
    run: str | None = None,
) -> str | None:
    """Record that the ledger will be charged for these rows, warn about their other ledgers, and return their digest.

    `digest_of_rows` and `sketch_of_rows` read the rows; they return None for built-in data, for which nothing is done
    and None is returned. For a temporary ledger the warnings are given, only this process remembers the rows, and None
    is returned. The warnings name the epsilon of all ledgers with `event`, which is not counted a second time if `run`
    is already charged. The warnings go to `say`; without `say` they are Python warnings. Within `collect_row_ledgers`
    the epsilon of all ledgers is not named: its list gets the ledgers.
    """
    with nullcontext() if ledger.lasting else unwritten_key():
        digest, sketch = digest_of_rows(), sketch_of_rows()
    if digest is None or sketch is None:
        return None
    if ledger.lasting or knows_rows():
        uncharged = NOTHING if run is not None and ledger.find(run) is not None else event
        same, collected = SameRows.of_table(ledger, digest, sketch), _COLLECTED.get()
        if collected is not None:
            collected.append(same)
            sentences = same.sentences_without_total()
        else:
            sentences = [
                *same.sentences(event=uncharged, during_run=True),
                *_without_ledger(same, digest, sketch, uncharged),
            ]
        for sentence in sentences:
            if say is None:
                warn_caller(sentence, OverlapWarning)
            else:
                say(for_caller(f"{sentence[:1].upper()}{sentence[1:]}."))
    if not ledger.lasting:
        key = (digest, ledger.facts.promise)
        WITHOUT_LEDGER[key] = (sketch, WITHOUT_LEDGER[key][1] + event if key in WITHOUT_LEDGER else event)
        return None
    register(digest, ledger, sketch.to_bytes())
    return digest


def note_derived(before: pd.DataFrame, after: pd.DataFrame) -> None:
    """Remember that the table `after` was computed, row by row, from the table `before`; neither has a target.

    A run on rows of `after` is then warned of the earlier fits without a ledger that had rows of `before`.
    """
    if not WITHOUT_LEDGER:
        return
    with unwritten_key():
        key = digest_key()
    (_, source), (hashes, derived) = (hashes_and_sketch(Raw(frame=frame), key) for frame in (before, after))
    source, derived = source.finished(), derived.finished()
    for (_, promise), (table, cost) in list(WITHOUT_LEDGER.items()):
        if table.resembles(source) and not table.resembles(derived):
            WITHOUT_LEDGER.setdefault((rows_digest(hashes, key), promise), (derived, cost))


def _without_ledger(same: SameRows, digest: str, sketch: Sketch, event: Event) -> Iterator[str]:
    """Yield a sentence if earlier fits of this process, charged to no lasting ledger, had rows of a table.

    The table has this `digest` and `sketch`, and `same` has its ledgers. The sentence states the epsilon of these fits,
    of all ledgers and of `event` together, unless the fits have another unit, cap or relation.
    """
    promise = same.ledger.facts.promise
    past = [
        (facts, cost)
        for (rows, facts), (table, cost) in WITHOUT_LEDGER.items()
        if rows == digest or table.resembles(sketch)
    ]
    if not past:
        return
    start = "rows of this run were in earlier fits of this process that had no ledger"
    if any(facts != promise for facts, _ in past):
        yield f"{start}, for another unit, cap or relation, so that no epsilon holds for all of them"
        return
    together = sum((cost for _, cost in past), same.event(event))
    try:
        shown = f"epsilon {rounded_up(accounting.epsilon(together, same.ledger.delta))}"
    except Refused:
        shown = "more than can be stated"
    yield (
        f"{start}: all of them spend {shown} at delta {rounded_up(same.ledger.delta)}; give every fit on these rows "
        "one ledger (--ledger FILE)"
    )


def ledger_place(source: Source, options: RunOptions, event: Event, resources: ExitStack) -> Path | Ledger:
    """Return the ledger of `options`, or the path of the ledger for the rows of `source`.

    Built-in data are public. Their ledger lies in the output folder, or in a temporary folder that `resources` removes.
    For other data, it is the existing ledger next to the data, else the ledger that was charged for these rows before,
    else a new ledger next to the data, or for a DataFrame in the user's data folder. Raise `WrongInput` if a new ledger
    is requested for rows that were charged to another ledger. Also raise it if the ledger of a file would be new, no
    new ledger is requested, and the file shares most of its rows with a table that has a ledger. `event` is the cost of
    the run, which the message counts.
    """
    place = _named_place(source, options)
    if place is None and source.builtin:
        place = Path(resources.enter_context(tempfile.TemporaryDirectory())) / "run.ledger"
    return _place_of_rows(source, options, event) if place is None else place


def existing_place(source: Source, options: RunOptions, event: Event) -> Path | Ledger | None:
    """Return the ledger that `ledger_place` would return, or None if it does not exist yet; nothing is written.

    This is for a dry run. `source` has the rows, and `event` is the cost of the run. Raise what `ledger_place` raises.
    With a schema by the user no file is opened, so a ledger is found by its name only; if the registry knows other
    tables, `options.say` is told so.
    """
    place = _named_place(source, options)
    if place is None and not source.builtin and knows_rows():
        if options.schema is None or source.path is None:
            place = _place_of_rows(source, options, event)
        elif options.say is not None:
            options.say(NOT_CHECKED)
    return None if place is None or is_new(place) else place


def expect_new_limit(epsilon: float, limit: float) -> None:
    """Raise `BudgetExceeded` unless a new ledger with this `limit` has room for `epsilon`, the cost of a run.

    Raise `WrongInput` for a limit that is not positive.
    """
    expect_positive("", limit=limit)
    if epsilon > limit * (1 + 1e-9):
        raise BudgetExceeded(
            f"expected a limit of at least the cost of this run, epsilon {rounded_up(epsilon)}, got {number(limit)}; "
            "give a larger --limit, or leave it out"
        )


def _named_place(source: Source, options: RunOptions) -> Path | Ledger | None:
    """Return the ledger that is found without reading rows, or None.

    It is the given ledger. Without one, it is for built-in data `run.ledger` in the output folder (None without a
    folder), which may be new, and for other data an existing ledger next to the data.
    """
    if options.ledger is not None:
        return options.ledger if isinstance(options.ledger, Ledger) else options.ledger_path
    if source.builtin:
        return None if options.folder is None else options.folder / "run.ledger"
    beside = _beside(source)
    return beside if beside is not None and os.path.lexists(beside) else None


def _beside(source: Source) -> Path | None:
    """Return the path of the ledger next to the data file of `source`, new or existing; None for rows from memory."""
    return None if source.path is None else Path(f"{str(source.path).rstrip('/')}.ledger")


def _place_of_rows(source: Source, options: RunOptions, event: Event) -> Path:
    """Return the path of the ledger that was charged for the rows of `source`, or else of a new one next to the data.

    For rows from memory, a new ledger is in the user's data folder. `event` is the cost of the run, for messages. Raise
    `WrongInput` in the cases of `ledger_place`.
    """
    digest, sketch = source.digest(), source.sketch()
    assert digest is not None
    assert sketch is not None
    beside = _beside(source)
    known, new = known_path(digest), beside or memory_ledger(digest)
    if known is not None and known != new:
        if options.new_ledger:
            raise WrongInput(f"expected no --new-ledger for rows that are charged to '{known}'; leave it out")
        if options.say is not None:
            options.say(
                f"These rows were used before, under another name. They are charged to the same ledger: '{known}'."
            )
    if known is None and beside is not None and not options.new_ledger:
        _expect_unlike(source, event, _readable(similar_ledgers(digest, sketch)))
    return known or new


def _expect_unlike(source: Source, event: Event, similar: list[Ledger]) -> None:
    """Raise `WrongInput` if there are `similar` ledgers, of tables that probably share rows with `source`.

    `event` is the cost of this run, for the message. The owner must say whether the rows get a new budget.
    """
    if not similar:
        return
    other, schema = similar[0], source.schema
    ledger = f"--ledger={shlex.quote(str(other.path))}"
    if other.facts.promise == (schema.unit, schema.cap, schema.relation):
        epsilon = spent_together(similar, other.delta, event)
        cost = f": with this run they would have spent epsilon {rounded_up(epsilon)} at delta {rounded_up(other.delta)}"
        ways = f"say {ledger} to charge them there"
    else:
        cost = ". That ledger has another unit, cap or relation than this run, so no epsilon holds for both"
        there = f"{ledger} {other.unit_settings}"
        ways = f"say {there} to charge them there, --ledger FILE to begin a ledger of this run's unit"
    raise WrongInput(
        f"'{source.name}' probably shares rows with a table that was charged to '{other.path}': half the rows of the "
        f"smaller table, or more, seem to be in both{cost}; {ways}, "
        "or --new-ledger=True if they are other people"
    )


def _readable(ledgers: Iterable[KnownLedger]) -> list[Ledger]:
    """Return the ledgers whose files can be read, each once."""
    opened = (known.open() for known in ledgers)
    return list({ledger.genesis: ledger for ledger in opened if ledger is not None}.values())


def known_path(digest: str) -> Path | None:
    """Return the path of the first readable ledger that was charged for the rows with this digest; None if none was."""
    return next((known.path for known in known_ledgers(digest) if known.open() is not None), None)
