"""Rows as they came, before a schema gives their values meaning, and how a damaged file is refused.

Rows that have a target: others can teach nothing, and are left out one by one, whatever the rest is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privaware.data._values import (
    Spelt,
    Words,
    got,
    is_missing,
    listed,
    numbers_of,
    quoted,
    spelt_of,
    values_shown,
    words_of,
)
from privaware.errors import WrongInput

__all__ = ["has_target", "labelled", "labelled_part", "left_out"]


def labelled(raw: Raw, target: str, classes: Collection[str] = ()) -> Raw:
    """The rows of a table whose target is not missing. Whether a row stays depends on that row alone.

    One of the declared `classes` is never missing, though it be called "none".
    """
    kept = labelled_part(raw, target, classes)
    if len(raw) and not len(kept):
        raise WrongInput(
            f"expected a target, but {quoted(target)} is empty in all {len(raw)} rows; name another with --target"
        )
    return kept


def labelled_part(raw: Raw, target: str, classes: Collection[str] = ()) -> Raw:
    """The same of some rows of a table, of which none may have a target."""
    there = has_target(raw, target, classes)
    return raw if there.all() else raw.take(np.flatnonzero(there))


def has_target(raw: Raw, target: str, classes: Collection[str] = ()) -> np.ndarray:
    """A mask of the rows whose target is not missing; images, and a table without such a column, have all."""
    if raw.frame is None or target not in raw.frame.columns:
        return np.ones(len(raw), bool)
    _, missing = numbers_of(raw.frame[target])
    if missing.any() and any(map(is_missing, classes)):
        missing &= ~words_of(raw.frame[target]).map(frozenset(classes).__contains__, bool)
    return ~missing


def left_out(rows: int, target: str) -> list[str]:
    """What the owner should know of so many rows that are left out."""
    if not rows:
        return []
    verb, be = ("row has", "is") if rows == 1 else ("rows have", "are")
    return [
        f"{rows} {verb} no {quoted(target)} and {be} left out: fill such rows in to use them "
        "(the guarantee covers them all the same)"
    ]


if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Raw", "parsing"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Raw:
    """A file as it is: a table, or images with labels. `repr` shows no row.

    `name` is that of the file; `line` tells on which line of a text file a row begins, and `separator` stands between
    its values. Names of columns are `declared` unless they stand in the first line of a text file, which may be a row.
    Where rows differ in what a schema would take as public (names of columns, channels of images), `uneven` says so.
    Columns are `typed` where the file or frame declares their types, so that types follow from no row. A table that was
    read before has `cells` in the place of a frame. `first` is how many rows of the file come before these;
    where others were left out, `places` say where in the file those that are left stand. Of a table in parts `begin`
    tells one part from another, and is larger for a later one.
    """

    frame: pd.DataFrame | None = None
    cells: Mapping[str, np.ndarray | Words | Spelt] | None = None
    rows: int = 0
    images: np.ndarray | None = None
    labels: np.ndarray | None = None
    test: Raw | None = None
    name: str = ""
    line: Callable[[int], int] | None = None
    separator: str = ""
    uneven: str = ""
    declared: bool = True
    typed: bool = True
    first: int = 0
    places: np.ndarray | None = None
    begin: int = 0

    def __len__(self) -> int:
        rows = self.frame if self.frame is not None else self.images
        return self.rows if rows is None else len(rows)

    @property
    def columns(self) -> list[str] | None:
        """The names of the columns of a table."""
        if self.cells is not None:
            return list(self.cells)
        return None if self.frame is None else [str(name) for name in self.frame.columns]

    def values(self, name: str) -> pd.Series | np.ndarray | Words | Spelt:
        """One column of a table; where types are not declared, numbers are words like any other."""
        if self.cells is not None:
            return self.cells[name]
        assert self.frame is not None
        values = self.frame[name]
        if self.typed or values.dtype.kind != "f":
            return values if (spelt := spelt_of(values)) is None else spelt
        return Spelt.of(numbers_of(values)[0])

    def take(self, rows: np.ndarray) -> Raw:
        """Some rows of a table, by position."""
        assert self.frame is not None
        places = self.first + rows if self.places is None else self.places[self.first + rows]
        return replace(self, frame=self.frame.iloc[rows].reset_index(drop=True), first=0, places=places)

    def place(self, row: int) -> str:
        """Where a person finds a row, counted from 0: its line in a text file, else its number."""
        at = self.first + row
        at = at if self.places is None else int(self.places[at])
        return f"row {at + 1}" if self.line is None else f"line {self.line(at)}"

    def columns_shown(self, *without: str) -> str:
        """The names of the columns in a message; where they may be a row, only their number."""
        names = [name for name in self.columns or () if name not in without]
        if self.uneven and not values_shown():
            return f"of its rows ({len(names)} in all; not every row has the same)"
        if self.declared or values_shown():
            return listed(names)
        return f"of the first line ({len(names)}; --header shows them, --no-header if it is a row)"

    def expect_even(self) -> None:
        """Refuses rows that differ in what would be public: one row must not change it for all."""
        if self.uneven:
            raise WrongInput(f"{self.uneven}, or declare them in a schema (`privaware schema` drafts one)")

    @contextmanager
    def named(self) -> Iterator[None]:
        """Puts the name of the file before what is wrong with its rows."""
        try:
            yield
        except WrongInput as problem:
            raise WrongInput(f"{quoted(self.name)}: {problem}" if self.name else str(problem)) from None

    def __repr__(self) -> str:
        return f"Raw({'table' if self.frame is not None else 'images'}, rows private)"


@contextmanager
def parsing(path: Path, expected: str) -> Iterator[None]:
    """Turns whatever a parser raises on a damaged file into one sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except WrongInput:
        raise
    except MemoryError:
        raise WrongInput(f"{quoted(path.name)} does not fit into this machine's memory") from None
    except Exception as problem:
        if isinstance(problem, OSError) and problem.errno is not None:  # of the disk, not of a parser
            raise
        reason = " ".join(str(problem).encode("utf-8", "replace").decode().split())
        cause = "it is cut, damaged or something else"
        if "pickle" in reason:
            cause = "it holds pickled objects, which could run code when opened"
        raise WrongInput(f"expected {quoted(path.name)} as {expected}: {cause}{got(reason)}") from None
