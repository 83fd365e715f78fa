"""Tables that are read or summed by the codes of rows, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import numpy as np

__all__ = ["Lookup", "by_code", "chunks"]

CHUNK = 2**15
"""Number of rows that are processed at a time, so that they stay in a processor's cache."""


def chunks(part: Sized) -> Iterator[slice]:
    """Return an iterator of slices of at most `CHUNK` rows that cover `part` in order."""
    return (slice(at, at + CHUNK) for at in range(0, len(part), CHUNK))


class Lookup:
    """Adds table entries by code. Its buffers are reused: new memory for each chunk would take as long as the work."""

    def __init__(self) -> None:
        self._index = np.empty(CHUNK, np.intp)
        self._entries: dict[np.dtype, np.ndarray] = {}

    def add(self, values: np.ndarray, tables: np.ndarray, codes: np.ndarray) -> None:
        """Add `tables[output, codes[row]]` to `values[output, row]`, in place, for at most `CHUNK` rows."""
        index = self._index[: len(codes)]
        index[...] = codes
        if tables.dtype not in self._entries:
            self._entries[tables.dtype] = np.empty(CHUNK, tables.dtype)
        entries = self._entries[tables.dtype][: len(codes)]
        for value, table in zip(values, tables, strict=True):
            value += table.take(index, out=entries, mode="clip")  # which is not buffered; codes are within a table


def by_code(codes: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """Return the sums (outputs, size) of `values` (outputs, rows) over the rows of each code.

    All `codes` (rows,) must be below `size`.
    """
    return np.stack([np.bincount(codes, weights=row, minlength=size) for row in values]).astype(np.float64, copy=False)
