"""Centre rows on their mean, which is released with noise first.

The part that all rows have in common does not tell classes apart, but it takes its share of every clipped gradient: for
unit rows whose mean has norm 0.7, half of the squared norm. The noisy mean is shrunk by the fraction of its squared
norm that noise alone would add. With too few rows for a useful mean, the centre therefore stays near the origin.

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

__all__ = ["Centre", "write_affine"]

LEAST_SPREAD = 0.1
"""Lower bound on the mean squared distance of rows from their mean, used to compute `Centre.scale`."""
ROWS_PER_BLOCK = 4096
"""Number of rows that are changed at a time, which bounds memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Centre:
    """A public `mean` of unit rows, and the `scale` that brings rows minus `mean` back to about norm 1."""

    mean: np.ndarray
    scale: float

    @classmethod
    def of(cls, noisy_sum: np.ndarray, *, rows: int, deviation: float) -> Centre:
        """Return the centre from `noisy_sum`, the sum of `rows` rows with noise of standard `deviation` in each entry.

        The noisy mean is multiplied by `1 - noise / square`, or by 0 if that is negative. Here `noise` is the expected
        squared norm of the noise in the mean, and `square` the squared norm of the noisy mean.
        """
        mean = noisy_sum / rows
        square = float(mean @ mean)
        noise = mean.size * (deviation / rows) ** 2
        mean = mean * max(0.0, 1 - noise / square) if square else mean
        return cls(mean=mean, scale=1 / math.sqrt(max(1 - float(mean @ mean), LEAST_SPREAD)))

    def move(self, rows: Any, lattice: Lattice) -> None:
        """Replace each row in place by `(row - mean) * scale`, clipped to norm 1 on `lattice`.

        `rows` is an array or a tensor. Each new row is a function of its own row alone.
        """
        write_affine(rows, rows, self.mean, self.scale, lattice)

    def outputs_for(self, weight: np.ndarray, bias: np.ndarray) -> tuple[Any, Any]:
        """Return the weights and biases for the original rows, given `weight` and `bias` for the centred rows.

        Weights have shape (outputs, width).
        """
        weight = weight * self.scale
        return weight, bias - weight @ self.mean


def write_affine(target: Any, rows: Any, mean: np.ndarray, factor: np.ndarray | float, lattice: Lattice) -> None:
    """Write `(row - mean) * factor` of each of `rows`, clipped to norm 1 on `lattice`, to `target`.

    `rows` and `target` are two arrays or two tensors of the same shape; they may be the same object.
    """
    array = isinstance(rows, np.ndarray)
    numbers: Any = np.asarray if array else rows.new_empty(0).double().new_tensor
    centre, factors = numbers(mean), numbers(factor)
    for at in range(0, len(rows), ROWS_PER_BLOCK):
        part = rows[at : at + ROWS_PER_BLOCK]
        block = ((part.astype(np.float64) if array else part.double()) - centre) * factors
        target[at : at + ROWS_PER_BLOCK] = clip_rows(block, 1.0, lattice, np.float32)
