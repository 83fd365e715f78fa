"""Code rows as numbers, row by row, from a batch of rows and public facts.

The code of a row depends on no other row, so a table larger than memory can be coded a batch at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from privaware.data._cells import Cells
from privaware.data._dates import clock_hours, date_parts, days_of_times, days_of_word
from privaware.data._hashing import hashed_words
from privaware.data._images import as_bytes
from privaware.data._outside import Outside
from privaware.data._raw import Raw
from privaware.data._values import FALSE, TRUE, Spelt, Words, got, is_missing, listed, numbers_of, quoted, words_of
from privaware.errors import WrongInput
from privaware.schema import Column, Schema, folded

if TYPE_CHECKING:
    import pandas as pd

    Values: TypeAlias = pd.Series | np.ndarray | Words | Spelt

MOST_ROWS_TWICE = 2**16
"""Up to this many rows, the coded columns are in memory twice: as columns, and as rows."""

ROWS_IN_CACHE = 2**9
"""Number of rows of a block that fits a processor's cache."""

NOT_OF_KIND = (
    'correct the row, declare unseen = "other" for the column to count such values as missing, or declare another kind '
    "for the column"
)
"""Advice in the error for a value that is no number, date or time as the kind of its column demands."""


def coded(batch: Raw, schema: Schema, outside: Outside | None = None) -> np.ndarray:
    """Return the coded columns of a table, as a learner sees them.

    Parameters
    ----------
    batch : Raw
        Rows of a table.
    schema : Schema
        The public facts.
    outside : Outside, optional
        Counts, in place, the values that do not fit the schema and that it allows. Values that it does not allow raise
        `WrongInput`.

    Returns
    -------
    numpy.ndarray
        Float64 (rows, columns), with one column for each of `schema.used`; objects if there are whole texts or images.
    """
    expect_columns(batch, schema)
    x = np.empty((len(batch), len(schema.used)), object if schema.has_whole_columns else float)
    few = len(x) <= MOST_ROWS_TWICE  # columns are written one by one, then transposed a block at a time
    columns, at = np.empty(x.shape[::-1], x.dtype).T if few else x, 0
    for column in schema.declared:
        block = _CODERS[column.kind](batch, column, outside or Outside())
        width = 1 if block.ndim == 1 else block.shape[1]
        columns[:, at : at + width] = block.reshape(len(x), width)
        at += width
    for start in range(0, len(x) if few else 0, ROWS_IN_CACHE):
        x[start : start + ROWS_IN_CACHE] = columns[start : start + ROWS_IN_CACHE]
    return x


def uncoded(batch: Raw, schema: Schema) -> Cells:
    """Return the used columns (`schema.declared`) before bounds are applied: unclipped numbers, and words.

    Missing numbers are NaN, missing words empty. Raise `WrongInput` if a column is absent, or refuses a value that is
    missing or of another kind.
    """
    expect_columns(batch, schema)
    return Cells(tuple(_READERS[column.kind](batch, column) for column in schema.declared), len(batch))


def joined_texts(batch: Raw, schema: Schema, outside: Outside | None = None) -> np.ndarray:
    """Return the texts of a schema of form text, one for each row; texts of several columns are joined by a blank.

    A missing value is empty, but a text such as NA stays. `outside` counts the empty texts of each column. Raise
    `WrongInput` if a column is absent.
    """
    expect_columns(batch, schema)
    outside = outside or Outside()
    texts = np.full(len(batch), "", dtype=object)
    for at, column in enumerate(schema.declared):
        words = words_of(batch.values(column.name)).map(str, object)
        outside.add_missing(column.name, words == "")
        if batch.files:
            outside.add(column.name, "empty_file", words == "")
        texts = words if at == 0 else texts + " " + words
    return texts


def expect_columns(batch: Raw, schema: Schema) -> None:
    """Raise `WrongInput` if `batch` is no table, or lacks one of the used columns (`schema.declared`)."""
    if batch.columns is None:
        wanted = "a folder of texts or a table" if schema.form == "text" else "a table"
        raise WrongInput(
            f"expected {wanted}, because the schema is of the form {schema.form!r}, got {batch.kind}; give {wanted}, "
            "or use another model or schema"
        )
    known = set(batch.columns)
    if absent := [column.name for column in schema.declared if column.name not in known]:
        alike = {folded(name): name for name in batch.columns}
        other = next((name for name in absent if folded(name) in alike), None)
        spelt = "" if other is None else f"; {quoted(other)} is spelled {quoted(alike[folded(other)])}"
        raise WrongInput(
            f"the model needs {listed(absent)}, the data have the columns {batch.columns_shown()}{spelt}; "
            f"{_advice_on_absent([column for column in schema.declared if column.name in absent])}"
        )


