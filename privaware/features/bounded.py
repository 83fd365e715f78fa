"""Rows laid flat, none longer than `norm`: what a learner with a row-norm bound needs.

With `exact` every row gets that length; otherwise only longer ones are shortened. Entries that are not
finite become 0, so that no row can be longer than it says.

Privacy: free. It uses one row at a time.
Use when: last of the features, before a learner whose sensitivity rests on the norm of a row.

>>> Bounded(norm=1.0, exact=False)(np.array([[3.0, 4.0], [0.3, 0.4]])).round(4)
array([[0.6, 0.8],
       [0.3, 0.4]], dtype=float32)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["Bounded"]


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """A row of zeros stays zero."""

    norm: float = 1.0
    exact: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.norm, int | float) or not 1e-9 <= self.norm <= 1e9:
            raise WrongInput(f"bounded: expected norm from 1e-9 to 1e9, got {self.norm!r}")

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        rows = x.reshape(len(x), math.prod(x.shape[1:]))
        rows = np.nan_to_num(rows.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
        largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
        rows /= np.where(largest > 0, largest, 1.0)  # squares of huge or tiny entries stay in range
        length = np.sqrt(np.square(rows).sum(axis=1, keepdims=True, dtype=np.float64))
        wanted = np.full_like(length, self.norm)
        if not self.exact:
            wanted = np.minimum(wanted, length * largest)
        scale = np.where(length > 0, wanted / np.maximum(length, 1.0), 0.0)
        return np.asarray(rows * (scale * ROOM).astype(np.float32))


ROOM = 1 - 2.0**-22
"""Rounding in single precision must not carry a row past its bound."""
