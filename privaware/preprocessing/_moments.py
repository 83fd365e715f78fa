"""Second moments of bounded rows, and their release with symmetric noise.

Rows are clipped and rounded to multiples of a public power of two, so their products are added exactly (`exact_sums`).
One row therefore changes a sum by its own term only, whatever the number and order of rows. This requires that a row's
features are a function of the row alone, bit for bit, which `learners/_fixed_features.py` ensures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from privaware.data import Data
from privaware.exact_sums import Total, add_outer_sum, clip_rows, row_lattice
from privaware.features.onehot import OneHot
from privaware.learners._fixed_features import rows_after, shape_after
from privaware.noise import Rng

ROWS_PER_BLOCK = 2**13
"""Number of rows that are in memory at a time after their features."""


def transformed(features: tuple[Any, ...], data: Data) -> Iterator[np.ndarray]:
    """Yield the rows of `data` after `features`, a tuple of feature maps, in order and a block of rows at a time.

    A block is an array (rows, *shape after the features). Without features, tables are one-hot encoded. Without rows,
    one empty block is yielded.
    """
    one_hot = not features and data.schema.form == "table"
    for at in range(0, max(len(data), 1), ROWS_PER_BLOCK):
        block = data.take(np.arange(at, min(at + ROWS_PER_BLOCK, len(data))))
        if one_hot:  # computed entry by entry, so the number of rows does not matter
            yield OneHot()(block.x, data.schema)
        else:
            yield rows_after(features, block).reshape(len(block), *shape_after(features, data.schema))


def clipped(rows: np.ndarray, norm: float) -> np.ndarray:
    """Return `rows` flattened to (rows, width), rounded and clipped to an L2 norm slightly below `norm`.

    Entries become multiples of the step of `row_lattice(norm, width)`, a power of two. Values that are not finite count
    as 0.
    """
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    return clip_rows(flat, norm, row_lattice(norm, flat.shape[1]))


def add_second_moments(total: Total, rows: np.ndarray, norm: float, others: np.ndarray | None = None) -> None:
    """Add `rows.T @ rows`, or `rows.T @ others` if `others` is given, to the sum `total`, in place and exactly.

    `rows` is a result of `clipped` for `norm`, and `others` a result of `clipped` for norm 1 with as many rows.
    """
    lattice = row_lattice(norm, rows.shape[1])
    if others is None:
        add_outer_sum(total, rows, rows, lattice, lattice)
    else:
        add_outer_sum(total, rows, others, lattice, row_lattice(1.0, others.shape[1]))


def folded(square: np.ndarray) -> np.ndarray:
    """Return the symmetric matrix `square` as a vector of the same L2 norm.

    The diagonal comes first. Entries above it follow, row by row, times sqrt(2).
    """
    above = np.triu_indices(len(square), 1)
    return np.concatenate([np.diagonal(square), math.sqrt(2) * square[above]])


def unfolded(vector: np.ndarray, size: int) -> np.ndarray:
    """Return the symmetric matrix (size, size) of a vector that `folded` returned.

    Noise of standard deviation s on the vector becomes s on the diagonal and s / sqrt(2) off the diagonal.
    """
    upper = np.diag(vector[:size] / 2)
    upper[np.triu_indices(size, 1)] = vector[size:] / math.sqrt(2)
    return np.asarray(upper + upper.T)


def release(exact: np.ndarray, noise: float, sensitivity: float, rng: Rng) -> np.ndarray:
    """Return the symmetric matrix `exact` with symmetric Gaussian noise at noise multiplier `noise`.

    `sensitivity` is the sensitivity of `exact` in Frobenius norm. The noise has standard deviation
    `noise * sensitivity` on the diagonal, and `1 / sqrt(2)` of this off the diagonal.
    """
    noisy = rng.gaussian(folded(exact), noise=noise, sensitivity=sensitivity)
    return unfolded(noisy, len(exact))
