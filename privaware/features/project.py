"""Projection onto released directions, such as private principal components.

Each row is flattened, clipped to L2 norm `norm` as it was when the directions were computed, and
multiplied by `matrix` (one row an entry, one column a direction). Orthonormal directions never increase
the norm of a row.

Privacy: no further cost (post-processing): the directions were charged when they were released.
Use when: the selector `pca` released them.

>>> Project(matrix=((1.0,), (0.0,)))(np.array([[0.3, 0.4]]))
array([[0.3]], dtype=float32)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["Project"]


@dataclass(frozen=True, kw_only=True)
class Project:
    """`matrix` is (entries of a row, directions)."""

    matrix: tuple[tuple[float, ...], ...]
    norm: float = 1.0

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        flat = x.reshape(len(x), math.prod(x.shape[1:])).astype(np.float32)
        rows = np.nan_to_num(flat, posinf=0.0, neginf=0.0)
        if rows.shape[1] != len(self.matrix):
            raise WrongInput(f"expected rows of {len(self.matrix)} entries to project, got {rows.shape[1]}")
        length = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        clipped = rows * np.minimum(1, self.norm / np.maximum(length, np.float32(1e-12)))
        return np.asarray(clipped @ np.asarray(self.matrix, dtype=np.float32))

    def width(self, schema: Schema) -> int:
        """The number of entries of a row."""
        return len(self.matrix[0]) if self.matrix else 0