def _advice_on_absent(columns: list[Column]) -> str:
    """Return advice, the end of a message, if the data lack `columns`: an empty column helps if it may be missing."""
    if any(column.kind == "image" or (column.missing == "refuse" and column.kind != "text") for column in columns):
        return "rename or add columns of the data, or edit a schema that you wrote"
    return (
        "rename columns of the data, or add an empty column, whose values count as missing (in `predict` with "
        "--allow-unreadable=True if it holds texts or the predictions depend strongly on it)"
    )


def over_lines(batch: Raw, words: Words, known: Container[str] = ()) -> np.ndarray:
    """Return a mask of the rows whose word contains a line end.

    There a stray quotation mark has probably swallowed a row. `words` are the values of one column of `batch`. A word
    in `known` is never marked. No row is marked if `batch` is not from a text file.
    """
    if batch.line is None:
        return np.zeros(len(words), dtype=bool)
    return words.map(lambda word: word not in known and ("\n" in word or "\r" in word), bool)


def swallowed(batch: Raw, words: Words) -> np.ndarray:
    """Return a mask of the rows whose text has a line, other than its first, that looks like a record of the file.

    A line looks like a record if it has as many separators as one. A stray quotation mark may have swallowed that
    record. `words` are the texts of one column of `batch`. No row is marked if `batch` is not from a text file, or has
    fewer than three columns.
    """
    width = batch.fields or len(batch.columns or ())
    if batch.line is None or width < 3:
        return np.zeros(len(words), dtype=bool)
    return words.map(lambda word: any(line.count(batch.separator) == width - 1 for line in word.splitlines()[1:]), bool)


def first(mask: np.ndarray) -> int:
    """Return the position of the first true entry of `mask`, or 0 if no entry is true."""
    return int(np.argmax(mask))


def _refuse(batch: Raw, column: Column, wrong: np.ndarray, sentence: str) -> NoReturn:
    raise WrongInput(f"column {quoted(column.name)}, {batch.place(first(wrong))}: {sentence}")


def finite_or_nan(batch: Raw, column: Column, outside: Outside) -> np.ndarray:
    """Return a column of numbers, of dates as days, or of times as hours; NaN for missing and unreadable values.

    Infinite numbers become NaN, too. `outside` counts the missing values, the values that are not missing, and the
    values of another kind than `column` has. Raise `WrongInput` for a value of another kind if `column.unseen` is
    "refuse", and for any value that would become NaN if `column.missing` is "refuse".
    """
    values = batch.values(column.name)
    numbers, missing = _PARSERS[column.kind](values, column)
    outside.add_missing(column.name, missing)
    if np.isfinite(numbers).all():
        return numbers
    wrong = np.isnan(numbers) & ~missing
    if wrong.any():
        if column.unseen == "refuse":
            shown = got(words_of(values).word(first(wrong)))
            _refuse(batch, column, wrong, f"expected a {column.kind}{shown}; {NOT_OF_KIND}")
        outside.add(column.name, f"no_{column.kind}", wrong)
    absent = ~np.isfinite(numbers)
    if column.missing == "refuse" and absent.any():
        advice = 'correct the row, or set missing = "category" or a number to fill in (in the schema or the estimator)'
        _refuse(batch, column, absent, f"the value is missing or infinite; {advice}")
    return np.where(absent, np.nan, numbers)


def _clipped(numbers: np.ndarray, column: Column, outside: Outside) -> np.ndarray:
    """Return `numbers` clipped to the bounds of `column`, which has bounds; count the clipped values in `outside`.

    NaN stands for a missing value. It becomes `column.missing` if that is a number, and stays NaN otherwise.
    """
    assert column.low is not None
    assert column.high is not None
    outside.add_outside(column, (numbers < column.low) | (numbers > column.high))
    fill = np.nan if isinstance(column.missing, str) else float(column.missing)
    return np.where(np.isnan(numbers), fill, np.clip(numbers, column.low, column.high))


