"""Rows as numbers: `coded(batch, schema)` is a function of a batch of rows and public facts, row by row.

How one row is coded depends on no other row, so a table larger than memory can be coded a batch at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from privaware.data._cells import Cells
from privaware.data._dates import clock_hours, date_parts, days_of_times, days_of_word
from privaware.data._hashing import hashed_words
from privaware.data._outside import Outside
from privaware.data._raw import Raw
from privaware.data._values import FALSE, TRUE, Spelt, Words, got, is_missing, listed, numbers_of, quoted, words_of
from privaware.errors import WrongInput
from privaware.schema import Column, Schema, folded

if TYPE_CHECKING:
    import pandas as pd

    Values: TypeAlias = pd.Series | np.ndarray | Words | Spelt

__all__ = ["coded", "columns_read", "days_among", "has_date_type", "joined_texts", "over_lines", "uncoded"]

MOST_ROWS_TWICE = 2**16
"""Up to this many rows, the coded columns are in memory twice: as columns, and as rows."""

ROWS_IN_CACHE = 2**9
"""Rows of a block that stays in a processor's cache."""

NO_NUMBER = 'mend the row, declare unseen = "other" to count it as missing, or declare another kind'


def coded(batch: Raw, schema: Schema, outside: Outside | None = None) -> np.ndarray:
    """The columns of a table as a learner sees them, float64 (rows, columns); `outside` counts what does not fit."""
    expect_columns(batch, schema)
    x = np.empty((len(batch), len(schema.used)))
    few = len(x) <= MOST_ROWS_TWICE  # then columns are written one by one, and turned into rows a block at a time
    columns, at = np.empty(x.shape[::-1]).T if few else x, 0
    for column in schema.declared:
        block = _CODERS[column.kind](batch, batch.values(column.name), column, outside or Outside())
        width = 1 if block.ndim == 1 else block.shape[1]
        columns[:, at : at + width] = block.reshape(len(x), width)
        at += width
    for start in range(0, len(x) if few else 0, ROWS_IN_CACHE):
        x[start : start + ROWS_IN_CACHE] = columns[start : start + ROWS_IN_CACHE]
    return x


def uncoded(batch: Raw, schema: Schema) -> Cells:
    """The columns as declared, before bounds: numbers that are not clipped, and words."""
    expect_columns(batch, schema)
    columns = (_READERS[column.kind](batch, batch.values(column.name), column) for column in schema.declared)
    return Cells(tuple(columns), len(batch))


def columns_read(batch: Raw, column: Column, outside: Outside) -> None:
    """Counts the values of a column of numbers, dates or times that are none."""
    _finite_or_nan(batch, batch.values(column.name), column, outside, column.kind)


def joined_texts(batch: Raw, schema: Schema) -> np.ndarray:
    """The texts of a schema of form text, those of several columns joined."""
    expect_columns(batch, schema)
    texts = np.full(len(batch), "", dtype=object)
    for at, column in enumerate(schema.declared):
        words = words_of(batch.values(column.name)).map(str, object)
        texts = words if at == 0 else texts + " " + words
    return texts


def expect_columns(batch: Raw, schema: Schema) -> None:
    """Refuses a batch that lacks columns of the schema."""
    if batch.columns is None:
        raise WrongInput(f"expected a table for a schema of form {schema.form!r}, got images")
    known = set(batch.columns)
    if absent := [column.name for column in schema.declared if column.name not in known]:
        alike = {folded(name): name for name in batch.columns}
        spelt = [
            f"{quoted(name)} is there as {quoted(alike[folded(name)])}" for name in absent if folded(name) in alike
        ]
        raise WrongInput(
            f"the schema names {listed(absent)}, the data have the columns {batch.columns_shown()}"
            f"{'; ' + spelt[0] if spelt else ''}; rename or add columns of the data, or edit a schema that you wrote"
        )


def over_lines(batch: Raw, words: Words, known: Container[str] = ()) -> np.ndarray:
    """Rows of a text file with a line end in a value that is a name: there a stray mark has swallowed a row."""
    if batch.line is None:
        return np.zeros(len(words), dtype=bool)
    return words.map(lambda word: word not in known and ("\n" in word or "\r" in word), bool)


def swallowed(batch: Raw, words: Words) -> np.ndarray:
    """Rows with a text over several lines of which one looks like a record: a stray mark may have swallowed it."""
    width = len(batch.columns or ())
    if batch.line is None or width < 3:
        return np.zeros(len(words), dtype=bool)
    return words.map(lambda word: any(line.count(batch.separator) == width - 1 for line in word.splitlines()[1:]), bool)


