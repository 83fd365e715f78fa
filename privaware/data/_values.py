"""Values as numbers or as text, each by itself: the reading of one row never depends on another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.data._numbers import number_of
from privaware.data._words import FALSE, TRUE, Spelt, Words, is_missing, spelling_of_number
from privaware.errors import WrongInput

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FALSE",
    "TRUE",
    "Spelt",
    "Words",
    "got",
    "is_missing",
    "listed",
    "no_single_values",
    "numbers_of",
    "quoted",
    "show_values",
    "spelt_of",
    "value_was_withheld",
    "values_shown",
    "words_of",
]

_SHOWN: ContextVar[bool] = ContextVar("show_values", default=False)
_WITHHELD: ContextVar[bool] = ContextVar("withheld", default=False)
"""Whether errors may quote values of rows."""


def words_of(values: pd.Series | np.ndarray | Words | Spelt) -> Words:
    """Return values as text in one spelling for each value: true as "True", 1.0 as "1", a missing value as "".

    Text, or bytes in UTF-8, stay as they are, without outer spaces, even if they spell a missing value. Other values
    are written as `str` writes them. Raise `WrongInput` for lists, records, other bytes, and half of a surrogate pair.

    Parameters
    ----------
    values : pandas.Series, numpy.ndarray, Words or Spelt
        The values of a column.

    Returns
    -------
    Words
        The words.
    """
    import pandas as pd

    if isinstance(values, Words):
        return values
    values = _as_series(values)
    if isinstance(values, Spelt):
        return values.words()
    one_type = (pd.StringDtype, pd.CategoricalDtype, pd.Int64Dtype, pd.UInt64Dtype, np.dtype)
    if values.dtype == object or not isinstance(values.dtype, one_type):
        # Values are distinguished by spelling, because factorize would take 1, 1.0 and True for one value.
        words = [_spelling(value) for value in values.tolist()]
        if None in words:
            row = words.index(None)
            raise WrongInput(
                f"column {quoted(values.name)}, row {row + 1}: expected a number or text, "
                f'got {type(values.iloc[row]).__name__}; remove the column or declare kind = "ignore"'
            )
        values = pd.Series(words, dtype=object, name=values.name)
    known = isinstance(values.dtype, pd.CategoricalDtype)
    codes, distinct = _used_categories(values) if known else pd.factorize(values)
    text = isinstance(distinct.dtype, pd.StringDtype)
    spelling = str if distinct.dtype.kind in "iu" else str.strip if text else lambda value: _spelling(value) or ""
    spellings = [spelling(value) for value in distinct.tolist()]
    if (odd := next((at for at, word in enumerate(spellings) if not _is_unicode(word)), None)) is not None:
        row = int(np.argmax(codes == odd))
        raise WrongInput(f"column {quoted(values.name)}, row {row + 1}: expected text, got half of a character")
    return Words(
        spellings=(*spellings, ""), codes=codes.astype(np.int32)
    )  # a missing value has code -1: the last spelling


def _is_unicode(word: str) -> bool:
    """Return whether a word can be encoded; half of a surrogate pair cannot."""
    if word.isascii():
        return True
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _used_categories(values: pd.Series) -> tuple[np.ndarray, Any]:
    """Return the codes and the categories of a categorical column, as `pandas.factorize` does; -1 is a missing value.

    Categories stay in the order of the type, and those in no row are left out.
    """
    codes, categories = values.cat.codes.to_numpy(dtype=np.intp), values.cat.categories
    used = np.bincount(codes + 1, minlength=len(categories) + 1)[1:] > 0
    return (codes, categories) if used.all() else (np.append(np.cumsum(used) - 1, -1).take(codes), categories[used])


def _as_series(values: pd.Series | np.ndarray | Spelt) -> pd.Series | Spelt:
    import pandas as pd

    spelt = spelt_of(values)
    if spelt is not None:
        return spelt
    return pd.Series(values) if isinstance(values, np.ndarray) else values


def spelt_of(values: Any) -> Spelt | None:
    """Return `values` as `Spelt` (numbers with their spellings) if they are stored in this form, otherwise None."""
    spelt = values if isinstance(values, Spelt) else getattr(getattr(values, "array", None), "spelt", None)
    return spelt if isinstance(spelt, Spelt) else None


def _spelling(value: Any) -> str | None:
    """Return one value as text, stripped; empty if it is missing.

    Return None if it is a list, a record, or bytes that are not UTF-8.
    """
    import pandas as pd

    if isinstance(value, str):
        return value.strip()
    if not pd.api.types.is_scalar(value):
        return None
    if isinstance(value, bytes):
        try:
            return value.decode().strip()
        except UnicodeDecodeError:
            return None
    if pd.isna(value):
        return ""
    if isinstance(value, (float, np.floating)):
        return spelling_of_number(float(value))
    try:
        return str(value).strip()
    except ValueError:  # Python does not spell integers of thousands of digits
        return "inf"


def no_single_values(values: pd.Series) -> bool:
    """Return whether some value is a list, a record or bytes that are not UTF-8, and all others are missing or empty.

    >>> import pandas as pd
    >>> no_single_values(pd.Series([[1], None])), no_single_values(pd.Series([[1], "a"]))
    (True, False)
    """
    spellings = {_spelling(value) for value in values.tolist()} if values.dtype == object else set()
    return None in spellings and spellings <= {None, ""}


def numbers_of(values: pd.Series | np.ndarray | Words | Spelt) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of a column, and a mask of its missing values.

    Parameters
    ----------
    values : pandas.Series, numpy.ndarray, Words or Spelt
        The values of a column.

    Returns
    -------
    numbers : numpy.ndarray
        The numbers, as float64; NaN where a value is not a number, such as a date. True is 1 and false is 0. Durations
        are in seconds.
    missing : numpy.ndarray
        The mask. Text that is no number is not missing, unless it stands for a missing value, such as NA.
    """
    import pandas as pd

    if isinstance(values, Words):
        return values.map(number_of, float), values.missing()
    values = _as_series(values)
    if isinstance(values, Spelt):
        return values.numbers, values.missing()
    kind = values.dtype.kind
    if kind in "biuf" and isinstance(values.dtype, (np.dtype, pd.api.extensions.ExtensionDtype)):
        with np.errstate(over="ignore"):
            numbers = values.to_numpy(dtype=float, na_value=np.nan)
        return numbers, np.isnan(numbers)
    if kind == "m":  # durations, in seconds
        seconds = values.dt.total_seconds().to_numpy(dtype=float, na_value=np.nan)
        return seconds, np.isnan(seconds)
    words = words_of(values)
    return words.map(number_of, float), words.missing()


