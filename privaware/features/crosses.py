"""One-hot categories and one-hot pairs of categories: a linear model on them learns what two columns do together.

Each column has an entry for each of its levels. Each pair of columns has an entry for each combination of their levels.
Of the squared L2 norm of a row, which is 1 up to rounding, the columns share 0.6 (`COLUMN_SHARE`) equally, and the
pairs share 0.4 equally; a single column has no pairs and all of the norm. A missing category counts as the last level
if the column has a level for missing values, else as the first level.

Privacy: no privacy cost (data-independent): a function of one row and the schema.
Use when: a linear model follows, all columns are categories, there are few of them (the pairs share their part of the
norm), and rows x epsilon is at least twice the number of combinations (`combinations_of`).

>>> from privaware.schema import Column, Schema
>>> letters = tuple(Column(name=name, kind="category", categories=("x", "y")) for name in "ab")
>>> facts = Schema(columns=letters, classes=("n", "y"))
>>> np.rint(100 * Crosses()(np.array([[0.0, 1.0]]), facts) ** 2).astype(int).tolist()
[[30, 0, 0, 30, 0, 40, 0, 0]]
>>> combinations_of(facts)
4
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from privaware.errors import WrongInput
from privaware.schema import Column, Schema

__all__ = ["Crosses", "combinations_of"]

COLUMN_SHARE = 0.6
"""Fraction of the squared norm of a row that the entries of single columns have, if there are pairs."""


@dataclass(frozen=True, kw_only=True)
class Crosses:
    """One-hot rows of categories and of all pairs of categories, of L2 norm 1.

    First come the entries of each column, in the order of the schema, then the entries of each pair of columns: one for
    each combination of their categories. The columns share 0.6 (`COLUMN_SHARE`) of the squared norm equally, and the
    pairs share 0.4; a single column has all of it. Raise `WrongInput` unless all columns are categories with declared
    levels.
    """

    def __call__(self, x: np.ndarray, schema: Schema) -> np.ndarray:
        sizes = _sizes(schema)
        if x.ndim != 2 or x.shape[1] != len(sizes):
            raise WrongInput(f"crosses: expected rows of {len(sizes)} columns, got shape {x.shape}")
        pairs = list(combinations(range(len(sizes)), 2))
        rows, at = np.zeros((len(x), self.width(schema)), np.float32), np.arange(len(x))
        codes = [
            _codes(x[:, number], size, column)
            for number, (size, column) in enumerate(zip(sizes, schema.used, strict=True))
        ]
        start = 0
        for code, size in zip(codes, sizes, strict=True):
            rows[at, start + code] = math.sqrt((COLUMN_SHARE if pairs else 1.0) / len(sizes))
            start += size
        for left, right in pairs:
            rows[at, start + codes[left] * sizes[right] + codes[right]] = math.sqrt((1 - COLUMN_SHARE) / len(pairs))
            start += sizes[left] * sizes[right]
        return rows

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a row."""
        return sum(_sizes(schema)) + combinations_of(schema)


def combinations_of(schema: Schema) -> int:
    """Return the number of pairs of a category of one used column with a category of another used column.

    One more category, for missing or unseen values, counts where a column has it. Raise `WrongInput` unless `schema` is
    a table whose columns are all categories with declared levels.
    """
    sizes = _sizes(schema)
    return (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2


def _sizes(schema: Schema) -> list[int]:
    """Return the number of levels of each used column, with one level for missing and unseen values where there is one.

    Raise `WrongInput` unless all columns are categories with declared levels.
    """
    used = schema.used
    if schema.form != "table" or not used or any(column.kind != "category" or not column.categories for column in used):
        raise WrongInput(
            "crosses: expected a table whose columns are categories with declared levels, got other columns"
        )
    return [len(column.categories) + (column.missing == "category" or column.unseen == "other") for column in used]


def _codes(values: np.ndarray, size: int, column: Column) -> np.ndarray:
    """Return the number of the category, from 0 to `size - 1`, of each of `values` of one column, as integers.

    A missing value has the last number if the column has missing values as a category, else 0. Other values are
    clipped.
    """
    missing = size - 1 if column.missing == "category" else 0
    return np.clip(np.where(np.isfinite(values), values, missing), 0, size - 1).astype(np.int64)
