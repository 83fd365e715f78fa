"""Public facts about a data set, and their TOML file.

A schema holds everything that is public before a row is read: columns with bounds or categories, classes, the declared
number of rows, the privacy unit (`unit`) and the neighbouring relation (`relation`). Nothing here reads a row.

>>> age = Column(name="age", low=17, high=90, bins=(30, 45, 60))
>>> schema = Schema(columns=(age,), target="income", classes=("<=50K", ">50K"), rows=1000)
>>> schema.task, Schema.parse(schema.toml()) == schema
('classification', True)

Bounds and categories that are not declared have a privacy cost:

>>> schema.bounded, schema.bare().bounded
(True, False)
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from privaware._validate import expect, expect_one_of, shown
from privaware.errors import WrongInput

__all__ = ["Column", "Schema"]

KINDS = ("number", "category", "text", "ignore", "undecided")
FORMS = ("table", "image", "text")
RELATIONS = ("add_remove", "replace_one")
LISTS = ("categories", "bins", "classes", "shape", "assumed", "columns")
GIVEN_KINDS = "the names and kinds of the columns"
GIVEN_BUT_PAID = "the names of the columns, and their kinds where these were not paid for"
"""What is assumed of the columns where bounds, and perhaps kinds, are released under privacy."""
LARGEST = 1e150
"""Bounds stay below it, so that squares and differences are finite."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One declared column.

    `missing` says what an empty or infinite value becomes: "refuse" (an error), "category" (a category of its own), or
    a number to fill in. `unseen` says the same of a category that is not declared: "refuse" or "other". `bins` are
    public inner edges; numbers are clipped to [low, high]. A number without bounds and a category without categories
    are known by name and kind only; an undecided column is known by its name only: whether it holds numbers or
    categories is paid for.
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
        _as_tuples(self, f"column {shown(self.name)}")
        self._expect(_text(self.name) and self.name != "", "a non-empty name", self.name)
        expect_one_of(f"column {shown(self.name)}", KINDS, kind=self.kind)
        self._expect(self.unseen in ("refuse", "other"), 'unseen as "refuse" or "other"', self.unseen)
        filled = self.kind != "category" and _finite(self.missing)
        self._expect(
            filled or self.missing in ("refuse", "category"),
            'missing as "refuse" or "category", or for numbers a value to fill in',
            self.missing,
        )
        self._check_numbers()
        named = all(_text(word) for word in self.categories)
        self._expect(
            named and len(set(self.categories)) == len(self.categories), "distinct categories, as text", self.categories
        )

    def _check_numbers(self) -> None:
        ordered = all(_finite(b) for b in self.bins) and list(self.bins) == sorted(set(self.bins))
        self._expect(ordered, "bins as increasing finite numbers", self.bins)
        if self.low is None and self.high is None:
            return  # not declared: released under privacy
        bounds = (self.low, self.high)
        self._expect(_apart(self.low, self.high), "finite bounds low < high", bounds)
        if not isinstance(self.missing, str) and self.low is not None and self.high is not None:
            inside = self.low <= self.missing <= self.high
            self._expect(inside, "missing as a number within the bounds", self.missing)

    def _expect(self, good: bool, expected: str, value: Any) -> None:
        expect(good, f"column {shown(self.name)}", expected, value)

    @property
    def bounded(self) -> bool:
        """Whether everything a learner needs is declared."""
        if self.kind == "category":
            return bool(self.categories)
        return self.kind in ("text", "ignore") or (self.kind == "number" and self.low is not None)


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
        _as_tuples(self, "schema")
        expect_one_of("schema", FORMS, form=self.form)
        expect_one_of("schema", RELATIONS, relation=self.relation)
        _expect(_counts(self.rows), "rows as a whole number from 1 to 1e15", self.rows)
        _expect(_counts(self.cap), "cap as a whole number from 1 to 1e15", self.cap)
        _expect(_text(self.unit) and self.unit != "", "unit as text", self.unit)
        _expect(_text(self.target), "target as text", self.target)
        _expect(isinstance(self.reviewed, bool), "reviewed as true or false", self.reviewed)
        _expect(all(_text(word) for word in self.assumed), "assumed as texts", self.assumed)
        self._check_columns()
        self._check_target()
        if self.form == "image":
            good = len(self.shape) == 3 and all(_counts(size) for size in self.shape)
            _expect(good, "an image shape [channels, height, width]", list(self.shape))

    def _check_columns(self) -> None:
        good = all(isinstance(column, Column) for column in self.columns)
        _expect(good, "columns of type Column", self.columns)
        names = [column.name for column in self.columns]
        _expect(len(set(names)) == len(names), "distinct column names", names)
        _expect(self.target not in names, "the target apart from the columns", self.target)

    def _check_target(self) -> None:
        named = all(_text(word) for word in self.classes)
        distinct = named and len(set(self.classes)) == len(self.classes) != 1
        _expect(distinct, "at least two distinct classes, as text", self.classes)
        if (self.low, self.high) != (None, None):
            bounds = (self.low, self.high)
            _expect(_apart(self.low, self.high), "finite target bounds low < high", bounds)

    @property
    def task(self) -> str:
        return "classification" if self.classes else "regression"

    @property
    def used(self) -> tuple[Column, ...]:
        """The columns a learner sees."""
        return tuple(column for column in self.columns if column.kind != "ignore")

    @property
    def bounded(self) -> bool:
        """Whether every bound is declared, so that none has to be released under privacy."""
        known = bool(self.classes) or self.low is not None
        return known and all(column.bounded for column in self.used)

    def keep(self, names: tuple[str, ...]) -> Schema:
        """The same schema with fewer columns."""
        return replace(self, columns=tuple(column for column in self.columns if column.name in names))

    def bare(self) -> Schema:
        """Only names, kinds, classes and the number of rows: bounds and categories are released under privacy.

        Whether a column has missing values is not public either, so each gets a category for them.
        """
        columns = tuple(
            Column(name=column.name, kind=column.kind, missing="category", unseen="other")
            if column.kind in ("number", "category", "undecided")
            else column
            for column in self.columns
        )
        paid_kinds = any(column.kind == "undecided" for column in columns)
        assumed = ["the number of rows", GIVEN_BUT_PAID if paid_kinds else GIVEN_KINDS]
        assumed += [f"the classes of {self.target}"] if self.classes else []
        return replace(self, columns=columns, low=None, high=None, assumed=tuple(assumed))

    def toml(self) -> str:
        """The file a person reads, edits and confirms."""
        lines = [
            f"{item.name} = {_toml(getattr(self, item.name))}"
            for item in fields(self)
            if item.name != "columns" and getattr(self, item.name) not in (None, ())
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
        except (ValueError, RecursionError) as problem:
            raise WrongInput(f"expected a schema in TOML: {problem!s:.200}") from None
        _expect("rows" in raw, "the declared number of rows, as rows = 1000", "none")
        columns = raw.pop("columns", {})
        _expect(isinstance(columns, dict), "a table [columns.NAME] for each column", columns)
        for name, entries in columns.items():
            _expect(isinstance(entries, dict), f"a table for column {shown(name)}", entries)
            _expect("name" not in entries, f"no entry called name in [columns.{shown(name)}]", entries)
        parsed = (
            _construct(Column, {**entries, "name": name}, f"column {shown(name)}") for name, entries in columns.items()
        )
        return _construct(cls, {**raw, "columns": tuple(parsed)}, "schema")

    @classmethod
    def read(cls, path: str | Path) -> Schema:
        """The schema in a file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise WrongInput(f"expected {shown(str(path))} as UTF-8 text in TOML") from None
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or problem
            raise WrongInput(f"cannot read the schema {shown(str(path))}: {reason}") from None
        try:
            return cls.parse(text)
        except WrongInput as problem:
            raise WrongInput(f"{Path(path).name}: {problem}") from None

    def json(self) -> dict[str, Any]:
        """Plain values for `model.json`."""
        entries = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "columns"}
        entries["columns"] = [
            {item.name: getattr(column, item.name) for item in fields(column)} for column in self.columns
        ]
        plain: dict[str, Any] = json.loads(json.dumps(entries))
        return plain

    @classmethod
    def from_json(cls, value: Any) -> Schema:
        """The schema that `json` wrote."""
        good = isinstance(value, dict) and isinstance(value.get("columns"), list)
        _expect(good, "a schema object", value)
        columns = tuple(_construct(Column, column, "column") for column in value["columns"])
        return _construct(cls, {**value, "columns": columns}, "schema")


def _construct(cls: type[Any], entries: Any, who: str) -> Any:
    _expect(isinstance(entries, dict), f"facts about the {who}", entries)
    known = {item.name for item in fields(cls)}
    if unknown := sorted(set(entries) - known):
        raise WrongInput(f"{who}: unknown entries {shown(unknown)}; known are {', '.join(sorted(known))}")
    try:
        return cls(**entries)
    except TypeError as problem:
        raise WrongInput(f"{who}: {problem!s:.200}") from None


def _as_tuples(declared: Column | Schema, who: str) -> None:
    """Lists become tuples, so that equal facts are equal schemas."""
    for name in LISTS:
        value = getattr(declared, name, ())
        expect(isinstance(value, (list, tuple)), who, f"{name} as a list", value)
        if isinstance(value, list):
            object.__setattr__(declared, name, tuple(value))


def _expect(good: bool, expected: str, value: Any) -> None:
    expect(good, "schema", expected, value)


def _finite(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and -LARGEST <= value <= LARGEST


def _apart(low: Any, high: Any) -> bool:
    return _finite(low) and _finite(high) and float(high) - float(low) >= 1 / LARGEST


def _counts(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10**15


def _text(value: Any) -> bool:
    """Whether it is text that a UTF-8 file can hold."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    integer = isinstance(value, int) or (value.is_integer() and abs(value) < 1e15)
    return repr(int(value)) if integer else repr(float(value))
