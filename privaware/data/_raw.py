"""Rows as they were read, before a schema gives their values meaning, and errors for damaged files.

Rows without a target cannot be learned from. They are left out one by one, whatever the other rows are.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privaware._validate import nearest
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
from privaware.schema import folded

if TYPE_CHECKING:
    import pandas as pd


def labelled(raw: Raw, target: str, classes: Collection[str] = ()) -> Raw:
    """Return the rows of a table whose target is not missing (as in `has_target`); each row is decided by itself.

    Parameters
    ----------
    raw : Raw
        The rows. `WrongInput` is raised if there are rows and none of them has a target.
    target : str
        The name of the target.
    classes : collection of str
        Declared classes, which are never missing, even if one is called "none".

    Returns
    -------
    Raw
        The remaining rows.
    """
    kept = labelled_part(raw, target, classes)
    if len(raw) and not len(kept):
        raise WrongInput(
            f"expected a target, but {quoted(target)} is empty, or a word for a missing value such as NA or none, "
            f"in all {len(raw)} rows; name another with --target, or declare classes of these names in a schema"
        )
    return kept


def labelled_part(raw: Raw, target: str, classes: Collection[str] = ()) -> Raw:
    """Return the rows of a part of a table whose target is not missing (as in `has_target`); there may be none.

    Parameters
    ----------
    raw : Raw
        The rows of the part. A table without the column `target`, and images, are returned as they are.
    target : str
        The name of the target.
    classes : collection of str
        Declared classes, which are never missing, even if one is called "none".

    Returns
    -------
    Raw
        The remaining rows.
    """
    there = has_target(raw, target, classes)
    return raw if there.all() else raw.take(np.flatnonzero(there))


def has_target(raw: Raw, target: str, classes: Collection[str] = ()) -> np.ndarray:
    """Return a boolean mask of the rows whose target is not missing.

    A target is missing if it is empty, NaN, or a word such as NA (`is_missing`). A target in `classes`, the declared
    classes, is not missing, even if it is called "none". The mask is all True for images, and for a table without the
    column `target`.
    """
    if raw.frame is None or target not in raw.frame.columns:
        return np.ones(len(raw), bool)
    _, missing = numbers_of(raw.frame[target])
    if missing.any() and any(map(is_missing, classes)):
        missing &= ~words_of(raw.frame[target]).map(frozenset(classes).__contains__, bool)
    return ~missing


def left_out(rows: int, target: str) -> list[str]:
    """Return a sentence for the owner about rows without a target, or no sentence if there are none.

    Parameters
    ----------
    rows : int
        The number of rows that are left out.
    target : str
        The name of the target.

    Returns
    -------
    list of str
        At most one sentence.
    """
    if not rows:
        return []
    verb, be = ("row has", "is") if rows == 1 else ("rows have", "are")
    return [
        f"{rows} {verb} no {quoted(target)} and {be} left out: fill such rows in to use them "
        "(the guarantee covers them all the same); words such as NA and none count as missing, unless a schema "
        "declares a class of that name"
    ]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Raw:
    """The rows of a file as they are: a table, or images with labels. `repr` shows no row.

    Attributes
    ----------
    frame : pandas.DataFrame, optional
        A table.
    cells : mapping, optional
        The columns of a table by name, after they were read by a schema without bounds (`Data.uncoded`); they replace
        `frame`.
    rows : int
        The number of rows of `cells`.
    images, labels : numpy.ndarray, optional
        Images (rows, channels, height, width) and their labels (rows,); of a table with a column `image`, the images
        that this column names.
    image : str
        The name of the column of a table that names the files of `images`; empty if no image was read for the table.
    folder : Path, optional
        The folder to which names of image files are relative; None for the working directory.
    test : Raw, optional
        Test rows of the same file.
    name : str
        The name of the file.
    line : callable, optional
        Returns the line of a text file, from 1, on which a row, from 0, begins.
    separator : str
        The separator of a text file.
    fields : int
        The number of fields of a record of a text file, also if `frame` holds only some of them; 0 if not known.
    uneven : str
        A sentence about rows that differ in facts that a schema would take as public (names of columns, channels of
        images); empty if there are none.
    declared : bool
        False if the names of columns come from the first line of a text file, which may be a row.
    typed : bool
        Whether the file or frame declares the types of columns, so that types depend on no row.
    files : tuple of str
        The names of the files of a folder of images or texts, relative to the folder, one for each row.
    skipped : int
        The number of other files, and of folders in sub-folders, in a folder with one sub-folder for each class.
    first : int
        The number of rows of the file before these.
    places : numpy.ndarray, optional
        If rows were left out, the positions in the file, from 0, of the remaining rows.
    begin : int
        A number that identifies this part of a table in parts; it is larger for a later part.
    """

    frame: pd.DataFrame | None = None
    cells: Mapping[str, np.ndarray | Words | Spelt] | None = None
    rows: int = 0
    images: np.ndarray | None = None
    labels: np.ndarray | None = None
    image: str = ""
    folder: Path | None = None
    test: Raw | None = None
    name: str = ""
    line: Callable[[int], int] | None = None
    separator: str = ""
    fields: int = 0
    uneven: str = ""
    declared: bool = True
    typed: bool = True
    files: tuple[str, ...] = ()
    skipped: int = 0
    first: int = 0
    places: np.ndarray | None = None
    begin: int = 0

    def __len__(self) -> int:
        rows = self.frame if self.frame is not None else self.images
        return self.rows if rows is None else len(rows)

    @cached_property
    def columns(self) -> list[str] | None:
        """The names of the columns of a table; None for images."""
        if self.cells is not None:
            return list(self.cells)
        return None if self.frame is None else [str(name) for name in self.frame.columns]

    @property
    def kind(self) -> str:
        """What the rows are, for a message: "a table", "images", "a folder of images" or "a folder of texts"."""
        if self.columns is None:
            return "a folder of images" if self.files else "images"
        return "a folder of texts" if self.files and not self.image else "a table"

    def values(self, name: str) -> pd.Series | np.ndarray | Words | Spelt:
        """Return the column `name` of a table as it is stored.

        Numbers that keep their text are returned as `Spelt`. So is a column of float64 of a file that declares no types
        (`typed` is False): each number is spelled without a point if it is an integer. Raise `KeyError` for an unknown
        name.
        """
        if self.cells is not None:
            return self.cells[name]
        assert self.frame is not None
        values = self.frame[name]
        if self.typed or values.dtype.kind != "f":
            return values if (spelt := spelt_of(values)) is None else spelt
        return Spelt.of(numbers_of(values)[0])

    def take(self, rows: np.ndarray) -> Raw:
        """Return some rows of a table that has a `frame`, by their positions (integers) in it.

        `place` still finds where in the file they are.
        """
        assert self.frame is not None
        places = self.first + rows if self.places is None else self.places[self.first + rows]
        images = None if self.images is None else self.images[rows]
        files = tuple(self.files[row] for row in rows) if self.files else ()
        frame = self.frame.iloc[rows].reset_index(drop=True)
        return replace(self, frame=frame, images=images, files=files, first=0, places=places)

    def place(self, row: int) -> str:
        """Return where a person finds row number `row` (from 0): "line N" of a text file, else "row N", N from 1."""
        at = self.first + row
        at = at if self.places is None else int(self.places[at])
        return f"row {at + 1}" if self.line is None else f"line {self.line(at)}"

    def columns_shown(self, *without: str) -> str:
        """Return the names of the columns, except those in `without`, for a message.

        If the names may be values of rows (`declared` is False, or `uneven` is not empty), return only their number,
        unless values are shown (`show_values`).
        """
        names = [name for name in self.columns or () if name not in without]
        if self.uneven and not values_shown():
            return f"of its rows ({len(names)} in all; not every row has the same)"
        if self.declared or values_shown():
            return listed(names)
        return (
            f"of the first line, {len(names)} in all (to see their names pass "
            "--header=True, or --header=False if it is a row)"
        )

    def advice(self, name: str, without: str = "") -> str:
        """Return a question, the end of a message, that names the column nearest to `name`, which is no column.

        The column `without` is not advised. The text is empty without a near column. If the names may be values of
        rows, only a column that differs in case and blanks alone is named.
        """
        names = [column for column in self.columns or () if column != without]
        alike = next((column for column in names if folded(column) == folded(name)), None)
        near = nearest(name, names) if self.declared and not self.uneven else alike
        return f"; did you mean {quoted(near)}?" if near else ""

    def expect_even(self) -> None:
        """Raise `WrongInput` if rows differ in facts that would be public: one row must not change them for all."""
        if self.uneven:
            raise WrongInput(f"{self.uneven}, or declare them in a schema (`privaware schema` drafts one)")

    @contextmanager
    def named(self) -> Iterator[None]:
        """Put the name of the file, if known, before the message of a `WrongInput` raised inside the block."""
        try:
            yield
        except WrongInput as problem:
            raise WrongInput(f"{quoted(self.name)}: {problem}" if self.name else str(problem)) from None

    def __repr__(self) -> str:
        return f"Raw({'table' if self.frame is not None else 'images'}, rows private)"


def check_names(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return a frame like `frame` with its column names as text.

    Raise `WrongInput` if a name is empty or repeated, or if the columns have several levels of names; `where` names the
    file in the message.
    """
    if frame.columns.nlevels > 1:
        raise WrongInput(f"expected one level of column names in {where}, got several")
    names = [str(name) for name in frame.columns]
    if "" in names:
        raise WrongInput(
            f"expected a name for every column in {quoted(where)}, got none for column "
            f"{names.index('') + 1} of {len(names)}"
        )
    if repeated := next((name for name, times in Counter(names).items() if times > 1), ""):
        first, second = [at + 1 for at, name in enumerate(names) if name == repeated][:2]
        raise WrongInput(
            f"expected distinct column names in {quoted(where)}, got the same for columns {first} and {second}"
            f"{got(repeated)}; rename one of them"
        )
    return frame.set_axis(names, axis=1)


@contextmanager
def parsing(path: Path, expected: str, named: Callable[[], str] | None = None) -> Iterator[None]:
    """Turn any exception in the block, where a file is parsed, into one `WrongInput`; warnings are silenced.

    An `OSError` of the disk (with an error number) and a `WrongInput` stay as they are. The message has the name of
    `path` and the `expected` format; `named()`, if given, replaces the name of a file that is private.
    """
    shown = named or (lambda: quoted(path.name))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except WrongInput:
        raise
    except MemoryError:
        raise WrongInput(f"{shown()} does not fit into this machine's memory") from None
    except Exception as problem:
        if isinstance(problem, OSError) and problem.errno is not None:  # an error of the disk, not of a parser
            raise
        reason = " ".join(str(problem).encode("utf-8", "replace").decode().split())
        pickled = "it holds pickled objects, which could run code when opened"
        cause = pickled if "pickle" in reason else "it is truncated, damaged or of another format"
        raise WrongInput(f"expected {shown()} as {expected}: {cause}{got(reason)}") from None
