"""Flattened rows clipped to an L2 norm of `norm`, for learners whose sensitivity depends on this bound.

With `exact` every row, except a row of zeros, is scaled to norm `norm`; otherwise only longer rows are scaled down.
Entries that are not finite become 0, so the bound holds for every input.

Privacy: no privacy cost (data-independent): each row is transformed by itself.
Use when: as the last feature before a learner that needs rows of bounded norm.

>>> Bounded(norm=1.0, exact=False)(np.array([[3.0, 4.0], [0.3, 0.4]])).round(4)
array([[0.6, 0.8],
       [0.3, 0.4]], dtype=float32)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privaware._validate import expect_between
from privaware.schema import Schema

__all__ = ["Bounded"]

ROUNDING_MARGIN = 1 - 2.0**-22
"""Factor on the scale of a row, so that rounding to float32 cannot carry the row past its bound."""


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """Flatten rows and scale them to the L2 norm `norm` (`exact`), or scale only longer rows down to it.

    A row of zeros stays zero, and entries that are not finite become 0. The result is float32.

    Parameters
    ----------
    norm : float
        The L2 norm bound.
    exact : bool
        Whether shorter rows are scaled up to `norm` too.
    """

    norm: float = 1.0
    exact: bool = True

    def __post_init__(self) -> None:
        expect_between("bounded", 1e-9, 1e9, norm=self.norm)

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        rows = x.reshape(len(x), math.prod(x.shape[1:])).astype(np.float32)
        rows[~np.isfinite(rows)] = 0.0
        largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
        rows /= np.where(largest > 0, largest, 1.0)  # squares of huge or tiny entries would overflow or vanish
        length = np.sqrt(np.square(rows).sum(axis=1, keepdims=True, dtype=np.float64))
        target = np.full_like(length, self.norm)
        if not self.exact:
            target = np.minimum(target, length * largest)
        scale = np.where(length > 0, target / np.maximum(length, 1.0), 0.0)
        return np.asarray(rows * (scale * ROUNDING_MARGIN).astype(np.float32))
