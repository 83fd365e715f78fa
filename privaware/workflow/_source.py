"""Where rows come from: a file, a DataFrame or a built-in data set, with a schema got in one of three ways.

A schema is written by the user, drafted from the rows and confirmed by the user, or paid for. With a
written one the file is not opened before `Source.rows` is called, which is after the ledger agreed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from privaware import datasets, registry
from privaware._validate import expect_count
from privaware.data import Data, Raw, draft, read
from privaware.errors import WrongInput
from privaware.mechanism import unit as protected
from privaware.schema import Schema

__all__ = ["Confirm", "Source", "drafted", "resolve", "scoring"]

Confirm = Callable[[Schema], bool]


@dataclass(frozen=True, kw_only=True, repr=False)
class Source:
    """Where rows come from, and their public facts.

    `rows` gives the rows to learn from and, where there are any, those to score on; it is called only
    after the ledger agreed. Without declared bounds both are loose.
    """

    name: str
    schema: Schema
    rows: Callable[[], tuple[Data, Data | None]]
    public: Data | None
    builtin: bool
    path: Path | None


def resolve(
    data: Any,
    *,
    target: str | None = None,
    task: str | None = None,
    unit: str | None = None,
    cap: int = 1,
    public: Any = None,
    test: Any = None,
    learner: str = "auto",
    schema: Schema | str | Path | None = None,
    accept: bool = False,
    private: bool = False,
    confirm: Confirm | None = None,
    dry: bool = False,
) -> Source:
    """The rows called `data` and what is public about them; a built-in name brings its own schema.

    For a `dry` run the public rows of built-in data are only counted.
    """
    expect_count("the unit", cap=cap)
    how = {"schema": schema, "accept": accept, "private": private, "confirm": confirm}
    if _is_builtin(data):
        return _builtin(data, target, task, unit, learner, how["schema"], dry)
    path = None if hasattr(data, "columns") else _expect_there(data)
    whole = cache(lambda: read(data))
    made = _the_schema(whole, target, task, unit, cap, how)
    _expect_agreed(made, target, task)
    pool = None if public is None else Data.of(read(public), replace(made, unit="row"), labelled=False)

    def rows() -> tuple[Data, Data | None]:
        coded = Data.of if made.bounded else Data.loose
        scored = whole().test if test is None else read(test)
        own = coded(whole(), made)
        return own, None if scored is None else coded(scored, scoring(made))

    return Source(
        name=path.name if path else "a DataFrame", schema=made, rows=rows, public=pool, builtin=False, path=path
    )


def drafted(data: Any, *, target: str | None = None, task: str | None = None, unit: str | None = None) -> Schema:
    """A schema to edit and confirm: drafted from a file, or the reviewed one of a built-in data set."""
    if _is_builtin(data):
        return datasets.schema(data)
    raw = read(data)
    return draft(raw, target=target or _default_target(raw), task=task, unit=unit or "row")


def scoring(schema: Schema) -> Schema:
    """The same facts for rows to score on: each counts by itself, and numbers to predict stay as they are."""
    return replace(schema, unit="row", cap=1, low=None, high=None)


def _is_builtin(data: Any) -> bool:
    return isinstance(data, str) and data in registry.names("datasets") and not Path(data).exists()


def _expect_there(data: Any) -> Path:
    """The path, which is looked at but not opened."""
    try:
        if os.path.exists(data):
            return Path(data)
    except (TypeError, ValueError):
        pass
    shown = f"{str(data)!r:.80}" if isinstance(data, (str, Path)) else type(data).__name__
    raise WrongInput(
        "expected a data file, a folder of images, a DataFrame or a built-in data set "
        f"(`privaware data list`), but there is nothing called {shown}"
    )


def _expect_agreed(made: Schema, target: str | None, task: str | None) -> None:
    if task is not None and task != made.task:
        raise WrongInput(
            f"the schema makes {made.target!r} a {made.task} target, but --task says {task}; change one of them"
        )
    if target not in (None, made.target):
        raise WrongInput(
            f"the schema has the target {made.target!r:.80}, but --target says {target!r:.80}; change one of them"
        )


def _builtin(
    name: str, target: str | None, task: str | None, unit: str | None, learner: str, schema: Any, dry: bool
) -> Source:
    make = registry.find("learners", learner) if learner != "auto" else None
    wants_public = bool(getattr(make, "needs_public", False))
    made = datasets.schema(name, public=wants_public)
    if schema is not None:
        raise WrongInput(f"{name} brings its own schema; leave --schema out, or give the data as a file")
    _expect_agreed(made, target, task)
    if unit not in (None, "row", "label"):
        raise WrongInput(f"{name} has one row for each person; expected --unit row or label, got {unit!r}")
    labels = unit == "label" or (make is not None and protected(make) == "label")
    made = replace(made, unit="label") if labels else made

    def rows() -> tuple[Data, Data | None]:
        loaded = datasets.load(name, public=wants_public)
        return replace(loaded.train, schema=made), replace(loaded.test, schema=made)

    return Source(
        name=name,
        schema=made,
        rows=rows,
        public=_pool(name, made, dry) if wants_public else None,
        builtin=True,
        path=None,
    )


def _pool(name: str, schema: Schema, dry: bool) -> Data | None:
    if not dry:
        return datasets.load(name, public=True).public
    count = datasets.source(name).reserve
    return Data(schema=schema, x=np.empty((count, 0)), y=np.zeros(count, dtype=np.int64))


def _the_schema(
    whole: Callable[[], Raw], target: str | None, task: str | None, unit: str | None, cap: int, how: dict[str, Any]
) -> Schema:
    given, accept, private = how["schema"], how["accept"], how["private"]
    if accept and (given is not None or private):
        raise WrongInput("expected one of --schema, --accept-schema and --private-schema, got several")
    if given is not None:
        made = given if isinstance(given, Schema) else Schema.read(given)
        return made if unit is None else replace(made, unit=unit, cap=cap)
    raw = whole()
    named = target or _default_target(raw)
    made = draft(raw, target=named, task=task, unit=unit or "row", cap=cap)
    if private:
        return replace(made.bare(), reviewed=True)
    if accept or (how["confirm"] is not None and how["confirm"](made)):
        return replace(made, reviewed=True)
    raise WrongInput(
        "no schema was given: confirm the draft with --accept-schema (its bounds and categories become public), "
        "pay for bounds with --private-schema, or write one (`privaware schema DATA --out FILE.toml`) for --schema"
    )


def _default_target(raw: Raw) -> str:
    if raw.frame is None:
        return "class"
    if "y" in raw.frame.columns and "x0" in raw.frame.columns:
        return "y"
    raise WrongInput(
        f"expected --target to name one of the columns {', '.join(map(repr, list(raw.frame.columns)[:8]))}"
    )
