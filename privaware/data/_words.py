"""A column of text as words, or as numbers with how each of them is spelt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privaware.schema import folded

__all__ = ["FALSE", "PLAIN", "POINTED", "TRUE", "Spelt", "Words", "is_missing", "spelling_of_number"]

PLAIN = -1
"""Style of numbers whose whole values are written without a point."""

POINTED = -2
"""Style of numbers that are all written with a point, as `repr` does."""

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


@dataclass(frozen=True, kw_only=True)
class Spelt:
    """A column of text, nearly all of it numbers: it is read back as it was, and numbers need not be parsed again.

    `decimals` says how a number is spelt: with so many decimals, `PLAIN` or `POINTED`. What no style spells is one of
    `spellings`, by its code, which is -1 elsewhere; there the number is what that word spells, or NaN. An empty cell is
    NaN. Where all rows have the same decimals or no code, their array has one element in memory.

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
        """Numbers that are all spelt in one style."""
        return cls(numbers=numbers, decimals=_repeated(decimals, len(numbers)), codes=_repeated(-1, len(numbers)))

    @classmethod
    def joined(cls, blocks: Sequence[Spelt]) -> Spelt:
        """All rows of several."""
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
        """The style of all rows, if they are all numbers of one."""
        if self.decimals.strides[0] or self.codes.strides[0]:
            return None
        return int(self.decimals[0]) if len(self) else PLAIN

    def missing(self) -> np.ndarray:
        """A mask of the rows without a value."""
        missing = np.array([is_missing(word) for word in self.spellings] + [True], dtype=bool)
        return np.isnan(self.numbers) & missing[self.codes]

    def words(self) -> Words:
        """The column as text."""
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
        """The same column with other spellings of what no style spells."""
        return replace(self, spellings=tuple(spelling(word) for word in self.spellings))

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: Any) -> Spelt:
        """Some of the rows."""
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
    """Arrays as one, which has one element in memory if all of theirs are the same."""
    filled = [block for block in blocks if len(block)]
    first = {int(block[0]) for block in filled}
    if len(first) < 2 and not any(block.strides[0] for block in filled):
        return _repeated(first.pop() if first else -1, sum(map(len, filled)))
    return np.concatenate(filled)


def is_missing(word: str) -> bool:
    """Whether a word stands for a missing value.

    >>> is_missing("N/A"), is_missing("no")
    (True, False)
    """
    return word.lower() in MISSING


def spelling_of_number(number: float) -> str:
    """A number as text: whole ones without a point."""
    number = float(number)
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else str(number)
