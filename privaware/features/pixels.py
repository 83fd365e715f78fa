"""Images with values in [0, 1], flattened to rows that are scaled to the L2 norm `norm`.

Privacy: no privacy cost (data-independent): each row is transformed by itself.
Use when: a linear model on small images is a baseline.

>>> Pixels()(np.ones((2, 1, 2, 2), np.float32)).round(2)
array([[0.5, 0.5, 0.5, 0.5],
       [0.5, 0.5, 0.5, 0.5]], dtype=float32)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privaware.schema import Schema

__all__ = ["Pixels"]


@dataclass(frozen=True, kw_only=True)
class Pixels:
    """Clip the pixels of images to [0, 1], flatten each image to a row, and scale the row to the L2 norm `norm`.

    Parameters
    ----------
    norm : float
        L2 norm of a row; a row of zeros stays zero.
    """

    norm: float = 1.0

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        flat = x.reshape(len(x), math.prod(x.shape[1:])).astype(np.float32)
        rows = np.clip(np.nan_to_num(flat, posinf=1.0, neginf=0.0), 0.0, 1.0)
        length = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        return np.asarray(rows * (self.norm / np.maximum(length, np.float32(1e-12))))

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a row."""
        return math.prod(schema.shape)
