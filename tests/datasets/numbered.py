"""Data sets whose rows hold their own number."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from privaware.data import Data
from privaware.datasets import Source
from privaware.schema import Column, Schema


def numbered(rows: int, start: int = 0) -> Data:
    """Rows that hold their own number, so that a row in two parts is noticed."""
    schema = Schema(columns=(Column(name="n", low=0, high=1e9),), classes=("a", "b"), rows=rows)
    numbers = np.arange(start, start + rows, dtype=float)
    return Data(schema=schema, x=numbers[:, None], y=np.ones(rows, dtype=np.int64))


def row_numbers(*pieces: Data | None) -> list[set[float]]:
    return [set(piece.x[:, 0].tolist()) for piece in pieces if piece is not None]


def disjoint(numbers: list[set[float]]) -> bool:
    return len(set().union(*numbers)) == sum(len(part) for part in numbers)


def toy(rows: int, test_rows: int, public_rows: int) -> Source:
    def read(folder: Path | None, schema: Schema) -> tuple[Data, Data]:
        return numbered(rows), numbered(test_rows, start=rows)

    return Source(name="toy", facts=numbered(rows).schema, test_rows=test_rows, public_rows=public_rows, read=read)