def _numbers(batch: Raw, column: Column, outside: Outside) -> np.ndarray:
    return _clipped(finite_or_nan(batch, column, outside), column, outside)


def _times(batch: Raw, column: Column, outside: Outside) -> np.ndarray:
    hours = finite_or_nan(batch, column, outside)
    fill = np.nan if isinstance(column.missing, str) else float(column.missing)
    return np.where(np.isnan(hours), fill, np.clip(hours, 0.0, 24.0))


def _dates(batch: Raw, column: Column, outside: Outside) -> np.ndarray:
    days = _clipped(finite_or_nan(batch, column, outside), column, outside)
    missing = np.isnan(days)
    parts = {"days": days}
    for part, codes in date_parts(np.where(missing, 0.0, days)).items():
        parts[part] = np.where(missing, {"month": 12, "weekday": 7, "hour": 24}[part], codes)
    return np.stack([parts[part] for part in column.parts or column.known_parts], axis=1)


def _texts(batch: Raw, column: Column, outside: Outside) -> np.ndarray:
    words = words_of(batch.values(column.name))
    outside.add_missing(column.name, words.missing())
    words = _whole_texts(batch, words, column)
    if column.is_whole_text:
        return words.map(str, object)
    slots = [int(part.removeprefix("slot ")) - 1 for part in column.parts or column.known_parts]
    distinct, codes = np.unique(words.codes, return_inverse=True)
    rows = hashed_words([words.spellings[code] for code in distinct.tolist()], column.slots)
    return np.asarray(rows[:, slots][codes])


def _pictures(batch: Raw, column: Column, outside: Outside) -> np.ndarray:
    """Return an object array with the float32 pixels of each image of `batch` as bytes.

    If `batch` has `cells`, its column already holds such bytes and is returned. If `batch` has no images, the array has
    length 0. `column` only names the column, and `outside` is not used.
    """
    if batch.cells is not None:
        return np.asarray(batch.values(column.name))
    return as_bytes(np.zeros(0) if batch.images is None else batch.images)


def _booleans(batch: Raw, column: Column, outside: Outside) -> np.ndarray:
    words = words_of(batch.values(column.name)).folded()
    false, true = ({folded(word)} for word in column.categories) if column.categories else (FALSE, TRUE)
    levels = {**dict.fromkeys(("0", *false), 0), **dict.fromkeys(("1", *true), 1)}
    return _levels(batch, words, column, levels, 2, outside)


def _categories(batch: Raw, column: Column, outside: Outside) -> np.ndarray:
    words, names = words_of(batch.values(column.name)), column.categories
    if column.fold:
        words, names = words.folded(), tuple(folded(name) for name in names)
    codes = _levels(batch, words, column, {word: at for at, word in enumerate(names)}, len(names), outside)
    if not column.parts:
        return codes
    return np.stack([codes == column.categories.index(part) for part in column.parts], axis=1).astype(float)


def _levels(batch: Raw, words: Words, column: Column, codes: dict[str, int], last: int, outside: Outside) -> np.ndarray:
    """Return for each row the code of its word in `codes`, or `last` for a missing or undeclared word, as floats.

    `codes` has the code of each declared word. If "" is declared, its code is that of every missing word. Raise
    `WrongInput` for a missing word if `column.missing` is "refuse", for an undeclared word if `column.unseen` is
    "refuse", and for an undeclared word over several lines. Missing words, and undeclared words that are not refused,
    are counted in `outside`.
    """
    words = _known_words(batch, words, column, codes)
    outside.add_missing(column.name, words.map(lambda word: not word, bool))
    unseen = words.map(lambda word: bool(word) and word not in codes, bool)
    if unseen.any():
        if column.unseen == "refuse":
            shown = got(words.word(first(unseen)))
            _refuse(batch, column, unseen, f'expected a declared category{shown}; add it or declare unseen = "other"')
        outside.add(column.name, "unseen", unseen)
    return words.map(lambda word: codes.get(word, last), float)


