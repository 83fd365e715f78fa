"""How texts spell short decimals, by looks at their bytes: no number is spelt again.

A decimal of at most 15 digits is the only one with so many decimals that has its float64, and the shortest: with as
many decimals Python spells it by these digits, and without saying how many it does so from 1e-4 on, less the zeros at
the end. What is left to look at is the form: no leading zero, no plus sign.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Looks", "looks_of"]

DIGITS = 15
"""Most digits of a number whose style `looks_of` decides."""

LEAST = 1e-4
"""Least absolute value, other than 0, of a number that `looks_of` takes for plain or pointed."""

MINUS = ord("-")
POINT = ord(".")
ZERO = ord("0")
NINE = ord("9")

SIGN = 2**8
"""What a minus sign adds to the sum of `KINDS` over a text."""

OTHER = 2**20
"""What a byte that is no digit, point or minus sign adds to the sum of `KINDS` over a text."""

KINDS = np.array([0 if ZERO <= byte <= NINE else {POINT: 1, MINUS: SIGN}.get(byte, OTHER) for byte in range(256)])
"""What each byte adds to a sum that tells how many points, signs and other bytes a text has: a number has few."""


class Looks(NamedTuple):
    """Which texts spell their numbers "plain" (whole ones without a point) or "pointed" (all with one, as `repr` has
    it), and with how many decimals: -1 where a look does not tell, and a closer one is needed."""

    plain: np.ndarray
    pointed: np.ndarray
    decimals: np.ndarray


def looks_of(texts: Any, numbers: np.ndarray) -> Looks:
    """How the texts of an Arrow array spell their numbers; an empty one, and what is no number, is told nothing of.

    `numbers` are NaN for those. -0 is a plain 0.

    >>> import pyarrow as pa
    >>> words = ["7", "7.0", "0.25", "7.10", "1e3"]
    >>> looks = looks_of(pa.array(words), np.array(words, float))
    >>> {style: fits.tolist() for style, fits in looks._asdict().items()}["decimals"]
    [0, 1, 2, 2, -1]
    """
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.intp)
    text = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]
    starts, ends = ends[:-1] - ends[0], ends[1:] - ends[0]
    known = ~np.isnan(numbers)
    if not known.any():
        return Looks(known, known, np.full(len(known), -1, np.int8))
    sums = np.concatenate([[0], np.cumsum(KINDS.take(text))])
    kinds = sums.take(ends) - sums.take(starts)
    negative = known & (text.take(starts, mode="clip") == MINUS)
    points = kinds - SIGN * negative
    pointed, first = known & (points == 1), starts + negative
    before = ends - first  # the digits before the point
    before[pointed] = np.flatnonzero(text == POINT)[np.repeat(pointed, kinds % SIGN)] - first[pointed]
    decimals = ends - first - before - pointed
    usual = known & (points >= 0) & (points <= 1) & (before + decimals <= DIGITS) & ~(pointed & (decimals == 0))
    usual &= (before == 1) | ((before > 1) & (text.take(first, mode="clip") != ZERO))
    nought = numbers == 0
    fixed = usual & ~(nought & negative & ~pointed)
    usual &= (np.abs(numbers) >= LEAST) | (nought & ~(negative & pointed))
    ends_in_zero = text.take(ends - 1, mode="clip") == ZERO
    plain = usual & (~pointed | ~ends_in_zero)
    with_point = usual & pointed & (~ends_in_zero | (decimals == 1))
    return Looks(plain, with_point, np.where(fixed, decimals, -1).astype(np.int8))
