"""The ledger of a run's rows: the one given, the one that knows the rows under another name, or a new one."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from privaware.errors import OverlapWarning, WrongInput
from privaware.events import Event
from privaware.ledger import Ledger, known_ledgers, memory_ledger, register, spent_together
from privaware.workflow._options import RunOptions, Say
from privaware.workflow._source import Source

__all__ = ["known_path", "open_ledger", "register_rows"]


def open_ledger(source: Source, options: RunOptions, *, new_limit: float, resources: ExitStack) -> Ledger:
    """The ledger given, the one beside the file, the one that knows these rows, or a new one with `new_limit`.

    Built-in data are public: their ledger lies in the folder, or in one that `resources` removes.
    """
    schema = source.schema
    if isinstance(options.ledger, Ledger):
        _expect_same_promise(options.ledger, source, options.delta_for(source.schema))
        return options.ledger
    return Ledger.open_or_create(
        _ledger_path(source, options, resources),
        limit=options.limit,
        delta=options.delta_for(source.schema),
        new_limit=new_limit,
        unit=schema.unit,
        relation=schema.relation,
        cap=schema.cap,
    )


def register_rows(
    ledger: Ledger, digest_of_rows: Callable[[], str | None], event: Event, say: Say | None
) -> str | None:
    """Notes that the ledger will be charged for these rows, and warns of other ledgers of theirs; their digest.

    Rows of built-in data and ledgers that do not last have none. Warnings go to `say`, if there is one.
    """
    digest = digest_of_rows() if ledger.lasting else None
    if digest is None:
        return None
    for sentence in overlaps(ledger, digest, event):
        if say is None:
            warnings.warn(sentence, OverlapWarning, stacklevel=2)
        else:
            say(sentence)
    register(digest, ledger)
    return digest


def overlaps(ledger: Ledger, digest: str, event: Event) -> Iterator[str]:
    """A sentence for each other ledger of the rows, with the epsilon of both after `event`."""
    own = {entry.hash for entry in ledger.entries()}
    for known in known_ledgers(digest):
        other = known.open()
        if other is None:
            if known.genesis != ledger.genesis:
                yield f"these rows were charged to '{known.path}', which cannot be opened any more and is not counted"
            continue
        if own.issuperset(entry.hash for entry in other.entries()):
            continue
        start = f"these rows are charged to another ledger too, '{other.path}'"
        if _promise(other) != _promise(ledger):
            yield f"{start}, for another unit or relation, so that no epsilon holds for both"
            continue
        epsilon = spent_together((ledger, other), ledger.delta, event)
        yield (
            f"{start}: with this run both together spend epsilon {epsilon:.4g} at delta {ledger.delta:g}; "
            "charge one of them only (--ledger FILE)"
        )


def _ledger_path(source: Source, options: RunOptions, resources: ExitStack) -> Path:
    if options.ledger_path is not None:
        return options.ledger_path
    if source.builtin:
        folder = options.folder or Path(resources.enter_context(tempfile.TemporaryDirectory()))
        return folder / "run.ledger"
    beside = None if source.path is None else Path(f"{str(source.path).rstrip('/')}.ledger")
    if beside is not None and os.path.lexists(beside):
        return beside
    digest = source.digest()
    assert digest is not None
    known = known_path(digest)
    if known is not None and options.say is not None:
        options.say(f"these rows are known under another name: charged to '{known}'")
    return known or beside or memory_ledger(digest)


def known_path(digest: str) -> Path | None:
    """The first ledger that was charged for the rows of this digest and is still there."""
    return next((known.path for known in known_ledgers(digest) if known.open() is not None), None)


def _promise(ledger: Ledger) -> tuple[str, int, str]:
    return ledger.unit, ledger.facts.cap, ledger.relation


def _expect_same_promise(ledger: Ledger, source: Source, delta: float) -> None:
    schema = source.schema
    has = (*_promise(ledger), ledger.delta)
    needs = (schema.unit, schema.cap, schema.relation, delta)
    if has != needs:
        raise WrongInput(
            f"the ledger is for unit, cap, relation and delta {has}, this run for {needs}; one ledger holds one of each"
        )
