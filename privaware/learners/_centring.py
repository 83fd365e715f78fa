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

LEAST_SPREAD = 0.1
"""Lower bound on `1 - mean @ mean`, the mean squared distance of unit rows from their mean, in `Centre.scale`."""
ROWS_PER_BLOCK = 4096
"""Number of rows that are changed at a time, which bounds memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Centre:
    """A public centre for rows of norm 1: rows are replaced by `(row - mean) * scale`.

    `mean` (width,) is a released mean of the rows, and `scale` brings rows minus `mean` back to a norm of about 1.
    """

    mean: np.ndarray
    scale: float

    @classmethod
    def of(cls, noisy_sum: np.ndarray, *, rows: int, deviation: float) -> Centre:
        """Return the centre for `noisy_sum` (width,), the sum of `rows` rows of norm at most 1 plus noise.

        `deviation` is the standard deviation of the noise in each entry of `noisy_sum`. With `mean = noisy_sum / rows`,
        `square = mean @ mean` and `noise = width * (deviation / rows)**2`, the expected squared norm of the noise in
        the mean, the mean is multiplied by `max(0, 1 - noise / square)`. After this, `scale` is
        `1 / sqrt(max(1 - mean @ mean, LEAST_SPREAD))`.
        """
        mean = noisy_sum / rows
        square = float(mean @ mean)
        noise = mean.size * (deviation / rows) ** 2
        mean = mean * max(0.0, 1 - noise / square) if square else mean
        return cls(mean=mean, scale=1 / math.sqrt(max(1 - float(mean @ mean), LEAST_SPREAD)))

    def move(self, rows: Any, lattice: Lattice) -> None:
        """Replace each row in place by `(row - mean) * scale`, clipped to norm 1.

        `rows` is a float array or tensor (rows, width). Entries are rounded to multiples of `lattice.step`. Each new
        row is a function of its own row alone.
        """
        write_affine(rows, rows, self.mean, self.scale, lattice)

    def outputs_for(self, weight: np.ndarray, bias: np.ndarray) -> tuple[Any, Any]:
        """Return weights and biases for the original rows that give the outputs of a linear model on centred rows.

        `weight` (outputs, width) and `bias` (outputs,) belong to the centred rows, `(row - mean) * scale`. The result
        is `(scale * weight, bias - scale * weight @ mean)`. Clipping and rounding of centred rows are left out of
        account.
        """
        weight = weight * self.scale
        return weight, bias - weight @ self.mean


def write_affine(target: Any, rows: Any, mean: np.ndarray, factor: np.ndarray | float, lattice: Lattice) -> None:
    """Write `(row - mean) * factor` of each row of `rows`, clipped to norm 1, to `target`.

    Entries are rounded to multiples of `lattice.step`. `rows` and `target` (rows, width) are two float arrays or two
    tensors of the same shape; they may be the same object. `mean` has one number for each column, and so has `factor`
    unless it is one number.
    """
    array = isinstance(rows, np.ndarray)
    numbers: Any = np.asarray if array else rows.new_empty(0).double().new_tensor
    centre, factors = numbers(mean), numbers(factor)
    for at in range(0, len(rows), ROWS_PER_BLOCK):
        part = rows[at : at + ROWS_PER_BLOCK]
        block = ((part.astype(np.float64) if array else part.double()) - centre) * factors
        target[at : at + ROWS_PER_BLOCK] = clip_rows(block, 1.0, lattice, np.float32)