@contextmanager
def show_values(shown: bool = True) -> Iterator[None]:
    """Let errors quote the cell that they are about, for the owner's own screen; without it no error does.

    Parameters
    ----------
    shown : bool
        Whether values are shown.

    >>> with show_values():
    ...     got("abc")
    ", got 'abc'"
    >>> got("abc")
    ''
    """
    token = _SHOWN.set(shown)
    try:
        yield
    finally:
        _SHOWN.reset(token)


def values_shown() -> bool:
    """Return whether messages may quote values of rows."""
    return _SHOWN.get()


def got(value: Any) -> str:
    """Return the end of an error message that quotes a value of a row, such as `, got 'abc'`.

    It is empty unless the owner asked to see values (`show_values`). If it is empty, it is noted that a value was left
    out (`value_was_withheld`).
    """
    if values_shown():
        return f", got {quoted(value)}"
    _WITHHELD.set(True)
    return ""


def value_was_withheld() -> bool:
    """Return whether `got` left out a value since the last call of this function, in this context (`contextvars`)."""
    withheld = _WITHHELD.get()
    _WITHHELD.set(False)
    return withheld


def quoted(value: Any) -> str:
    """Return a public value (a name, a setting) for a message: quoted, on one line, at most 60 characters in all."""
    text = repr(str(value))
    return text if len(text) <= 60 else text[:57] + "..."


def listed(names: Iterable[Any]) -> str:
    """Return the first six names, quoted and separated by commas, and how many more there are, for a message.

    >>> listed(range(10))
    "'0', '1', '2', '3', '4', '5' and 4 more"
    """
    every = list(names)
    first = ", ".join(quoted(name) for name in every[:6])
    return first + (f" and {len(every) - 6} more" if len(every) > 6 else "")
