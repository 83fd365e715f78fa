"""Rows of a table with texts: features of the texts, followed by features of all other columns.

The texts of a row are joined by a blank and read by the feature that `text` describes, such as `sentences` or `hashed`.
The other columns become random Fourier features (`table_fourier`). The block of the texts is scaled to norm 1, and the
block of c other columns has norm at most `columns * sqrt(c)`: a text counts as much as one of them.

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

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from privaware import features
from privaware._validate import expect_between, expect_count
from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["Mixed"]


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """Features of the texts of a table beside features of its other columns.

    Parameters
    ----------
    text : mapping
        Description of the feature that reads the texts, as `privaware.features.build` takes it.
    columns : float
        Weight of one other column; the block of c other columns has norm at most `columns * sqrt(c)`.
    count : int
        Number of random Fourier features of the other columns.
    """

    text: Mapping[str, Any]
    columns: float = 1.0
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
            beside = features.build(fourier)(x[:, numbers].astype(float), others)
        norm = np.float32(self.columns * math.sqrt(len(others.declared)))
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


def _joined(texts: np.ndarray) -> np.ndarray:
    """Return the texts (rows, columns) of each row joined by a blank; a value that is no text counts as empty."""
    rows = np.empty(len(texts), dtype=object)
    rows[:] = [" ".join(text for text in row if isinstance(text, str)) for row in texts.tolist()]
    return rows
