"""Noise for arrays in float64, block by block, so that what is in work stays in a processor's cache."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["add_noise"]

NUMBERS_AT_ONCE = 2**15
"""Numbers of an array that get their noise at once."""

START = 1.5 * 2.0**52
"""Steps around which neighbouring float64 numbers are one step apart: adding so many rounds to a whole number."""


def add_noise(exact: np.ndarray, scale: np.ndarray, step: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """(rows, width) values plus normal noise of (rows, 1) deviations `scale`, at the nearest multiples of `step`.

    Steps are powers of two. The blocks take the numbers of the stream in the order of the array. (What exceeds 2^51
    steps becomes a multiple of two.)

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
        start = START * step[some]
        for left in range(0, width, wide):
            part = (some, slice(left, min(left + wide, width)))
            shape = exact[part].shape
            values = stream.standard_normal(out=draws[: math.prod(shape)].reshape(shape))
            values *= scale[some]
            values += exact[part]
            values += start
            np.subtract(values, start, out=released[part], casting="same_kind")
    return released
