"""A column of text as words, or as numbers with their spellings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privaware.schema import folded

PLAIN = -1
"""Style of numbers whose integers are written without a point."""

POINTED = -2
"""Style of numbers that are all written with a point, as `repr` does."""

MISSING = frozenset(("", "?", "-", "--", ".", "#n/a", "na", "n/a", "n.a.", "nan", "nat", "null", "none", "<na>"))
"""Spellings of missing values, in lower case."""
TRUE = frozenset(("true", "t", "yes", "y", "on"))
"""Spellings of true, in lower case; 1 is a number unless a schema says that the column is boolean."""
FALSE = frozenset(("false", "f", "no", "n", "off"))
"""Spellings of false, in lower case; 0 is a number unless a schema says that the column is boolean."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """A column as text: its `spellings`, and for each row the position of its spelling in `codes`.

    Position -1 is the last spelling. A spelling may be listed twice, or occur in no row.
    """

    spellings: tuple[str, ...]
    codes: np.ndarray

    def map(self, value: Callable[[str], Any], dtype: Any) -> np.ndarray:
        """Return `value(word)` for each row, as an array of `dtype`; it is computed once for each spelling."""
        values = np.empty(len(self.spellings), dtype=dtype)
        values[:] = [value(word) for word in self.spellings]
        return values[self.codes]

    def missing(self) -> np.ndarray:
        """Return a mask of the rows whose word stands for a missing value (`is_missing`)."""
        return self.map(is_missing, bool)

    def distinct(self) -> list[str]:
        """Return the spellings that occur, sorted."""
        return sorted({self.spellings[code] for code in np.unique(self.codes)})

    def folded(self) -> Words:
        """Return the same words in folded case, with single blanks between words and no white space around them."""
        return Words(spellings=tuple(folded(word) for word in self.spellings), codes=self.codes)

    def word(self, row: int) -> str:
        """Return the word of one row."""
        return self.spellings[self.codes[row]]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Words:
        """Return the words of some rows."""
        return Words(spellings=self.spellings, codes=self.codes[rows])


@dataclass(frozen=True, kw_only=True)
class Spelt:
    """A column of text, mostly numbers, stored as numbers and styles from which every text can be recovered.

    `decimals` is the style of each number: its number of decimals, or `PLAIN` (as `spelling_of_number`, integers
    without a point), or `POINTED` (as `repr`, such as 7.0). A text that no style spells is in `spellings`; `codes` has
    its position there, and -1 for all other rows. Where `codes` is not -1, `numbers` has the number that the text
    spells, or NaN. An empty cell is NaN. If all entries of `decimals` or of `codes` are known to be equal, the array
    has one element in memory (its stride is 0).

    >>> column = Spelt.of(np.array([12.5, np.nan, -0.0]), decimals=2)
    >>> column.words().map(str, object).tolist()
    ['12.50', '', '-0.00']
    """

    numbers: np.ndarray
    decimals: np.ndarray
    codes: np.ndarray
    spellings: tuple[str, ...] = ()

    @classmethod
    def of(cls, numbers: np.ndarray, decimals: int = PLAIN) -> Spelt:
        """Return numbers that are all spelled in one style, `decimals`: a number of decimals, `PLAIN` or `POINTED`."""
        return cls(numbers=numbers, decimals=_repeated(decimals, len(numbers)), codes=_repeated(-1, len(numbers)))

    @classmethod
    def joined(cls, blocks: Sequence[Spelt]) -> Spelt:
        """Return all rows of several blocks, in their order."""
        known: dict[str, int] = {}
        codes = []
        for block in blocks:
            places = [known.setdefault(word, len(known)) for word in block.spellings]
            codes.append(np.array([*places, -1], np.int32)[block.codes] if places else block.codes)
        return cls(
            numbers=np.concatenate([block.numbers for block in blocks]) if blocks else np.empty(0),
            decimals=_concatenated([block.decimals for block in blocks]),
            codes=_concatenated(codes),
            spellings=tuple(known),
        )

    @property
    def style(self) -> int | None:
        """The style of all rows if it is known without a look at the rows, otherwise None.

        It is known if all rows are numbers that are stored with one style. Without rows it is `PLAIN`.
        """
        if self.decimals.strides[0] or self.codes.strides[0]:
            return None
        return int(self.decimals[0]) if len(self) else PLAIN

    def missing(self) -> np.ndarray:
        """Return a mask of the rows whose text is empty or stands for a missing value (`is_missing`)."""
        missing = np.array([is_missing(word) for word in self.spellings] + [True], dtype=bool)
        return np.isnan(self.numbers) & missing[self.codes]

    def words(self) -> Words:
        """Return the column as text, one word for each row."""
        words, codes = list(self.spellings), self.codes.astype(np.int32)
        for style in np.unique(self.decimals).tolist():
            rows = np.flatnonzero((self.codes < 0) & (self.decimals == style))
            bits, which = np.unique(self.numbers[rows].view(np.int64), return_inverse=True)  # -0.0 is not 0.0
            codes[rows] = len(words) + which
            words += [_spelling_in(style, number) for number in bits.view(float).tolist()]
        known = {word: at for at, word in enumerate(dict.fromkeys(words))}
        if len(known) < len(words):
            codes = np.array([known[word] for word in words], np.int32)[codes]
        return Words(spellings=tuple(known), codes=codes)

    def respelt(self, spelling: Callable[[str], str]) -> Spelt:
        """Return the column with `spelling(text)` in place of each text in `spellings`; `numbers` is not recomputed."""
        return replace(self, spellings=tuple(spelling(word) for word in self.spellings))

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: Any) -> Spelt:
        """Return some of the rows."""
        return replace(self, numbers=self.numbers[rows], decimals=self.decimals[rows], codes=self.codes[rows])


def _spelling_in(style: int, number: float) -> str:
    if np.isnan(number):
        return ""
    if style == PLAIN:
        return spelling_of_number(number)
    return repr(number) if style == POINTED else f"{number:.{style}f}"


def _repeated(number: int, rows: int) -> np.ndarray:
    return np.broadcast_to(np.array(number, np.int8), (rows,))


def _concatenated(blocks: Sequence[np.ndarray]) -> np.ndarray:
    """Return the arrays `blocks` joined, in order; without entries an empty array.

    The result has one element in memory (stride 0) if each array has one and all entries are the same.
    """
    filled = [block for block in blocks if len(block)]
    first = {int(block[0]) for block in filled}
    if len(first) < 2 and not any(block.strides[0] for block in filled):
        return _repeated(first.pop() if first else -1, sum(map(len, filled)))
    return np.concatenate(filled)


def is_missing(word: str) -> bool:
    """Return whether a word stands for a missing value: an empty word, ?, -, NA, null and so on; case is ignored.

    >>> is_missing("N/A"), is_missing("no")
    (True, False)
    """
    return word.lower() in MISSING


def spelling_of_number(number: float) -> str:
    """Return a number as text: integers below `2**53` in absolute value without a point (-0.0 as 0), others by
    `str`."""
    number = float(number)
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else str(number)
