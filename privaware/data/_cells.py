"""Rows of a table before their bounds are known: one array for each column; each distinct word is stored once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware.data._values import Spelt, Words


@dataclass(frozen=True, repr=False, eq=False)
class Cells:
    """Columns of numbers or of words, one entry for each row, indexed like an array (rows, columns).

    A missing number is NaN, a missing word is empty. Words are stored as distinct spellings and codes (`Words`). A
    column of images holds the pixels of each image as bytes. An undecided column of a text file may hold numbers with
    their spellings (`Spelt`). `rows` is the number of rows.
    """

    columns: tuple[np.ndarray | Words | Spelt, ...]
    rows: int

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        return f"Cells({len(self.columns)} columns, rows private)"

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, len(self.columns)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(object)

    def __getitem__(self, index: Any) -> Any:
        """Return some rows as `Cells`, by mask, positions or slice; one integer gives one row as an object array.

        `cells[rows, n]` is column number n (from 0) of the chosen rows as an object array, with words as str.
        `cells[rows, list]` are the chosen rows as `Cells`, with the columns at the positions in the list.
        """
        if isinstance(index, tuple):
            rows, at = index
            if isinstance(at, int):
                column = self[rows].columns[at]
                column = column.words() if isinstance(column, Spelt) else column
                return column.map(str, object) if isinstance(column, Words) else column.astype(object)
            return Cells(tuple(self.columns[each] for each in at), self.rows)[rows]
        if isinstance(index, slice):  # without a copy
            return Cells(tuple(column[index] for column in self.columns), len(range(self.rows)[index]))
        chosen = np.arange(self.rows)[index]
        if np.ndim(chosen) == 0:
            return np.array([self[:, at][chosen] for at in range(len(self.columns))], dtype=object)
        return Cells(tuple(column[chosen] for column in self.columns), len(chosen))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        table = np.empty(self.shape, dtype=object)
        for at in range(len(self.columns)):
            table[:, at] = self[:, at]
        return table if dtype is None else table.astype(dtype)


def uncoded_column(x: Cells | np.ndarray, at: int) -> np.ndarray | Words | Spelt:
    """Return one column of rows before bounds are known (`Data.uncoded`).

    Parameters
    ----------
    x : Cells or numpy.ndarray
        The rows; an array is two-dimensional.
    at : int
        The position of the column.

    Returns
    -------
    numpy.ndarray, Words or Spelt
        Numbers, words, numbers with their spellings, or images as bytes.
    """
    if isinstance(x, Cells):
        return x.columns[at]
    values = x[:, at]
    if len(values) and all(isinstance(value, bytes) for value in values.tolist()):
        return np.asarray(values)  # images
    if values.dtype != object or all(isinstance(value, float) for value in values.tolist()):
        return np.asarray(values.astype(float))
    spellings, codes = np.unique([str(value) for value in values.tolist()], return_inverse=True)
    return Words(spellings=tuple(spellings.tolist()), codes=codes)
