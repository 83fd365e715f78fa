"""Rows measured from their mean, which is released with noise first.

What all rows have in common tells no class from another, but takes its part of every clipped gradient: of unit rows
with a mean of length 0.7 half of the squared length. The noisy mean is shrunk by what its noise alone adds to its
length, so that rows too few for a mean keep their origin.

>>> import numpy as np
>>> centre = Centre.of(np.array([600.0, 0.0]), rows=1000, deviation=1.0)
>>> centre.mean.round(3), round(centre.scale, 3)
(array([0.6, 0. ]), 1.25)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware.exact_sums import Lattice, clip_rows

__all__ = ["Centre"]

LEAST_SPREAD = 0.1
"""The least squared length that rows are taken to have around their mean, for the scale."""
ROWS_AT_ONCE = 4096
"""Rows that are centred at once."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Centre:
    """A public mean of unit rows, and the scale that makes rows about it unit rows again."""

    mean: np.ndarray
    scale: float

    @classmethod
    def of(cls, noisy_sum: np.ndarray, *, rows: int, deviation: float) -> Centre:
        """The mean from the sum of so many rows with noise of this deviation in every entry."""
        mean = noisy_sum / rows
        square = float(mean @ mean)
        noise = mean.size * (deviation / rows) ** 2
        mean = mean * max(0.0, 1 - noise / square) if square else mean
        return cls(mean=mean, scale=1 / math.sqrt(max(1 - float(mean @ mean), LEAST_SPREAD)))

    def move(self, rows: Any, lattice: Lattice) -> None:
        """Rows about the mean, scaled and clipped to norm 1 on the lattice, in place: each a function of itself."""
        array = isinstance(rows, np.ndarray)
        mean: Any = self.mean if array else rows.new_empty(0).double().new_tensor(self.mean)
        for at in range(0, len(rows), ROWS_AT_ONCE):
            part = rows[at : at + ROWS_AT_ONCE]
            block = ((part.astype(np.float64) if array else part.double()) - mean) * self.scale
            rows[at : at + ROWS_AT_ONCE] = clip_rows(block, 1.0, lattice, np.float32)

    def outputs_for(self, weight: np.ndarray, bias: np.ndarray) -> tuple[Any, Any]:
        """Weights and biases for rows as they were, from those for rows about the mean."""
        weight = weight * self.scale
        return weight, bias - weight @ self.mean
