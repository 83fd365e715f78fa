"""Second moments of bounded rows, and their release with symmetric noise.

Rows are clipped onto a public lattice and their products are added exactly (`exact_sums`), so one row moves a sum by
its own term, whatever the number and order of rows. That needs a row's features to be a function of the row alone,
bit for bit, which `rows_after` sees to.
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

ROWS_AT_ONCE = 2**13
"""Rows that are in memory at once after their features."""


def transformed(features: tuple[Any, ...], data: Data) -> Iterator[np.ndarray]:
    """The rows after their features (tables without any are one-hot encoded), a block at a time."""
    one_hot = not features and data.schema.form == "table"
    for at in range(0, max(len(data), 1), ROWS_AT_ONCE):
        block = data.take(np.arange(at, min(at + ROWS_AT_ONCE, len(data))))
        if one_hot:  # computed entry by entry, whatever the number of rows
            yield OneHot()(block.x, data.schema)
        else:
            yield rows_after(features, block).reshape(len(block), *shape_after(features, data.schema))


def clipped(rows: np.ndarray, norm: float) -> np.ndarray:
    """Flat rows on the lattice of `norm`, each clipped to a little less; values that are not finite count as 0."""
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    return clip_rows(flat, norm, row_lattice(norm, flat.shape[1]))


def second_moments(rows: np.ndarray, norm: float, others: np.ndarray | None = None) -> np.ndarray:
    """The exact sum over `clipped` rows of a a', or of a b' with others that were clipped to norm 1."""
    total = Total()
    add_second_moments(total, rows, norm, others)
    return np.asarray(total.value)


def add_second_moments(total: Total, rows: np.ndarray, norm: float, others: np.ndarray | None = None) -> None:
    """Adds the exact `second_moments` of some of the rows to the total of all."""
    lattice = row_lattice(norm, rows.shape[1])
    if others is None:
        add_outer_sum(total, rows, rows, lattice, lattice)
    else:
        add_outer_sum(total, rows, others, lattice, row_lattice(1.0, others.shape[1]))


def folded(square: np.ndarray) -> np.ndarray:
    """A symmetric matrix as a vector of the same L2 norm: off-diagonal entries once, times root 2."""
    above = np.triu_indices(len(square), 1)
    return np.concatenate([np.diagonal(square), math.sqrt(2) * square[above]])


def unfolded(vector: np.ndarray, size: int) -> np.ndarray:
    """The symmetric matrix back. Noise of deviation s on the vector is s on the diagonal, s / root 2 off it."""
    upper = np.diag(vector[:size] / 2)
    upper[np.triu_indices(size, 1)] = vector[size:] / math.sqrt(2)
    return np.asarray(upper + upper.T)


def release(exact: np.ndarray, noise: float, sensitivity: float, rng: Rng) -> np.ndarray:
    """A symmetric matrix with noise; `sensitivity` is in Frobenius norm."""
    noisy = rng.gaussian(folded(exact), noise=noise, sensitivity=sensitivity)
    return unfolded(noisy, len(exact))
