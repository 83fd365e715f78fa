"""The public facts about a data set, and their TOML file."""

from __future__ import annotations

import datetime
import json
import tomllib
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from privaware._validate import expect, expect_one_of, expect_path, shown
from privaware.errors import WrongInput
from privaware.schema._column import (
    NOT_USED,
    Column,
    are_apart,
    are_distinct_texts,
    as_date,
    coded_columns,
    is_count,
    is_text,
    lists_as_tuples,
    may_be_part,
)

FORMS = ("table", "image", "text")
"""Forms of data."""
LATER = ("fold", "day_first", "parts", "slots", "certainty")
"""Fields of a column that the first versions of `model.json` did not have."""
RELATIONS = ("add_remove", "replace_one")
"""Neighbouring relations."""
GIVEN_KINDS = "the names and kinds of the columns"
"""Assumed public when bounds are released under privacy and kinds are declared."""
GIVEN_BUT_PAID = "the names of the columns, and their kinds where these were not paid for"
"""Assumed public when bounds, and the kinds of some columns, are released under privacy."""


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The public facts about a data set. `Schema.read` reads them from a TOML file. Wrong facts raise `WrongInput`.

    Attributes
    ----------
    columns
        The declared columns, a tuple of `Column`.
    target
        The name of the column to predict.
    classes
        The classes of the target; empty for regression.
    low, high
        The range of the target, for regression; None if it is not declared.
    rows
        The declared number of rows, which is public.
    unit, cap
        The unit of privacy: "row", "label" or the column that identifies the person of a row; and the largest number of
        rows used for each person.
    relation
        The neighbouring relation: "add_remove" or "replace_one".
    form
        "table", "image" or "text".
    shape
        The channels, height and width of images, also of the images that a column of kind "image" names.
    reviewed
        Whether the owner has confirmed that these facts are public. Otherwise a model is not certified.
    assumed
        Facts that the guarantee takes as public, one phrase each.

    Examples
    --------
    >>> facts = Schema(columns=(Column(name="age", low=0, high=120),), target="ill", classes=("no", "yes"), rows=5000)
    >>> facts.task, facts.unit, facts.relation
    ('classification', 'row', 'add_remove')
    """

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
        lists_as_tuples(self, "schema", ("classes", "shape", "assumed", "columns"))
        expect_one_of("schema", FORMS, form=self.form)
        expect_one_of("schema", RELATIONS, relation=self.relation)
        _expect(is_count(self.rows), "rows as a whole number from 1 to 1e15", self.rows)
        _expect(is_count(self.cap), "cap as a whole number from 1 to 1e15", self.cap)
        _expect(is_text(self.unit) and self.unit != "", "unit as text", self.unit)
        _expect(is_text(self.target), "target as text", self.target)
        _expect(isinstance(self.reviewed, bool), "reviewed as true or false", self.reviewed)
        _expect(all(is_text(word) for word in self.assumed), "assumed as texts", self.assumed)
        self._check_columns()
        self._check_target()
        if self.has_images:
            good = len(self.shape) == 3 and all(is_count(size) for size in self.shape)
            _expect(good, "an image shape [channels, height, width]", list(self.shape))

    def _check_columns(self) -> None:
        _expect(all(isinstance(column, Column) for column in self.columns), "columns of type Column", self.columns)
        names = [column.name for column in self.columns]
        _expect(len(set(names)) == len(names), "distinct column names", names)
        _expect(self.target not in names, "the target apart from the columns", self.target)
        images = [column.name for column in self.columns if column.kind == "image"]
        _expect(len(images) < 2, "at most one column of kind image", images)
        coded = [column.name for column in self.used]
        _expect(len(set(coded)) == len(coded), "distinct names of the parts of columns", names)
        undecided = {column.name for column in self.declared if column.kind == "undecided"}
        taken = [name for name in coded if may_be_part(name, undecided)]
        free = "names that no part of an undecided column may get (rename these, or declare its kind)"
        _expect(not taken, free, taken)

    def _check_target(self) -> None:
        distinct = are_distinct_texts(self.classes) and len(self.classes) != 1
        _expect(distinct, "at least two distinct classes, as text", self.classes)
        if (bounds := (self.low, self.high)) != (None, None):
            _expect(are_apart(*bounds), "finite target bounds low < high", bounds)

    @property
    def task(self) -> str:
        return "classification" if self.classes else "regression"

    @property
    def unit_rows(self) -> int:
        """The number of rows that one unit of privacy adds or removes: 1 for a row, `cap` for a person.

        It is 2 for a label, because a changed label counts as one row removed and one row added.
        """
        return {"row": 1, "label": 2}.get(self.unit, self.cap)

    @cached_property
    def declared(self) -> tuple[Column, ...]:
        """The declared columns that are used: all except those of kind "identifier" or "ignore"."""
        return tuple(column for column in self.columns if column.kind not in NOT_USED)

    @cached_property
    def used(self) -> tuple[Column, ...]:
        """The coded columns that a learner sees, in order.

        If the form is "table", each column of `declared` becomes one or more numbers and categories (`coded_columns`).
        For the forms "image" and "text" these are the columns of `declared`, unchanged.
        """
        if self.form != "table":
            return self.declared
        return tuple(coded for column in self.declared for coded in coded_columns(column))

    @property
    def bounded(self) -> bool:
        """Whether everything is declared that would otherwise have to be released under privacy.

        That is the classes or the bounds of the target, and for each used column its kind and its bounds or categories.
        """
        known = bool(self.classes) or self.low is not None
        return known and all(column.bounded for column in self.declared)

    @property
    def has_whole_texts(self) -> bool:
        """Whether rows hold texts: the form is text, or a table has a text column without hash buckets (`slots` 0)."""
        return self.form == "text" or (self.form == "table" and any(each.is_whole_text for each in self.declared))

    @property
    def image(self) -> str | None:
        """The name of the column of kind "image", or None if there is no such column."""
        return next((column.name for column in self.columns if column.kind == "image"), None)

    @property
    def has_images(self) -> bool:
        """Whether rows hold images: the form is image, or a table has a column of kind "image"."""
        return self.form == "image" or (self.form == "table" and self.image is not None)

    @property
    def has_whole_columns(self) -> bool:
        """Whether the form is table and some column holds texts or images themselves, not numbers made of them."""
        return self.form == "table" and any(column.is_whole for column in self.declared)

    def with_whole_texts(self) -> Schema:
        """Return the schema of a table with `slots` 0 in its text columns, so that rows hold the texts themselves.

        This is for features that read texts. Text columns with declared `parts` stay hashed. A schema of another form,
        or of a table with a column of images, is returned unchanged.
        """
        if self.form != "table" or self.image is not None:
            return self
        whole = {column.name for column in self.columns if column.kind == "text" and not column.parts}
        columns = (replace(column, slots=0) if column.name in whole else column for column in self.columns)
        return replace(self, columns=tuple(columns))

    def keep(self, names: tuple[str, ...]) -> Schema:
        """Return the schema with only the columns in `names`, in the schema's order.

        Parameters
        ----------
        names : tuple of str
            Names of declared columns, or of their parts, such as "joined (month)", or "job (nurse)" for a category. If
            only some parts of a declared column are named, it keeps only these parts. The name of a column never means
            a part of another column. Unknown names are ignored. If the form is image, the column of images stays, too.

        Returns
        -------
        Schema
            The smaller schema.
        """
        chosen, columns = set(names), []
        in_parts = chosen - {column.name for column in self.columns} if self.form == "table" else set()
        for column in self.columns:
            kept = tuple(part for part in column.known_parts if f"{column.name} ({part})" in in_parts)
            if kept and column.name not in chosen:
                whole = kept == column.known_parts and column.kind != "category"
                columns.append(replace(column, parts=() if whole else kept))
            elif column.name in chosen or (self.form == "image" and column.kind == "image"):
                columns.append(column)
        return replace(self, columns=tuple(columns))

    @cached_property
    def known_names(self) -> frozenset[str]:
        """The names of declared columns, and of their parts in the form "NAME (PART)".

        Dates, texts and categories have parts, such as "joined (month)". Unused columns are left out.
        """
        parts = (f"{column.name} ({part})" for column in self.declared for part in column.parts or column.known_parts)
        return frozenset((*(column.name for column in self.declared), *parts))

    def by_category(self) -> Schema:
        """Return the schema in which a column of more than two categories becomes a yes-or-no column for each category.

        A category column that already lists `parts` keeps them. Raise `WrongInput` if a used column is undecided, or is
        a category without declared categories: then the number of coded columns is not public.
        """
        open_kinds = ("undecided", "category")
        if bare := [column.name for column in self.declared if column.kind in open_kinds and not column.bounded]:
            advice = "declare them in a schema (--schema FILE; `privaware schema` drafts one)"
            raise WrongInput(
                f"expected declared categories to select among, got none for the column {bare[0]!r:.80}; {advice}"
            )
        columns = (
            replace(column, parts=column.parts or column.categories)
            if column.kind == "category" and len(column.categories) > 2
            else column
            for column in self.columns
        )
        return replace(self, columns=tuple(columns))

    def bare(self) -> Schema:
        """Return the schema without bounds, bins and categories, so that these are released under privacy.

        The bounds of the target go too; its classes stay. Whether a column has missing values is not public either, so
        each column gets a category for them, and undeclared values count as other. The spellings of booleans, and
        columns of text or images or that are not used, stay as they are. `assumed` lists what is still taken as public:
        the number of rows, names, kinds, the size of images, and classes.
        """
        columns = tuple(
            replace(column, low=None, high=None, bins=(), missing="category", unseen="other")
            if column.kind in ("number", "boolean", "date", "time")
            else replace(column, categories=(), missing="category", unseen="other")
            if column.kind in ("category", "undecided")
            else column
            for column in self.columns
        )
        paid_kinds = any(column.kind == "undecided" for column in columns)
        images = self.form == "image"
        facts = "the size of the images" if images else GIVEN_BUT_PAID if paid_kinds else GIVEN_KINDS
        assumed = ["the number of rows", facts]
        assumed += ["the size of the images"] if self.has_images and not images else []
        assumed += ["the classes" if images else f"the classes of {self.target}"] if self.classes else []
        return replace(self, columns=columns, low=None, high=None, assumed=tuple(assumed))

    def toml(self) -> str:
        """Return the schema as TOML, which a person can read, edit and confirm (`reviewed = true`).

        A field of a column is left out if it has its default value, and a field of the schema if it is empty.
        """
        lines = [
            f"{item.name} = {_toml(getattr(self, item.name))}"
            for item in fields(self)
            if item.name != "columns" and getattr(self, item.name) not in (None, ())
        ]
        for column in self.columns:
            lines += ["", f"[columns.{_toml(column.name)}]"]
            for item in fields(column):
                value = getattr(column, item.name)
                if column.kind == "date" and item.name in ("low", "high", "missing") and isinstance(value, float):
                    value = as_date(value) or value
                if item.name != "name" and value != item.default:
                    lines.append(f"{item.name} = {_toml(value)}")
        return "\n".join(lines) + "\n"

    @classmethod
    def parse(cls, text: str) -> Schema:
        """Return the schema in a TOML text.

        Parameters
        ----------
        text : str
            The TOML text. Unknown or ill-formed entries raise `WrongInput`.

        Returns
        -------
        Schema
            The schema.
        """
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
        """Return the schema in a TOML file.

        Parameters
        ----------
        path : str or Path
            The file. A file that cannot be read or is no schema raises `WrongInput`.

        Returns
        -------
        Schema
            The schema.
        """
        expect_path("a schema file, or a Schema", path)
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
        """Return the fields of the schema as plain values, such as lists and numbers, for `model.json`.

        A field of a column that is in `LATER` is included only if it does not have its default value.
        """
        entries = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "columns"}
        entries["columns"] = [
            {
                item.name: getattr(column, item.name)
                for item in fields(column)
                if item.name not in LATER or getattr(column, item.name) != item.default
            }
            for column in self.columns
        ]
        plain: dict[str, Any] = json.loads(json.dumps(entries))
        return plain

    @classmethod
    def from_json(cls, value: Any) -> Schema:
        """Return the schema from the values that `json` returned.

        Parameters
        ----------
        value : dict
            The values. Unknown or ill-formed entries raise `WrongInput`.

        Returns
        -------
        Schema
            The schema.
        """
        _expect(isinstance(value, dict) and isinstance(value.get("columns"), list), "a schema object", value)
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


def _expect(good: bool, expected: str, value: Any) -> None:
    expect(good, "schema", expected, value)


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.date):
        return value.isoformat()
    integer = isinstance(value, int) or (value.is_integer() and abs(value) < 1e15)
    return repr(int(value)) if integer else repr(float(value))
