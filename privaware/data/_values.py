"""Values as numbers or as text, each by itself: how one row is read never depends on another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.data._numbers import number_of
from privaware.errors import WrongInput
from privaware.schema import folded

if TYPE_CHECKING:
    import pandas as pd

_SHOWN: ContextVar[bool] = ContextVar("show_values", default=False)
MISSING = frozenset(("", "?", "-", "--", ".", "#n/a", "na", "n/a", "n.a.", "nan", "nat", "null", "none", "<na>"))
TRUE = frozenset(("true", "t", "yes", "y", "on"))
FALSE = frozenset(("false", "f", "no", "n", "off"))
"""Spellings of truth values in any case; 1 and 0 are numbers, and truth values where a schema says so."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """A column as text: its distinct spellings, and for each row the number of its spelling."""

    spellings: tuple[str, ...]
    codes: np.ndarray

    def map(self, value: Callable[[str], Any], dtype: Any) -> np.ndarray:
        """A value for each row, computed once for each spelling."""
        values = np.empty(len(self.spellings), dtype=dtype)
        values[:] = [value(word) for word in self.spellings]
        return values[self.codes]

    def missing(self) -> np.ndarray:
        """A mask of the rows without a value."""
        return self.map(is_missing, bool)

    def distinct(self) -> list[str]:
        """The spellings that occur, in order."""
        return sorted({self.spellings[code] for code in np.unique(self.codes)})

    def folded(self) -> Words:
        """The same words without case and repeated blanks."""
        return Words(spellings=tuple(folded(word) for word in self.spellings), codes=self.codes)

    def word(self, row: int) -> str:
        return self.spellings[self.codes[row]]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Words:
        """The words of some rows."""
        return Words(spellings=self.spellings, codes=self.codes[rows])


def is_missing(word: str) -> bool:
    """Whether a word stands for a missing value.

    >>> is_missing("N/A"), is_missing("no")
    (True, False)
    """
    return word.lower() in MISSING


def words_of(values: pd.Series | np.ndarray | Words) -> Words:
    """Values as text in a canonical spelling: true as "True", 1.0 as "1", a missing value as ""."""
    import pandas as pd

    if isinstance(values, Words):
        return values
    if isinstance(values, np.ndarray):
        values = pd.Series(values)
    if is_pointed(values):
        bits, rows = np.unique(numbers_of(values)[0].view(np.int64), return_inverse=True)  # -0.0 is not 0.0
        pointed = ("" if np.isnan(number) else repr(number) for number in bits.view(float).tolist())
        return Words(spellings=tuple(pointed), codes=rows.astype(np.int32))
    one_type = (pd.StringDtype, pd.CategoricalDtype, pd.Int64Dtype, pd.UInt64Dtype, np.dtype)
    if values.dtype == object or not isinstance(values.dtype, one_type):
        # Distinguished by spelling: factorize would take 1, 1.0 and True for the same object.
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
    spellings = [_spelling(value) or "" for value in distinct.tolist()]
    if (odd := next((at for at, word in enumerate(spellings) if not _is_unicode(word)), None)) is not None:
        row = int(np.argmax(codes == odd))
        raise WrongInput(f"column {quoted(values.name)}, row {row + 1}: expected text, got half of a character")
    return Words(
        spellings=(*spellings, ""), codes=codes.astype(np.int32)
    )  # a missing value has code -1: the last spelling


def _is_unicode(word: str) -> bool:
    """Whether a word can be written down: half of a surrogate pair cannot."""
    if word.isascii():
        return True
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _used_categories(values: pd.Series) -> tuple[np.ndarray, Any]:
    """What `factorize` returns, in the order of the categories, without looking every value up."""
    codes, categories = values.cat.codes.to_numpy(dtype=np.intp), values.cat.categories
    used = np.bincount(codes + 1, minlength=len(categories) + 1)[1:] > 0
    return (codes, categories) if used.all() else (np.append(np.cumsum(used) - 1, -1).take(codes), categories[used])


def is_pointed(values: pd.Series) -> bool:
    """Whether a column of a text file holds numbers that are all spelt with a point."""
    return str(values.dtype) == "double[pyarrow]"


def pointed_numbers(values: pd.Series) -> np.ndarray:
    """The numbers of such a column, without a copy."""
    import pyarrow as pa

    numbers: np.ndarray = pa.array(values.array).to_numpy(zero_copy_only=False)
    return numbers


def _spelling(value: Any) -> str | None:
    """One value as text; None for what is not a single value (lists, records, raw bytes)."""
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
    except ValueError:  # whole numbers of thousands of digits have no decimal spelling
        return "inf"


def no_single_values(values: pd.Series) -> bool:
    """Whether every value that is not missing is a list, a record or raw bytes, and there is one.

    >>> import pandas as pd
    >>> no_single_values(pd.Series([[1], None])), no_single_values(pd.Series([[1], "a"]))
    (True, False)
    """
    spellings = {_spelling(value) for value in values.tolist()} if values.dtype == object else set()
    return None in spellings and spellings <= {None, ""}


def spelling_of_number(number: float) -> str:
    """A number as text: whole ones without a point."""
    number = float(number)
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else str(number)


def numbers_of(values: pd.Series | np.ndarray | Words) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (NaN where a value is not one) and a mask of the missing values."""
    import pandas as pd

    if isinstance(values, Words):
        return values.map(number_of, float), values.missing()
    if isinstance(values, np.ndarray):
        values = pd.Series(values)
    kind = values.dtype.kind
    if is_pointed(values):
        numbers = pointed_numbers(values)
        return numbers, np.isnan(numbers)
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
    """Lets refusals quote the cell that they are about, on the owner's own screen; without it none ever does.

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
    """Whether messages may quote values of rows."""
    return _SHOWN.get()


def got(value: Any) -> str:
    """How a refusal goes on about a value of a row: not at all, unless the owner asked for it."""
    return f", got {quoted(value)}" if values_shown() else ""


def quoted(value: Any) -> str:
    """A public value (a name, a setting) in a message: in quotes, on one line, at most 60 characters."""
    text = repr(str(value))
    return text if len(text) <= 60 else text[:57] + "..."


def listed(names: Iterable[Any]) -> str:
    """The first few names in a message.

    >>> listed(range(10))
    "'0', '1', '2', '3', '4', '5' and 4 more"
    """
    every = list(names)
    first = ", ".join(quoted(name) for name in every[:6])
    return first + (f" and {len(every) - 6} more" if len(every) > 6 else "")
