"""Tables as rows of bounded norm: categories one-hot, numbers in public bins or scaled to [-1, 1].

A number with declared bins (or any number, if `bins` is set) is one-hot over its bins. A column of categories that
allows missing or unseen values has one more entry, for both. A column of numbers that has missing values as a category
has one more entry for them. A number without bins becomes one entry in [-1, 1]. Every column adds at most 1 to the
squared norm, and all columns of one hashed text together add at most 1. A row is divided by the square root of the
number of columns and texts, so its norm never exceeds `norm`, for any values.

Privacy: no privacy cost (data-independent): a function of one row and the schema.
Use when: the data are a table.

>>> from privaware.schema import CodedColumn, Column, Schema
>>> facts = Schema(columns=(Column(name="age", low=0, high=90, bins=(30, 60)),), classes=("n", "y"))
>>> OneHot()(np.array([[45.0]]), facts)
array([[0., 1., 0.]], dtype=float32)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privaware.errors import WrongInput
from privaware.schema import CodedColumn, Column, Schema

__all__ = ["OneHot"]


@dataclass(frozen=True, kw_only=True)
class OneHot:
    """One-hot rows of a table, column after column in the order of `schema.used`.

    A category, or a number with bins, has one entry for each category or bin; a number without bins is one entry in
    [-1, 1]. There may be one more entry for missing values. All entries are multiplied by `norm` and divided by the
    square root of the number of columns, where the hash buckets of one text count as one column. Rows of another number
    of columns raise `WrongInput`.

    Parameters
    ----------
    bins : int
        Number of equal bins for numbers without declared bins; 0 or 1 keeps the number, scaled from its bounds to
        [-1, 1].
    norm : float
        Bound on the L2 norm of a row.
    """

    bins: int = 0
    norm: float = 1.0

    def __call__(self, x: np.ndarray, schema: Schema) -> np.ndarray:
        used = schema.used
        if x.ndim != 2 or x.shape[1] != len(used):
            raise WrongInput(f"expected rows of {len(used)} columns, got shape {x.shape}")
        blocks = [self._block(x[:, at], column) for at, column in enumerate(used)]
        rows = np.concatenate(blocks, axis=1) if blocks else np.zeros((len(x), 0), np.float32)
        for entries in self._texts(schema).values():
            text = rows[:, entries[0] : entries[-1] + 1]
            text /= np.maximum(np.sqrt(np.square(text, dtype=np.float64).sum(axis=1, keepdims=True)), 1.0)
        return rows * np.float32(self.norm / np.sqrt(max(self.squares(schema), 1)))

    def squares(self, schema: Schema) -> int:
        """Return an upper bound on the squared norm of a row before scaling: 1 for each column or hashed text.

        All columns of one hashed text count once, unless `bins` is set, which treats each hash bucket as a number.
        """
        return sum(not self._of_text(column) for column in schema.used) + len(self._texts(schema))

    def _texts(self, schema: Schema) -> dict[str, list[int]]:
        """Return, by the name of each hashed text, the positions of its entries in an output row, which are adjacent.

        The dict is empty if `bins` is set.
        """
        texts: dict[str, list[int]] = {}
        at = 0
        for column in schema.used:
            if self._of_text(column) and isinstance(column, CodedColumn):
                texts.setdefault(column.source, []).append(at)
            at += self._slots(column)
        return texts

    def _of_text(self, column: Column) -> bool:
        """Return whether `column` is one hash bucket of a text; False if `bins` is set, which treats it as a number."""
        return isinstance(column, CodedColumn) and column.of_text and not self.bins

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a row."""
        return sum(self._slots(column) for column in schema.used)

    def _slots(self, column: Column) -> int:
        if column.kind == "category":
            return len(column.categories) + (column.missing == "category" or column.unseen == "other")
        edges = self._edges(column)
        return (len(edges) + 1 if len(edges) else 1) + (column.missing == "category")

    def _edges(self, column: Column) -> np.ndarray:
        if column.bins or not self.bins:
            return np.asarray(column.bins, dtype=float)
        return np.linspace(column.low or 0.0, column.high or 0.0, self.bins + 1)[1:-1]

    def _block(self, values: np.ndarray, column: Column) -> np.ndarray:
        """Return the entries (rows, entries) of one column for its `values`, before scaling.

        A missing value sets the entry for missing values, if the column has one; otherwise all its entries are 0. A
        category code beyond the categories sets the last entry.
        """
        out = np.zeros((len(values), self._slots(column)), np.float32)
        missing = ~np.isfinite(values)
        edges = self._edges(column)
        if column.kind == "number" and not len(edges):
            low, high = column.low or 0.0, column.high or 0.0
            middle, half = (low + high) / 2, (high - low) / 2
            inside = np.clip(np.where(missing, middle, values), low, high)
            out[:, 0] = (inside - middle) / half
        else:
            known = np.where(missing, 0.0, values)
            slot = known if column.kind == "category" else np.searchsorted(edges, known, "right")
            slot = np.clip(slot, 0, out.shape[1] - 1).astype(np.int64)
            out[np.arange(len(values)), slot] = ~missing
        if column.missing == "category":
            out[missing, -1] = 1.0
        return out