def _known_words(batch: Raw, words: Words, column: Column, codes: Container[str] = ()) -> Words:
    """Return `words`, the values of `column` in the rows `batch`, with an empty text in place of missing values.

    A value in `codes`, the declared categories, never counts as missing, and may have several lines. Raise `WrongInput`
    for a missing value if `column.missing` is "refuse", and for any other value with several lines if `batch` was read
    from a text file.
    """
    missing = words.map(lambda word: word not in codes and is_missing(word), bool)
    if column.missing == "refuse" and missing.any():
        _refuse(batch, column, missing, 'the value is missing; declare missing = "category"')
    broken = over_lines(batch, words, known=codes)
    if broken.any():
        advice = 'close its quotation mark, or declare the category, kind = "text" or "ignore"'
        _refuse(batch, column, broken, f"the value goes over several lines; {advice}")
    spellings = tuple("" if word not in codes and is_missing(word) else word for word in words.spellings)
    return Words(spellings=spellings, codes=words.codes)


def _parsed_dates(values: Values, column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Return days since 1970 (NaN where a value is not a date), and a mask of missing values.

    The numbers of an array, and of a column of a number type, are already days. In a text such as 3/4/2020 the day
    comes first if `column.day_first`.
    """
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
    """Return the dates of a column as days since 1970.

    Parameters
    ----------
    values : pandas.Series, numpy.ndarray, Words or Spelt
        The values.
    column : Column
        The declared column, which says whether the day comes first in 3/4/2020.

    Returns
    -------
    numpy.ndarray
        The days, a time as a fraction of a day; NaN where a value is not a date.
    """
    return _parsed_dates(values, column)[0]


def _parsed_times(values: Values, column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Return hours since midnight (NaN where a value is not a time), and a mask of missing values.

    The numbers of a NumPy array are already hours. `column` is not used.
    """
    if isinstance(values, np.ndarray):
        return numbers_of(values)
    words = words_of(values)
    return words.map(clock_hours, float), words.missing()


def has_date_type(values: pd.Series) -> bool:
    """Return whether the dtype of a column is a date or a time stamp; a column of texts or objects does not count."""
    return values.dtype.kind == "M" or str(values.dtype).startswith(("date32", "date64", "timestamp"))


def _read_numbers(batch: Raw, column: Column) -> np.ndarray:
    return finite_or_nan(batch, column, Outside())


def _read_undecided(batch: Raw, column: Column) -> Words | Spelt:
    values = batch.values(column.name)
    if not isinstance(values, Spelt):
        return _read_words(batch, column)
    _whole_texts(batch, Words(spellings=(*values.spellings, ""), codes=values.codes), column)  # may raise
    return values.respelt(lambda word: "" if is_missing(word) else folded(word) if column.fold else word)


def _read_words(batch: Raw, column: Column) -> Words:
    words = words_of(batch.values(column.name))
    if column.kind in ("text", "undecided"):
        words = _whole_texts(batch, words, column)
    else:
        words = _known_words(batch, words, column, column.categories)
    return words.folded() if column.fold else words


def _whole_texts(batch: Raw, words: Words, column: Column) -> Words:
    """Return `words`, the texts of `column`, with missing ones empty.

    Raise `WrongInput` if a stray quotation mark seems to have joined several rows.
    """
    joined = swallowed(batch, words)
    if joined.any():
        _refuse(batch, column, joined, "the value holds what looks like other rows; close its quotation mark")
    return Words(spellings=tuple("" if is_missing(word) else word for word in words.spellings), codes=words.codes)


_PARSERS: dict[str, Callable[[Any, Column], tuple[np.ndarray, np.ndarray]]] = {
    "number": lambda values, column: numbers_of(values),
    "date": _parsed_dates,
    "time": _parsed_times,
}
"""For each kind, a function from values and their column to numbers and a mask of missing values."""
_CODERS: dict[str, Callable[[Raw, Column, Outside], np.ndarray]] = {
    "number": _numbers,
    "category": _categories,
    "boolean": _booleans,
    "date": _dates,
    "time": _times,
    "text": _texts,
    "image": _pictures,
}
"""For each kind, a function from rows, a declared column and counts of values outside the schema to coded columns."""
_READERS: dict[str, Callable[[Raw, Column], np.ndarray | Words | Spelt]] = {
    "number": _read_numbers,
    "date": _read_numbers,
    "time": _read_numbers,
    "category": _read_words,
    "boolean": _read_words,
    "text": _read_words,
    "image": lambda batch, column: _pictures(batch, column, Outside()),
    "undecided": _read_undecided,
}
"""For each kind, a function from rows and a declared column to a column of `Cells`."""
