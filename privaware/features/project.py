"""Projection onto released directions, such as private principal components.

Each row is flattened, clipped to L2 norm `norm` as it was when the directions were computed, and multiplied by
`matrix`, which has one row for each entry and one column for each direction. Orthonormal directions never increase the
norm of a row. Entries of rows are rounded to 20 bits and directions to 22 bits, so double precision holds every sum of
products exactly. A projected row therefore depends on no other row, whatever the shape of the product.

Privacy: no further cost (post-processing): the directions were charged when they were released.
Use when: the transformation `pca` released them.

>>> Project(matrix=((1.0,), (0.0,)))(np.array([[0.3, 0.4]])).round(5)
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
    """Flatten rows, clip them to the L2 norm `norm`, and multiply them by `matrix`, as float32.

    Entries that are not finite become 0. Rows of another number of entries than `matrix` has rows raise `WrongInput`.

    Parameters
    ----------
    matrix : tuple of tuple of float
        The directions (entries of a row, directions).
    norm : float
        L2 norm to which rows are clipped.
    """

    matrix: tuple[tuple[float, ...], ...]
    norm: float = 1.0

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        flat = x.reshape(len(x), math.prod(x.shape[1:])).astype(np.float32)
        rows = np.nan_to_num(flat, posinf=0.0, neginf=0.0)
        if rows.shape[1] != len(self.matrix):
            raise WrongInput(f"expected rows of {len(self.matrix)} entries to project, got {rows.shape[1]}")
        length = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        clipped = rows * np.minimum(1, self.norm / np.maximum(length, np.float32(1e-12)))
        return np.asarray(_rounded(clipped, self.norm, 20) @ self._directions, dtype=np.float32)

    @property
    def _directions(self) -> np.ndarray:
        matrix = np.asarray(self.matrix, dtype=np.float64).reshape(len(self.matrix), -1)
        longest = math.sqrt(float((matrix**2).sum(axis=0).max(initial=0.0)))
        return _rounded(matrix, longest or 1.0, 22)

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a row."""
        return len(self.matrix[0]) if self.matrix else 0


def _rounded(values: np.ndarray, length: float, bits: int) -> np.ndarray:
    """Return `values` in float64, rounded to the nearest multiples of 2**(ceil(log2(length)) - bits)."""
    step = 2.0 ** (math.ceil(math.log2(length)) - bits)
    return np.asarray(np.round(values.astype(np.float64) / step) * step)
