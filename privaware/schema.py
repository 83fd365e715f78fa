"""Public facts about a data set, and their TOML file.

A schema holds everything that may be said aloud before a row is read: columns with bounds or
categories, classes, the declared number of rows, whom the guarantee protects (`unit`) and what
makes two data sets neighbours (`relation`). Nothing here ever looks at a row.

>>> age = Column(name="age", low=17, high=90, bins=(30, 45, 60))
>>> schema = Schema(columns=(age,), target="income", classes=("<=50K", ">50K"), rows=1000)
>>> schema.task, Schema.parse(schema.toml()) == schema
('classification', True)
"""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from privaware.errors import WrongInput

__all__ = ["Column", "Schema"]

KINDS = ("number", "category", "text", "ignore")
FORMS = ("table", "image", "text")
RELATIONS = ("add_remove", "replace_one")


@dataclass(frozen=True, kw_only=True)
class Column:
    """One declared column.

    `missing` says what an empty or infinite value becomes: "refuse" (an error), "category" (a slot
    of its own), or a number to fill in. `unseen` says the same of a category that is not declared:
    "refuse" or "other". `bins` are public inner edges; numbers are clipped to [low, high].
    """

    name: str
    kind: str = "number"
    low: float | None = None
    high: float | None = None
    categories: tuple[str, ...] = ()
    bins: tuple[float, ...] = ()
    missing: str | float = "refuse"
    unseen: str = "refuse"

    def __post_init__(self) -> None:
        self._expect(isinstance(self.name, str) and self.name != "", "a non-empty name", self.name)
        self._expect(self.kind in KINDS, f"kind among {', '.join(KINDS)}", self.kind)
        self._expect(
            self.unseen in ("refuse", "other"), 'unseen as "refuse" or "other"', self.unseen
        )
        if self.kind == "number":
            self._check_number()
        if self.kind == "category":
            good = all(isinstance(c, str) for c in self.categories)
            self._expect(good and len(set(self.categories)) == len(self.categories) > 0,
                         "distinct text categories, at least one", self.categories)  # fmt: skip
            self._expect(
                self.missing in ("refuse", "category"),
                'missing as "refuse" or "category"',
                self.missing,
            )

    def _check_number(self) -> None:
        low, high = self.low, self.high
        if low is None and high is None:
            return  # bounds still to be paid for
        self._expect(
            _finite(low) and _finite(high) and low < high, "finite low < high", (low, high)
        )  # type: ignore[operator]
        ordered = all(_finite(b) for b in self.bins) and list(self.bins) == sorted(set(self.bins))
        self._expect(ordered, "bins as increasing finite numbers", self.bins)
        filled = self.missing in ("refuse", "category") or (
            _finite(self.missing) and low <= self.missing <= high
        )  # type: ignore[operator]
        self._expect(
            filled, 'missing as "refuse", "category" or a number within the bounds', self.missing
        )

    def _expect(self, good: bool, words: str, got: Any) -> None:
        if not good:
            raise WrongInput(f"column {self.name!r}: expected {words}, got {got!r}")

    @property
    def bounded(self) -> bool:
        """Whether everything a learner needs is declared."""
        return self.kind != "number" or self.low is not None


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What is public about a data set."""

    columns: tuple[Column, ...] = ()
    target: str = "target"
    classes: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    rows: int = 1
    unit: str = "row"
    cap: int = 1
    relation: str = "add_remove"
    form: str = "table"
    shape: tuple[int, ...] = ()
    reviewed: bool = True
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _expect(self.form in FORMS, f"form among {', '.join(FORMS)}", self.form)
        _expect(self.relation in RELATIONS, f"relation among {', '.join(RELATIONS)}", self.relation)
        _expect(_whole(self.rows) and self.rows >= 1, "rows as a whole number >= 1", self.rows)
        _expect(_whole(self.cap) and self.cap >= 1, "cap as a whole number >= 1", self.cap)
        _expect(isinstance(self.unit, str) and self.unit != "", "unit as text", self.unit)
        _expect(isinstance(self.target, str), "target as text", self.target)
        names = [column.name for column in self.columns]
        _expect(len(set(names)) == len(names), "distinct column names", names)
        _expect(self.target not in names, "the target apart from the columns", self.target)
        distinct = all(isinstance(c, str) for c in self.classes) and len(set(self.classes)) == len(
            self.classes
        )
        _expect(
            distinct and len(self.classes) != 1,
            "at least two distinct classes, as text",
            self.classes,
        )
        if not self.classes and (self.low, self.high) != (None, None):
            _expect(_finite(self.low) and _finite(self.high) and self.low < self.high,  # type: ignore[operator]
                    "finite target bounds low < high", (self.low, self.high))  # fmt: skip
        if self.form == "image":
            good = len(self.shape) == 3 and all(_whole(size) and size >= 1 for size in self.shape)
            _expect(good, "an image shape [channels, height, width]", list(self.shape))

    @property
    def task(self) -> str:
        return "classification" if self.classes else "regression"

    @property
    def used(self) -> tuple[Column, ...]:
        """The columns a learner sees."""
        return tuple(column for column in self.columns if column.kind != "ignore")

    @property
    def bounded(self) -> bool:
        """Whether every bound is declared, so that nothing has to be paid for."""
        return all(column.bounded for column in self.used) and bool(
            self.classes or self.low is not None
        )

    def keep(self, names: tuple[str, ...]) -> Schema:
        """The same facts about fewer columns."""
        return replace(
            self, columns=tuple(column for column in self.columns if column.name in names)
        )

    def toml(self) -> str:
        """The file a person reads, edits and confirms."""
        head = {
            item.name: getattr(self, item.name) for item in fields(self) if item.name != "columns"
        }
        lines = [
            f"{name} = {_toml(value)}" for name, value in head.items() if value not in (None, ())
        ]
        for column in self.columns:
            lines += ["", f"[columns.{_toml(column.name)}]"]
            for item in fields(column):
                value = getattr(column, item.name)
                if item.name != "name" and value != item.default:
                    lines.append(f"{item.name} = {_toml(value)}")
        return "\n".join(lines) + "\n"

    @classmethod
    def parse(cls, text: str) -> Schema:
        """The schema written in TOML; anything unknown or ill-formed is refused with a sentence."""
        try:
            raw = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as problem:
            raise WrongInput(
                f"expected a schema in TOML, but it cannot be parsed: {problem}"
            ) from None
        columns = raw.pop("columns", {})
        _expect(isinstance(columns, dict), "a table [columns.NAME] for each column", columns)
        made = []
        for name, facts in columns.items():
            _expect(isinstance(facts, dict), f"a table for column {name!r}", facts)
            made.append(_construct(Column, {**facts, "name": name}, f"column {name!r}"))
        return _construct(cls, {**raw, "columns": tuple(made)}, "schema")

    @classmethod
    def read(cls, path: str | Path) -> Schema:
        """The schema in a file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as problem:
            raise WrongInput(
                f"cannot read the schema {str(path)!r}: {problem.strerror or problem}"
            ) from None
        except UnicodeDecodeError:
            raise WrongInput(
                f"expected {str(path)!r} as UTF-8 text in TOML, got other bytes"
            ) from None
        try:
            return cls.parse(text)
        except WrongInput as problem:
            raise WrongInput(f"{path}: {problem}") from None

    def json(self) -> dict[str, Any]:
        """Plain values for `model.json`."""
        out = {
            item.name: getattr(self, item.name) for item in fields(self) if item.name != "columns"
        }
        columns = [
            {item.name: getattr(column, item.name) for item in fields(column)}
            for column in self.columns
        ]
        made: dict[str, Any] = json.loads(json.dumps({**out, "columns": columns}))
        return made

    @classmethod
    def from_json(cls, value: Any) -> Schema:
        """The schema that `json` wrote."""
        _expect(
            isinstance(value, dict) and isinstance(value.get("columns"), list),
            "a schema object",
            value,
        )
        columns = tuple(_construct(Column, column, "column") for column in value["columns"])
        return _construct(cls, {**value, "columns": columns}, "schema")


def _construct(cls: type[Any], facts: Any, words: str) -> Any:
    _expect(isinstance(facts, dict), f"facts about the {words}", facts)
    known = {item.name for item in fields(cls)}
    if unknown := sorted(set(facts) - known):
        raise WrongInput(
            f"{words}: unknown entries {unknown}; known are {', '.join(sorted(known))}"
        )
    for name, value in facts.items():
        if isinstance(value, (dict, bool)) and name != "reviewed":
            raise WrongInput(
                f"{words}: expected {name} as text, a number or a list, got {value!r:.80}"
            )
    tuples = {
        name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()
    }
    for name in ("categories", "bins", "classes", "shape", "assumed", "columns"):
        _expect(isinstance(tuples.get(name, ()), tuple), f"{name} as a list", facts.get(name))
    try:
        return cls(**tuples)
    except TypeError as problem:
        raise WrongInput(f"{words}: {problem}") from None


def _expect(good: bool, words: str, got: Any) -> None:
    if not good:
        raise WrongInput(f"schema: expected {words}, got {got!r:.200}")


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