def first(mask: np.ndarray) -> int:
    """The first row of a mask."""
    return int(np.argmax(mask))


def _refuse(batch: Raw, column: Column, wrong: np.ndarray, sentence: str) -> None:
    raise WrongInput(f"column {quoted(column.name)}, {batch.place(first(wrong))}: {sentence}")


def _finite_or_nan(batch: Raw, values: Values, column: Column, outside: Outside, what: str = "number") -> np.ndarray:
    """Numbers, days or hours; NaN where a value is missing, infinite or (with unseen = "other") none of them."""
    numbers, missing = _PARSERS[column.kind](values, column)
    if np.isfinite(numbers).all():
        return numbers
    wrong = np.isnan(numbers) & ~missing
    if wrong.any():
        if column.unseen == "refuse":
            shown = got(words_of(values).word(first(wrong)))
            _refuse(batch, column, wrong, f"expected a {what}{shown}; {NO_NUMBER}")
        outside.add(column.name, f"no_{what}", wrong)
    absent = ~np.isfinite(numbers)
    if column.missing == "refuse" and absent.any():
        _refuse(
            batch,
            column,
            absent,
            'the value is missing or infinite; mend the row, or say missing = "category" or a number to fill in '
            "(in the schema, or to an estimator)",
        )
    return np.where(absent, np.nan, numbers)


def _clipped(numbers: np.ndarray, column: Column, outside: Outside) -> np.ndarray:
    assert column.low is not None
    assert column.high is not None
    outside.add(column.name, "outside_bounds", (numbers < column.low) | (numbers > column.high))
    fill = np.nan if isinstance(column.missing, str) else float(column.missing)
    return np.where(np.isnan(numbers), fill, np.clip(numbers, column.low, column.high))


def _numbers(batch: Raw, values: Values, column: Column, outside: Outside) -> np.ndarray:
    return _clipped(_finite_or_nan(batch, values, column, outside), column, outside)


def _times(batch: Raw, values: Values, column: Column, outside: Outside) -> np.ndarray:
    hours = _finite_or_nan(batch, values, column, outside, "time")
    fill = np.nan if isinstance(column.missing, str) else float(column.missing)
    return np.where(np.isnan(hours), fill, np.clip(hours, 0.0, 24.0))


def _dates(batch: Raw, values: Values, column: Column, outside: Outside) -> np.ndarray:
    days = _clipped(_finite_or_nan(batch, values, column, outside, "date"), column, outside)
    missing = np.isnan(days)
    parts = {"days": days}
    for part, codes in date_parts(np.where(missing, 0.0, days)).items():
        last = {"month": 12, "weekday": 7, "hour": 24}[part]
        parts[part] = np.where(missing, last, codes)
    return np.stack([parts[part] for part in column.parts or column.known_parts], axis=1)


def _texts(batch: Raw, values: Values, column: Column, outside: Outside) -> np.ndarray:
    words = _whole_texts(batch, words_of(values), column)
    slots = [int(part.removeprefix("slot ")) - 1 for part in column.parts or column.known_parts]
    distinct, codes = np.unique(words.codes, return_inverse=True)
    rows = hashed_words([words.spellings[code] for code in distinct.tolist()], column.slots)
    return np.asarray(rows[:, slots][codes])


def _booleans(batch: Raw, values: Values, column: Column, outside: Outside) -> np.ndarray:
    words = words_of(values).folded()
    false, true = ({folded(word)} for word in column.categories) if column.categories else (FALSE, TRUE)
    levels = {**dict.fromkeys(("0", *false), 0), **dict.fromkeys(("1", *true), 1)}
    return _levels(batch, words, column, levels, 2, outside)


def _categories(batch: Raw, values: Values, column: Column, outside: Outside) -> np.ndarray:
    words, names = words_of(values), column.categories
    if column.fold:
        words, names = words.folded(), tuple(folded(name) for name in names)
    return _levels(batch, words, column, {word: at for at, word in enumerate(names)}, len(names), outside)


def _levels(batch: Raw, words: Words, column: Column, codes: dict[str, int], last: int, outside: Outside) -> np.ndarray:
    """The code of each word; what is missing or not declared has the code after the last."""
    _known_words(batch, words, column, codes)
    unseen = words.map(lambda word: word not in codes and not is_missing(word), bool)
    if unseen.any():
        if column.unseen == "refuse":
            shown = got(words.word(first(unseen)))
            _refuse(batch, column, unseen, f'expected a declared category{shown}; add it or declare unseen = "other"')
        outside.add(column.name, "unseen", unseen)
    return words.map(lambda word: codes.get(word, last), float)


