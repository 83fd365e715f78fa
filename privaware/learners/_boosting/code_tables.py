"""Tables that are read or summed by the codes of rows, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import numpy as np

__all__ = ["Lookup", "by_code", "chunks"]

CHUNK = 2**15
"""Rows in work at once, which stay in a processor's cache."""


def chunks(part: Sized) -> Iterator[slice]:
    """Slices of rows that are in work at once."""
    return (slice(at, at + CHUNK) for at in range(0, len(part), CHUNK))


class Lookup:
    """Adds table entries by code, with memory that is used again: fresh memory for each chunk would cost as much."""

    def __init__(self) -> None:
        self._index = np.empty(CHUNK, np.intp)
        self._entries: dict[np.dtype, np.ndarray] = {}

    def add(self, values: np.ndarray, tables: np.ndarray, codes: np.ndarray) -> None:
        """Adds to the values (outputs, rows) the entry of each row's code in the tables (outputs, codes)."""
        index = self._index[: len(codes)]
        index[...] = codes
        if tables.dtype not in self._entries:
            self._entries[tables.dtype] = np.empty(CHUNK, tables.dtype)
        entries = self._entries[tables.dtype][: len(codes)]
        for value, table in zip(values, tables, strict=True):
            value += table.take(index, out=entries, mode="clip")  # which is not buffered; codes are within a table


def by_code(codes: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """Sums of values (outputs, rows) by the code of each row."""
    return np.stack([np.bincount(codes, weights=row, minlength=size) for row in values]).astype(np.float64, copy=False)
