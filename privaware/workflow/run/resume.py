"""Resume an interrupted run: the same command on the same rows gets the same name, and so the same charge."""

from __future__ import annotations

import hashlib
import itertools
import json
import secrets
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from privaware._rounded import rounded_up
from privaware.accounting import epsilon
from privaware.card import plain_settings
from privaware.errors import WrongInput
from privaware.ledger import Entry, Ledger
from privaware.ledger._entry import unfinished
from privaware.workflow.run.output import expect_free

if TYPE_CHECKING:
    from privaware.workflow.run.options import RunOptions
    from privaware.workflow.run.plan import Plan
    from privaware.workflow.run.source import Source

__all__ = [
    "expect_place_to_resume",
    "expect_same_rows",
    "expect_unpaid_pilot",
    "next_run",
    "run_key",
    "was_charged_for",
]


def run_key(verb: str, source: Source, plan: Plan, options: RunOptions, seed: int | None) -> str:
    """Return a key of this command: the same verb, data, plan, seed and folder give the same key, and resume its run.

    Of the plan count the schema, learner, settings, budget, and the names of earlier releases. `source` has the rows.
    Data in a file are named by its path, built-in data by their name, and a DataFrame by the digest of its rows.
    Without a folder there is nothing to resume, so every call gives another key, also
    two calls at the same time.
    """
    folder = options.folder
    rows = None if source.path is None else str(source.path.resolve())
    if rows is None:  # without a folder there is nothing to resume, so the rows need no digest here
        rows = source.name if source.builtin or folder is None else source.digest()
    facts: dict[str, Any] = {
        "data": rows,
        "schema": plan.schema.json(),
        "verb": verb,
        "learner": plan.learner,
        "settings": plain_settings(plan.settings),
        "epsilon": plan.limit,
        "delta": plan.delta,
        "seed": seed,
        "out": secrets.token_hex(16) if folder is None else str(folder.resolve()),
    }
    if before := [what for what, _ in plan.parts[:-1] if what != "release bounds"]:
        facts["before"] = before
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def next_run(ledger: Ledger, key: str, digest: Callable[[], str | None]) -> int:
    """Return the number, from 0 on, of the next run of the command with this `key`; its name is "KEY-NUMBER".

    It is the number of a run that was charged for these rows and is not closed, or else the first number that is not in
    `ledger`. `digest()` returns the digest of the rows. A run that was charged for other rows, because a file has
    changed since, is not resumed.
    """
    entries = ledger.entries()
    charged = {entry.run: entry for entry in entries if entry.kind == "spend"}
    closed = {entry.run for entry in entries if entry.kind == "finished"}
    for count in itertools.count():
        entry = charged.get(f"{key}-{count}")
        if entry is None or (entry.run not in closed and was_charged_for(entry, digest)):
            break
    return count


def expect_same_rows(ledger: Ledger, key: str, options: RunOptions, digest: Callable[[], str | None]) -> None:
    """Raise `WrongInput` if the command with this `key` has an unfinished run that was charged for other rows.

    A second charge of the same command would fill the output folder of `options`, in which that run is resumed. The
    error names the latest such run. `digest()` returns the digest of the present rows.
    """
    runs = [entry for entry in unfinished(ledger.entries()) if (entry.run or "").rpartition("-")[0] == key]
    others = [entry for entry in runs if not was_charged_for(entry, digest)]
    if not others:
        return
    entry = others[-1]
    assert entry.event is not None
    close = shlex.join(["privaware", "ledger", str(ledger.path), "--close", str(entry.number)])
    raise WrongInput(
        f"{str(options.folder)!r} belongs to entry {entry.number} ({entry.what}, epsilon "
        f"{rounded_up(epsilon(entry.event, ledger.delta))}), which is charged but not finished, and was charged for "
        "other data than these; put its data back and repeat this command to resume it, choose another --out for the "
        f"changed data, or type `{close}` to give it up"
    )


def expect_unpaid_pilot(ledger: Ledger, key: str, options: RunOptions, digest: Callable[[], str | None]) -> None:
    """Raise `WrongInput` if the command with this `key` is a pilot that was paid for, and whose folder is missing.

    `options` has the folder, and `digest()` returns the digest of the rows.
    """
    for closing in ledger.entries():
        entry = ledger.find(closing.run or "") if closing.kind == "finished" and closing.release == "pilot" else None
        if entry is None or (entry.run or "").rpartition("-")[0] != key or not was_charged_for(entry, digest):
            continue
        assert options.folder is not None
        raise WrongInput(
            f"this pilot is already paid, as entry {entry.number} ({entry.what}), but its folder is missing: its score "
            f"was expected in {str(options.folder.resolve())!r}; if that folder was moved, say where with --out, or "
            "name a new folder with --out for a new pilot with a charge of its own"
        )


def expect_place_to_resume(ledger: Ledger, key: str, options: RunOptions, digest: Callable[[], str | None]) -> None:
    """Raise `WrongInput` if a run of the command with this `key` could be resumed if its output folder were empty.

    `digest()` returns the digest of the rows, and the folder of `options` exists.
    """
    entry = ledger.find(f"{key}-{next_run(ledger, key, digest)}")
    if entry is None or options.folder is None:
        return
    try:
        expect_free(options.folder, options.ledger_path)
    except WrongInput as problem:
        raise WrongInput(
            f"{problem}; to resume entry {entry.number} ({entry.what}) of this command, which is charged but not "
            "finished, move that folder away and repeat the command"
        ) from None


def was_charged_for(entry: Entry, digest: Callable[[], str | None]) -> bool:
    """Whether the charge was for the rows with this digest; True if the charge names no rows."""
    return entry.rows is None or entry.rows == digest()
