"""Add Gaussian noise to arrays in float64, block by block so that a block stays in a CPU's cache."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["add_noise"]

NUMBERS_AT_ONCE = 2**15
"""Number of array entries that get their noise at once."""
SMALLEST_STEP = 2.0**-800
"""Smallest step that values are rounded to; without noise the step is smaller, and a quotient would overflow."""


def add_noise(exact: np.ndarray, scale: np.ndarray, step: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """Return `exact` (rows, width) plus normal noise, rounded to the nearest multiples of `step` (rows, 1).

    `scale` (rows, 1) holds standard deviations. Steps are powers of two. The blocks take the numbers of the stream in
    the order of the array. Dividing and multiplying by a power of two is exact, so every result is a multiple of its
    step, also where float64 numbers are farther apart than one step.

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
        steps = np.maximum(step[some], SMALLEST_STEP)
        for left in range(0, width, wide):
            part = (some, slice(left, min(left + wide, width)))
            shape = exact[part].shape
            values = stream.standard_normal(out=draws[: math.prod(shape)].reshape(shape))
            values *= scale[some]
            values += exact[part]
            values /= steps
            np.rint(values, out=values)
            np.multiply(values, steps, out=released[part], casting="same_kind")
    return released
