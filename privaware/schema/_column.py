"""One declared column, the coded columns that a learner sees, and checks that columns and schemas share."""

from __future__ import annotations

import datetime
from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Any

from privaware._validate import expect, expect_one_of, shown

LARGEST = 1e150
"""Largest absolute value of a bound, so that squares and differences of bounds are finite."""


def is_finite(value: Any) -> bool:
    """Return whether `value` is an int or float, but no bool, of absolute value at most `LARGEST`."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and -LARGEST <= value <= LARGEST


def are_apart(low: Any, high: Any) -> bool:
    """Return whether `low` and `high` are finite and `high - low` is at least `1 / LARGEST`."""
    return is_finite(low) and is_finite(high) and float(high) - float(low) >= 1 / LARGEST


def is_count(value: Any, most: int = 10**15) -> bool:
    """Return whether `value` is an int, but no bool, from 1 to `most`."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def is_text(value: Any) -> bool:
    """Return whether `value` is text that a UTF-8 file can hold."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def are_distinct_texts(values: tuple[Any, ...]) -> bool:
    """Return whether all `values` are texts that a UTF-8 file can hold, and no two are equal; True for no values."""
    return all(is_text(value) for value in values) and len(set(values)) == len(values)


def lists_as_tuples(declared: object, who: str, names: tuple[str, ...]) -> None:
    """Turn the fields `names` of the object `declared` into tuples, in place, if they are lists.

    Then equal facts are equal schemas. Raise `WrongInput`, with `who` at the start of the message, for a field that is
    neither a list nor a tuple.
    """
    for name in names:
        value = getattr(declared, name)
        expect(isinstance(value, (list, tuple)), who, f"{name} as a list", value)
        if isinstance(value, list):
            object.__setattr__(declared, name, tuple(value))


KINDS = ("number", "category", "boolean", "date", "time", "text", "image", "identifier", "ignore", "undecided")
"""Kinds of columns."""
NOT_USED = ("identifier", "ignore")
"""Kinds of columns that no learner sees: identifiers distinguish rows or persons, ignored columns are left out."""
DATE_PARTS = ("days", "month", "weekday", "hour")
"""Parts that a date is coded into: days since 1970, which need bounds, and three parts with public ranges."""
MOST_SLOTS = 4096
"""Largest number of hash buckets of a text column."""
DATE_LEVELS = {
    "month": tuple(str(month) for month in range(1, 13)),
    "weekday": tuple(str(day) for day in range(1, 8)),
    "hour": tuple(str(hour) for hour in range(24)),
}
"""Categories of the parts of a date, which are public; weekday 1 is Monday."""
EPOCH = datetime.datetime(1970, 1, 1)
"""The moment from which days are counted."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One declared column.

    A number or date without bounds and a category without categories are known by name and kind only. An undecided
    column (kind "undecided") is known by its name only: its kind is released under privacy. A field that is not as
    described below raises `WrongInput`.

    Parameters
    ----------
    name : str
        The name of the column.
    kind : str
        "number", "category", "boolean", "date", "time", "text", "image", "identifier", "ignore" or "undecided"
        (`KINDS`). An image is the name of an image file, relative to the file with the table.
    low, high : float, optional
        Bounds of a number, or of a date. Bounds of a date may be written as dates and are stored as days since 1970.
        Values are clipped to the bounds.
    categories : tuple of str
        The declared categories; for a boolean, its spellings of false and true, if they are unusual. The category ""
        stands for missing values.
    bins : tuple of float
        Public inner edges of bins of a number, in increasing order.
    missing : str or float
        How an empty or infinite value is coded: "refuse" (raise an error), "category" (a category of its own, which a
        category column shares with unknown categories unless "" is declared), or a number or date to fill in.
        Categories and booleans have no such number; it must lie within declared bounds.
    unseen : str
        How a value is coded that is not declared or not of the column's kind: "refuse" (raise an error), or "other".
        With "other" an unknown category counts as other, and a value that is no number, date or time counts as missing.
    fold : bool
        Whether categories are equal if they differ only in case, in outer blanks, and in repeated blanks between words.
    day_first : bool
        Whether 3/4/2020 means 3 April, not 4 March.
    parts : tuple of str
        The parts of a date, or the hash buckets of a text, that are used; by default all. For a category, the
        categories that are used, each as a column of its own; by default all, as one column.
    slots : int
        The number of hash buckets for the words of a text; 0 keeps the text itself, for features that read texts.
    certainty : float
        The probability that the column has this kind, if it was decided by noisy counts; 1 for a declared kind.
    """

    name: str
    kind: str = "number"
    low: float | None = None
    high: float | None = None
    categories: tuple[str, ...] = ()
    bins: tuple[float, ...] = ()
    missing: str | float = "refuse"
    unseen: str = "refuse"
    fold: bool = False
    day_first: bool = False
    parts: tuple[str, ...] = ()
    slots: int = 64
    certainty: float = 1.0

    def __post_init__(self) -> None:
        lists_as_tuples(self, f"column {shown(self.name)}", ("categories", "bins", "parts"))
        self._expect(is_text(self.name) and self.name != "", "a non-empty name", self.name)
        expect_one_of(f"column {shown(self.name)}", KINDS, kind=self.kind)
        self._expect(self.unseen in ("refuse", "other"), 'unseen as "refuse" or "other"', self.unseen)
        if self.kind == "date":
            self._days_from_dates()
        filled = self.kind not in ("category", "boolean") and is_finite(self.missing)
        self._expect(
            filled or self.missing in ("refuse", "category"),
            'missing as "refuse" or "category", or for numbers a value to fill in',
            self.missing,
        )
        self._check_numbers()
        self._check_categories()
        for name in ("fold", "day_first"):
            self._expect(isinstance(getattr(self, name), bool), f"{name} as true or false", getattr(self, name))
        self._expect(is_finite(self.certainty) and 0 < self.certainty <= 1, "certainty in (0, 1]", self.certainty)
        good = is_count(self.slots, MOST_SLOTS) or self.is_whole_text
        self._expect(good, f"slots as a whole number from 1 to {MOST_SLOTS}, or 0 for a text", self.slots)
        known = [part for part in self.known_parts if part in self.parts]
        self._expect(list(self.parts) == known, f"parts in order among {', '.join(self.known_parts[:4])}", self.parts)

    def _days_from_dates(self) -> None:
        """Replace `low`, `high` and `missing`, where they are dates or texts with dates, by days since 1970, in place.

        A time adds a fraction of a day; time zones are ignored. Raise `WrongInput` for a text that is no ISO date.
        """
        for name in ("low", "high", "missing"):
            value = getattr(self, name)
            if not isinstance(value, (datetime.date, str)) or value in ("refuse", "category"):
                continue
            try:
                moment = datetime.datetime.fromisoformat(str(value)).replace(tzinfo=None)
            except ValueError:
                self._expect(False, f"{name} as a date such as 2020-12-31", value)
            else:
                object.__setattr__(self, name, _days_since_epoch(moment))

    def _check_numbers(self) -> None:
        ordered = all(is_finite(b) for b in self.bins) and list(self.bins) == sorted(set(self.bins))
        self._expect(ordered, "bins as increasing finite numbers", self.bins)
        if self.low is None and self.high is None:
            return  # bounds that are not declared are released under privacy
        self._expect(are_apart(self.low, self.high), "finite bounds low < high", (self.low, self.high))
        if not isinstance(self.missing, str) and self.low is not None and self.high is not None:
            inside = self.low <= self.missing <= self.high
            self._expect(inside, "missing as a number within the bounds", self.missing)

    def _check_categories(self) -> None:
        self._expect(are_distinct_texts(self.categories), "distinct categories, as text", self.categories)
        if self.fold:
            apart = len({folded(word) for word in self.categories}) == len(self.categories)
            self._expect(apart, "categories that differ in more than case and blanks, with fold", self.categories)
        if self.kind == "boolean":
            pair = len(self.categories) in (0, 2)
            self._expect(pair, "the spellings of false and true, or no categories", self.categories)

    def _expect(self, good: bool, expected: str, value: Any) -> None:
        expect(good, f"column {shown(self.name)}", expected, value)

    @property
    def known_parts(self) -> tuple[str, ...]:
        """The names of all parts that this column can be coded into; empty unless it is a date, text or category.

        For a date they are `DATE_PARTS` ("days", "month", "weekday", "hour"), for a text its hash buckets "slot 1" to
        "slot N" with N = `slots`, and for a category its `categories`.
        """
        if self.kind == "date":
            return DATE_PARTS
        if self.kind == "category":
            return self.categories
        return tuple(f"slot {at + 1}" for at in range(self.slots)) if self.kind == "text" else ()

    @property
    def category_names(self) -> tuple[str, ...]:
        """The declared categories, with "missing" in place of ""."""
        return tuple(name or "missing" for name in self.categories)

    @property
    def is_whole_text(self) -> bool:
        """Whether rows hold the texts of this column themselves: its kind is "text" and `slots` (hash buckets) is 0."""
        return self.kind == "text" and self.slots == 0 and not isinstance(self.slots, bool)

    @property
    def is_whole(self) -> bool:
        """Whether rows hold the texts or images of this column themselves: an image, or a text with `slots` 0."""
        return self.is_whole_text or self.kind == "image"

    @property
    def bounded(self) -> bool:
        """Whether nothing about this column has to be released under privacy.

        A category needs declared categories, a number or date needs declared bounds. An undecided column is not
        bounded; a column of any other kind is.
        """
        if self.kind == "category":
            return bool(self.categories)
        return self.low is not None if self.kind in ("number", "date") else self.kind != "undecided"


def folded(word: str) -> str:
    """Return a text in folded case, without blanks at its ends, and with single blanks between its words.

    Parameters
    ----------
    word : str
        Any text.

    Returns
    -------
    str
        The folded text. Two categories with the same folded text are equal in a column with `fold`.

    >>> folded(" New   YORK") == folded("new york")
    True
    """
    return " ".join(word.casefold().split())


def as_date(days: float) -> datetime.date | None:
    """Return the date, or the date and time, that is exactly `days` days after 1 January 1970.

    Return None if Python has no such date: its years end at 9999, and its times are whole microseconds.
    """
    try:
        moment = EPOCH + datetime.timedelta(days=days)
    except OverflowError:
        return None
    if _days_since_epoch(moment) != days:
        return None
    return moment.date() if moment.time() == datetime.time() else moment


def _days_since_epoch(moment: datetime.datetime) -> float:
    return (moment - EPOCH) / datetime.timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class CodedColumn(Column):
    """A column as a learner sees it: the number or category that is one part of the declared column `source`.

    `part` names the part: "month" of a date, "slot 3" (a hash bucket) of a text, or one category of a category column.
    The values of all hash buckets of one text have squares that sum to at most 1.
    """

    source: str = ""
    part: str = ""

    @property
    def of_text(self) -> bool:
        """Whether the column is a hash bucket of a text column: a number whose part is "slot N"."""
        return self.kind == "number" and self.part.startswith("slot ")


def coded_columns(column: Column) -> tuple[Column, ...]:
    """Return the columns, mostly numbers and categories, that a declared column is coded into for a learner.

    A boolean becomes a category, and a time a number from 0 to 24 (hours). A date becomes one column for each used
    part, and a text one number for each used hash bucket. A category with `parts` becomes one column for each part,
    with the categories "no" and "yes". Any other column is returned unchanged: a number, a category without `parts`, a
    text without hash buckets (`slots` 0), an image, and a column of a kind that is not used or undecided.
    """
    if column.kind == "category" and column.parts:
        return tuple(
            CodedColumn(
                name=f"{column.name} ({part or 'missing'})",
                source=column.name,
                part=part,
                kind="category",
                categories=("no", "yes"),
            )
            for part in column.parts
        )
    if column.kind == "boolean":
        return (replace(column, kind="category", categories=column.categories or ("false", "true")),)
    if column.kind == "time":
        return (replace(column, kind="number", low=0.0, high=24.0),)
    if column.kind in ("date", "text") and not column.is_whole_text:
        return tuple(_part(column, part) for part in column.parts or column.known_parts)
    return (column,)


def may_be_part(name: str, undecided: Container[str]) -> bool:
    """Return whether `name` is that of a part which a column in `undecided` gets if it turns out a date or text.

    >>> may_be_part("joined (month)", {"joined"}), may_be_part("joined (late)", {"joined"})
    (True, False)
    """
    whole, _, part = name.removesuffix(")").rpartition(" (")
    return whole in undecided and (part in DATE_PARTS or part.startswith("slot "))


def _part(column: Column, part: str) -> CodedColumn:
    named: dict[str, Any] = {"name": f"{column.name} ({part})", "source": column.name, "part": part}
    if column.kind == "text":
        return CodedColumn(**named, low=-1.0, high=1.0)
    if part == "days":
        kept = ("low", "high", "categories", "bins", "missing", "unseen", "fold", "day_first")
        return CodedColumn(**named, **{name: getattr(column, name) for name in kept})
    missing = "category" if column.missing == "category" else "refuse"
    return CodedColumn(**named, kind="category", categories=DATE_LEVELS[part], missing=missing, unseen=column.unseen)
