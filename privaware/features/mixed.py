"""Rows of a table with texts: features of the texts, followed by features of all other columns.

The texts of a row are joined by a blank and read by the feature that `text` describes, such as `sentences` or `hashed`.
The other columns become random Fourier features (`table_fourier`). The block of the texts is scaled to norm 1, and the
block of c other columns has norm at most `columns * c ** GROWTH`: one column takes little from the texts, and a text
takes little from many columns. From the latter block, the mean of the random Fourier features over public typical rows
is then subtracted, because a large common part would act as a bias: in a typical row the rank of a number among its
bins, and the level of a category, are uniform.

Privacy: no privacy cost (data-independent): a function of one row and the schema.
Use when: a table has columns of free text beside numbers and categories. `auto` takes it there.

>>> from privaware.schema import Column, Schema
>>> columns = (Column(name="note", kind="text", slots=0), Column(name="age", low=0, high=90))
>>> facts = Schema(columns=columns, classes=("n", "y"))
>>> feature = Mixed(text={"name": "hashed", "slots": 8}, count=4)
>>> feature(np.array([["free entry", 45.0]], dtype=object), facts).shape
(1, 12)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from privaware import features
from privaware._validate import expect_between, expect_count
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

__all__ = ["Mixed"]

GROWTH = 2 / 3
"""Exponent with which the norm of the block of other columns grows with their number; see docs/results/mixed.md."""

TYPICAL_ROWS = 1024
"""Number of typical rows over which random Fourier features are averaged."""


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """Features of the texts of a table beside features of its other columns.

    Parameters
    ----------
    text : mapping
        Description of the feature that reads the texts, as `privaware.features.build` takes it.
    columns : float
        Weight of the other columns; the block of c other columns has norm at most `columns * c ** GROWTH` before the
        mean over typical rows is subtracted.
    count : int
        Number of random Fourier features of the other columns.
    """

    text: Mapping[str, Any]
    columns: float = 0.5
    count: int = 1024

    def __post_init__(self) -> None:
        expect_between("mixed", 1e-3, 1e3, columns=self.columns)
        expect_count("mixed", count=self.count)
        features.build(dict(self.text))

    def __call__(self, x: np.ndarray, schema: Schema) -> np.ndarray:
        texts, numbers, others = _places(schema)
        if x.ndim != 2 or x.shape[1] != len(schema.used) or not texts:
            raise WrongInput(f"mixed: expected rows of {len(schema.used)} columns, one of them text, got {x.shape}")
        unit, fourier = features.build({"name": "bounded"}), {"name": "table_fourier", "count": self.count}
        read = unit(features.build(dict(self.text))(_joined(x[:, texts]), schema))
        beside = np.zeros((len(x), self.count), np.float32)
        if numbers:
            beside = features.build(fourier)(x[:, numbers].astype(float), others) - _typical_mean(self.count, others)
        norm = np.float32(self.columns * len(others.declared) ** GROWTH)
        return np.concatenate([read, norm * beside], axis=1, dtype=np.float32)

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a row."""
        return int(features.build(dict(self.text)).width(schema)) + self.count


@lru_cache(maxsize=8)
def _places(schema: Schema) -> tuple[list[int], list[int], Schema]:
    """Return the positions of texts and of other coded columns in a row, and the schema of the other columns."""
    texts = [at for at, column in enumerate(schema.used) if column.is_whole_text]
    numbers = [at for at, column in enumerate(schema.used) if not column.is_whole_text]
    return texts, numbers, replace(schema, columns=tuple(each for each in schema.columns if not each.is_whole_text))


@lru_cache(maxsize=8)
def _typical_mean(count: int, schema: Schema) -> np.ndarray:
    """Return the mean of random Fourier features over `TYPICAL_ROWS` rows that are drawn from the schema alone."""
    uniform = np.random.Generator(np.random.PCG64(0)).random((TYPICAL_ROWS, len(schema.used)))
    rows = np.stack([_typical(uniform[:, at], column) for at, column in enumerate(schema.used)], axis=1)
    mean = features.build({"name": "table_fourier", "count": count})(rows, schema).mean(axis=0, dtype=np.float64)
    return np.asarray(mean, np.float32)


def _typical(uniform: np.ndarray, column: Column) -> np.ndarray:
    """Return values of a column for ranks from 0 to 1: numbers interpolated between the bins, or levels."""
    if column.kind == "category":
        return np.floor(uniform * len(column.categories))
    edges = (column.low or 0.0, *column.bins, column.high or 0.0)
    return np.interp(uniform, np.linspace(0, 1, len(edges)), edges)


def _joined(texts: np.ndarray) -> np.ndarray:
    """Return the texts (rows, columns) of each row joined by a blank; a value that is no text counts as empty."""
    rows = np.empty(len(texts), dtype=object)
    rows[:] = [" ".join(text for text in row if isinstance(text, str)) for row in texts.tolist()]
    return rows
