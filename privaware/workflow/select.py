"""Choosing columns under a budget: plan, charge, choose, write down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privaware._version import __version__
from privaware.events import to_json
from privaware.ledger import Ledger
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.workflow._charged_run import Say, charged, command_key, first_open, ledger_of, plain, tell
from privaware.workflow._output import claimed, show, told
from privaware.workflow._plan import Plan, selection
from privaware.workflow._source import Confirm, resolve

__all__ = ["Selection", "select"]

FILE = "selection.json"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The columns, and the price of having chosen them."""

    columns: tuple[str, ...] | None
    epsilon: float
    delta: float
    method: str
    plan: list[str] = field(repr=False)
    certified: bool
    seconds: float
    out: str | None

    def json(self) -> dict[str, Any]:
        """The fields of `privaware select --json`."""
        columns = None if self.columns is None else list(self.columns)
        return {**vars(self), "columns": columns}


def select(
    data: Any,
    *,
    target: str | None = None,
    method: str = "cfs_greedy",
    epsilon: float,
    delta: float = 1e-5,
    settings: Mapping[str, Any] | None = None,
    schema: Schema | str | Path | None = None,
    accept_schema: bool = False,
    private_schema: bool = False,
    unit: str | None = None,
    cap: int = 1,
    task: str | None = None,
    ledger: Ledger | str | Path | None = None,
    limit: float | None = None,
    dry_run: bool = False,
    out: str | Path | None = None,
    seed: int | None = None,
    say: Say | None = None,
    confirm: Confirm | None = None,
) -> Selection:
    """Columns worth having, chosen by one of `privaware list selectors` for `epsilon` in all.

    `data` and the ways to a schema are as for `fit`. With `out` a folder is made with the columns and
    what they cost in selection.json.
    """
    say = say or (lambda words: None)
    rng = Rng(seed)
    folder = None if out is None else Path(out)
    source = resolve(
        data,
        target=target,
        task=task,
        unit=unit,
        cap=cap,
        schema=schema,
        accept=accept_schema,
        private=private_schema,
        confirm=confirm,
        dry=dry_run,
    )
    made = selection(source.schema, epsilon=epsilon, delta=delta, method=method, settings=settings)
    if dry_run:
        tell(made, say)
        return _result(made, None, seed, 0.0, None)
    key = command_key("select", source, made, epsilon, seed, folder)
    with claimed(folder), ledger_of(ledger, source, folder, limit, epsilon, delta) as book:
        run = f"{key}-{first_open(book, key)}"
        done = charged(source, made, book, run, f"select {source.name} with {method}", rng, say)
        result = _result(made, done.released, seed, done.seconds, folder)
        if folder is not None:
            advice = "the charge stays, and the same command resumes once there is room"
            with told(folder, advice):
                facts = _facts(made, result, seed, done.entry.hash)
                show(folder / FILE, facts, lambda: book.finish(run))
        else:
            book.finish(run)
    return result


def _result(made: Plan, columns: Any, seed: int | None, seconds: float, folder: Path | None) -> Selection:
    return Selection(
        columns=columns,
        epsilon=made.epsilon,
        delta=made.delta,
        method=made.learner,
        plan=made.sentences,
        certified=seed is None,
        seconds=seconds,
        out=None if folder is None else str(folder),
    )


def _facts(made: Plan, result: Selection, seed: int | None, entry: str) -> bytes:
    """What may be shown: nothing but the columns was computed from rows."""
    facts = {
        "format": 1,
        "version": __version__,
        **{name: value for name, value in result.json().items() if name not in ("seconds", "out")},
        "settings": plain(made.settings),
        "unit": made.schema.unit,
        "relation": made.schema.relation,
        "seed": seed,
        "events": [{"what": what, "event": to_json(event)} for what, event in made.parts],
        "ledger": entry,
    }
    return json.dumps(facts, indent=1, allow_nan=False).encode()
