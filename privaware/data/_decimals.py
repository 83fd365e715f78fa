"""Whether texts are short decimals in the one usual spelling, by looks at their bytes: no number is spelt again.

A decimal of at most 15 digits is the shortest that has its float64, so that from 1e-4 on Python spells that number by
these digits. What is left to look at is the form: no leading zero, no plus sign, no zero at the end of a fraction.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["decimal_styles"]

DIGITS, LEAST = 15, 1e-4
MINUS, POINT, ZERO, NINE = 45, 46, 48, 57
SIGN, OTHER = 2**8, 2**20
KINDS = np.array([0 if ZERO <= byte <= NINE else {POINT: 1, MINUS: SIGN}.get(byte, OTHER) for byte in range(256)])
"""What each byte adds to a sum that tells how many points, signs and other bytes a text has: a number has few."""


def decimal_styles(texts: Any, numbers: np.ndarray) -> dict[str, np.ndarray]:
    """For each style which of these texts spell their numbers in it: those in none of them need a closer look.

    `texts` is an Arrow array of what Arrow takes for numbers. A style is "plain" (whole numbers without a point) or
    "pointed" (all with one, as `repr` has it). An empty text is in both, and -0 is a plain 0.

    >>> import pyarrow as pa
    >>> words = ["7", "7.0", "0.25", "7.10", "1e3"]
    >>> {style: fits.tolist() for style, fits in decimal_styles(pa.array(words), np.array(words, float)).items()}
    {'plain': [True, False, True, False, False], 'pointed': [False, True, True, False, False]}
    """
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.intp)
    text = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]
    starts, ends = ends[:-1] - ends[0], ends[1:] - ends[0]
    filled = ends > starts
    if not filled.any():
        return {"plain": ~filled, "pointed": ~filled}
    sums = np.concatenate([[0], np.cumsum(KINDS.take(text))])
    kinds = sums.take(ends) - sums.take(starts)
    negative = filled & (text.take(starts, mode="clip") == MINUS)
    points = kinds - SIGN * negative
    pointed, first = points == 1, starts + negative
    before = ends - first  # the digits before the point
    before[pointed] = np.flatnonzero(text == POINT)[np.repeat(pointed, kinds % SIGN)] - first[pointed]
    decimals = ends - first - before - pointed
    size = np.abs(numbers)
    usual = (points >= 0) & (points <= 1) & (before + decimals <= DIGITS)
    usual &= (size >= LEAST) | ((size == 0) & ~(negative & pointed))
    usual &= (before == 1) | ((before > 1) & (text.take(first, mode="clip") != ZERO))
    ends_in_zero = text.take(ends - 1, mode="clip") == ZERO
    plain = usual & (~pointed | ((decimals > 0) & ~ends_in_zero))
    with_point = usual & pointed & (decimals > 0) & (~ends_in_zero | (decimals == 1))
    return {"plain": plain | ~filled, "pointed": with_point | ~filled}