def _known_words(batch: Raw, words: Words, column: Column, codes: Container[str] = ()) -> Words:
    """The words, a missing one empty; a value over several lines is refused, and a missing one as declared."""
    missing = words.map(lambda word: word not in codes and is_missing(word), bool)
    if column.missing == "refuse" and missing.any():
        _refuse(batch, column, missing, 'the value is missing; declare missing = "category"')
    broken = over_lines(batch, words, known=codes)
    if broken.any():
        _refuse(
            batch,
            column,
            broken,
            "the value goes over several lines; close its quotation mark, or declare the category, "
            'kind = "text" or "ignore"',
        )
    spellings = tuple("" if word not in codes and is_missing(word) else word for word in words.spellings)
    return Words(spellings=spellings, codes=words.codes)


def _parsed_numbers(values: Values, column: Column) -> tuple[np.ndarray, np.ndarray]:
    return numbers_of(values)


def _parsed_dates(values: Values, column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Days since 1970; numbers whose type is declared are such days already."""
    if isinstance(values, np.ndarray):
        return numbers_of(values)
    if not isinstance(values, (Words, Spelt)):
        if has_date_type(values):
            days = days_of_times(values)
            return days, np.isnan(days)
        if values.dtype.kind in "iuf":
            return numbers_of(values)
    words = words_of(values)
    return words.map(lambda word: days_of_word(word, column.day_first), float), words.missing()


def days_among(values: Values, column: Column) -> np.ndarray:
    """Days since 1970 of a column of dates, NaN where a value is none."""
    return _parsed_dates(values, column)[0]


def _parsed_times(values: Values, column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Hours since midnight; numbers are such hours already."""
    if isinstance(values, np.ndarray):
        return numbers_of(values)
    words = words_of(values)
    return words.map(clock_hours, float), words.missing()


def has_date_type(values: pd.Series) -> bool:
    """Whether the type of a column, not its values, says that it holds dates."""
    return values.dtype.kind == "M" or str(values.dtype).startswith(("date32", "date64", "timestamp"))


def _read_numbers(batch: Raw, values: Values, column: Column) -> np.ndarray:
    return _finite_or_nan(batch, values, column, Outside(), column.kind)


def _read_undecided(batch: Raw, values: Values, column: Column) -> Words | Spelt:
    if not isinstance(values, Spelt):
        return _read_words(batch, values, column)
    if swallowed(batch, Words(spellings=(*values.spellings, ""), codes=values.codes)).any():
        _read_words(batch, values, column)  # refuses it
    return values.respelt(lambda word: _usual_spelling(word, column))


def _read_words(batch: Raw, values: Values, column: Column) -> Words:
    words = words_of(values)
    if column.kind in ("text", "undecided"):
        words = _whole_texts(batch, words, column)
    else:
        words = _known_words(batch, words, column, column.categories)
    return words.folded() if column.fold else words


def _whole_texts(batch: Raw, words: Words, column: Column) -> Words:
    """The texts, unless a stray quotation mark seems to have joined several rows."""
    joined = swallowed(batch, words)
    if joined.any():
        _refuse(batch, column, joined, "the value holds what looks like other rows; close its quotation mark")
    return Words(spellings=tuple("" if is_missing(word) else word for word in words.spellings), codes=words.codes)


def _usual_spelling(word: str, column: Column) -> str:
    if is_missing(word):
        return ""
    return folded(word) if column.fold else word


_PARSERS: dict[str, Callable[[Any, Column], tuple[np.ndarray, np.ndarray]]] = {
    "number": _parsed_numbers,
    "date": _parsed_dates,
    "time": _parsed_times,
}
_CODERS: dict[str, Callable[[Raw, Any, Column, Outside], np.ndarray]] = {
    "number": _numbers,
    "category": _categories,
    "boolean": _booleans,
    "date": _dates,
    "time": _times,
    "text": _texts,
}
_READERS: dict[str, Callable[[Raw, Any, Column], np.ndarray | Words | Spelt]] = {
    "number": _read_numbers,
    "date": _read_numbers,
    "time": _read_numbers,
    "category": _read_words,
    "boolean": _read_words,
    "text": _read_words,
    "undecided": _read_undecided,
}
