"""Where rows come from: a file, a DataFrame or a built-in data set, with a schema got in one of three ways.

A schema is written by the user, drafted from the rows and confirmed by the user, or paid for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from privaware import datasets, plugins
from privaware.data import Data, Raw, draft, read
from privaware.errors import WrongInput
from privaware.mechanism import unit as protected
from privaware.schema import Schema

__all__ = ["Confirm", "Source", "drafted", "resolve"]

Confirm = Callable[[Schema], bool]


@dataclass(frozen=True, kw_only=True, repr=False)
class Source:
    """Where rows come from, and their public facts. `rows` is called only after the ledger agreed."""

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
) -> Source:
    """The rows called `data` and what is public about them; a built-in name brings its own schema."""
    how = {"schema": schema, "accept": accept, "private": private, "confirm": confirm}
    if _is_builtin(data):
        return _builtin(data, target, unit, learner, how["schema"])
    raw = read(data)
    target = target or _default_target(raw)
    made = _the_schema(raw, target, task, unit, cap, how)
    if task is not None and task != made.task:
        raise WrongInput(
            f"the schema makes {made.target!r} a {made.task} target, but --task says {task}; change one of them"
        )
    pool = (
        None if public is None else Data.of(read(public), replace(made, unit="row"), labelled=False)
    )
    scored = raw.test if test is None else read(test)

    def rows() -> tuple[Data, Data | None]:
        own = Data.of(raw, made) if made.bounded else Data.loose(raw, made)
        return own, None if scored is None else Data.of(scored, replace(made, unit="row"))

    path = None if hasattr(data, "columns") else Path(data)
    return Source(
        name=path.name if path else "a DataFrame",
        schema=made,
        rows=rows,
        public=pool,
        builtin=False,
        path=path,
    )


def drafted(
    data: Any, *, target: str | None = None, task: str | None = None, unit: str | None = None
) -> Schema:
    """A schema to edit and confirm: drafted from a file, or the reviewed one of a built-in data set."""
    if _is_builtin(data):
        return datasets.schema(data)
    raw = read(data)
    return draft(raw, target=target or _default_target(raw), task=task, unit=unit or "row")


def _is_builtin(data: Any) -> bool:
    return isinstance(data, str) and data in plugins.names("datasets") and not Path(data).exists()


def _builtin(name: str, target: str | None, unit: str | None, learner: str, schema: Any) -> Source:
    make = plugins.find("learn", learner) if learner != "auto" else None
    wants_public = bool(getattr(make, "needs_public", False))
    made = datasets.schema(name, public=wants_public)
    if schema is not None:
        raise WrongInput(
            f"{name} brings its own schema; leave --schema out, or give the data as a file"
        )
    if target not in (None, made.target):
        raise WrongInput(
            f"{name} has the target {made.target!r}, got {target!r}; leave --target out"
        )
    if unit not in (None, "row", "label"):
        raise WrongInput(
            f"{name} has one row for each person; expected --unit row or label, got {unit!r}"
        )
    labels = unit == "label" or (make is not None and protected(make) == "label")
    made = replace(made, unit="label") if labels else made

    def rows() -> tuple[Data, Data | None]:
        loaded = datasets.load(name, public=wants_public)
        return replace(loaded.train, schema=made), replace(loaded.test, schema=made)

    pool = datasets.load(name, public=True).public if wants_public else None
    return Source(name=name, schema=made, rows=rows, public=pool, builtin=True, path=None)


def _the_schema(
    raw: Raw, target: str, task: str | None, unit: str | None, cap: int, how: dict[str, Any]
) -> Schema:
    given, accept, private = how["schema"], how["accept"], how["private"]
    if (given is not None) + bool(accept) + bool(private) > 1 and not (
        given is not None and private
    ):
        raise WrongInput(
            "expected one of --schema, --accept-schema and --private-schema, got several"
        )
    if given is not None:
        made = given if isinstance(given, Schema) else Schema.read(given)
        return made if unit is None else replace(made, unit=unit, cap=cap)
    made = draft(raw, target=target, task=task, unit=unit or "row", cap=cap)
    if private:
        return _undeclared(made)
    if accept or (how["confirm"] is not None and how["confirm"](made)):
        return replace(made, reviewed=True)
    raise WrongInput(
        "no schema was given: confirm the draft with --accept-schema (its bounds and categories become public), "
        "pay for bounds with --private-schema, or write one (`privaware schema DATA --out FILE.toml`) for --schema"
    )


def _undeclared(made: Schema) -> Schema:
    """Only names, kinds, classes and the number of rows are kept; bounds and categories are to be paid for."""
    columns = tuple(
        replace(column, low=None, high=None, categories=(), bins=())
        if column.kind in ("number", "category")
        else column
        for column in made.columns
    )
    assumed = (
        "the names and kinds of the columns",
        "the number of rows",
        f"the classes of {made.target}",
    )
    kept = assumed if made.classes else assumed[:2]
    return replace(made, columns=columns, low=None, high=None, reviewed=True, assumed=kept)


def _default_target(raw: Raw) -> str:
    if raw.frame is None:
        return "class"
    if "y" in raw.frame.columns and "x0" in raw.frame.columns:
        return "y"
    raise WrongInput(
        f"expected --target to name one of the columns {', '.join(map(repr, list(raw.frame.columns)[:8]))}"
    )
