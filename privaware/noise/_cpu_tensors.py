"""Add Gaussian noise to arrays in float64, block by block so that a block stays in a CPU's cache."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["add_noise"]

NUMBERS_AT_ONCE = 2**15
"""Number of array entries that get their noise at once."""

LATTICE_OFFSET = 1.5 * 2.0**52
"""Offset, in lattice steps, that rounds a float64 number to the lattice when it is added and subtracted."""


def add_noise(exact: np.ndarray, scale: np.ndarray, step: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """Return `exact` (rows, width) plus normal noise, rounded to the nearest multiples of `step` (rows, 1).

    `scale` (rows, 1) holds standard deviations. Steps are powers of two. The blocks take the numbers of the stream in
    the order of the array. (A value beyond 2^51 steps is rounded to a multiple of two steps.)

    >>> ones = np.ones((2, 1))
    >>> add_noise(np.zeros((2, 3)), 8 * ones, 4 * ones, np.random.Generator(np.random.SFC64(0))) % 4
    array([[0., 0., 0.],
           [0., 0., 0.]])
    """
    rows, width = exact.shape
    high, wide = max(1, NUMBERS_AT_ONCE // max(width, 1)), max(1, min(width, NUMBERS_AT_ONCE))
    released, draws = np.empty_like(exact), np.empty(high * wide)
    for top in range(0, rows, high):
        some = slice(top, min(top + high, rows))
        start = LATTICE_OFFSET * step[some]
        for left in range(0, width, wide):
            part = (some, slice(left, min(left + wide, width)))
            shape = exact[part].shape
            values = stream.standard_normal(out=draws[: math.prod(shape)].reshape(shape))
            values *= scale[some]
            values += exact[part]
            values += start
            np.subtract(values, start, out=released[part], casting="same_kind")
    return released
