"""Values as numbers or as words, each on its own: how one row is read never depends on another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.errors import WrongInput

if TYPE_CHECKING:
    import pandas as pd

MISSING = frozenset(("", "?", "na", "n/a", "nan", "nat", "null", "none", "<na>"))


@dataclass(frozen=True, kw_only=True)
class Words:
    """A column as text: its spellings, and for each row which one it has."""

    spellings: tuple[str, ...]
    at: np.ndarray

    def map(self, value: Callable[[str], Any], dtype: Any) -> np.ndarray:
        """A value for each row, worked out once for each spelling."""
        made = np.empty(len(self.spellings), dtype=dtype)
        made[:] = [value(word) for word in self.spellings]
        return made[self.at]

    def gaps(self) -> np.ndarray:
        """Which rows hold no value."""
        return self.map(missing, bool)

    def distinct(self) -> list[str]:
        """The spellings that occur, in order."""
        return sorted({self.spellings[place] for place in np.unique(self.at)})

    def __getitem__(self, row: int) -> str:
        return self.spellings[self.at[row]]


def missing(word: str) -> bool:
    """Whether a word stands for no value.

    >>> missing("N/A"), missing("no")
    (True, False)
    """
    return word.lower() in MISSING


def words_of(values: pd.Series) -> Words:
    """Values as text, spelt as a person would: true as "True", 1.0 as "1", nothing as ""."""
    import pandas as pd

    alike = (pd.StringDtype, pd.CategoricalDtype, np.dtype)
    if values.dtype == object or not isinstance(values.dtype, alike):
        # Told apart by spelling: factorize would take 1, 1.0 and True for the same object.
        words = [_spelt(value) for value in values.tolist()]
        if None in words:
            row = words.index(None)
            raise WrongInput(
                f"column {short(values.name)}, row {row + 1}: expected a number or text, "
                f'got {type(values.iloc[row]).__name__}; remove the column or declare kind = "ignore"'
            )
        values = pd.Series(words, dtype=object)
    at, distinct = pd.factorize(values)
    spellings = [_spelt(value) or "" for value in distinct.tolist()]
    return Words(spellings=(*spellings, ""), at=at)  # a gap is -1: the last spelling


def _spelt(value: Any) -> str | None:
    """One value as text; nothing for what is not a single value (lists, records, raw bytes)."""
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
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else str(value)
    try:
        return str(value).strip()
    except ValueError:  # whole numbers of thousands of digits have no decimal spelling
        return "inf"


def numbers_of(values: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (NaN where there is none) and a mask of the values that are missing rather than wrong."""
    import pandas as pd

    kind = values.dtype.kind
    if kind in "biuf" and isinstance(values.dtype, (np.dtype, pd.api.extensions.ExtensionDtype)):
        with np.errstate(over="ignore"):
            numbers = values.to_numpy(dtype=float, na_value=np.nan)
        return numbers, np.isnan(numbers)
    words = words_of(values)
    return words.map(_number, float), words.gaps()


def _number(word: str) -> float:
    try:
        return float(word) if "_" not in word else np.nan
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(word.lower(), np.nan)


def short(value: Any) -> str:
    """A value for a message: one line, never long."""
    shown = repr(str(value))
    return shown if len(shown) <= 60 else shown[:57] + "..."


def some(names: Iterable[Any]) -> str:
    """A few names for a message.

    >>> some(range(10))
    "'0', '1', '2', '3', '4', '5' and 4 more"
    """
    listed = list(names)
    shown = ", ".join(short(name) for name in listed[:6])
    return shown + (f" and {len(listed) - 6} more" if len(listed) > 6 else "")
