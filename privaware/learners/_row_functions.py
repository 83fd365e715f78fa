"""Functions of one row whose result, bit for bit, does not depend on the row's position among other rows.

Library exponentials may differ in their last bits between the body and the end of a vector loop. Sums of a row's
numbers may differ between orders of summation, and matrix products have both problems. Removing one row could then
change the terms of other rows. The functions here use only entrywise additions, multiplications and divisions, which
IEEE 754 rounds in the same way everywhere, and sums of integers, which are exact. `exp2` and `softmax_numerators` take
NumPy arrays or tensors on any device; `cosine` and `tanh` take NumPy arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

LOG2E = math.log2(math.e)
"""The binary logarithm of e: `exp(x) = 2 ** (LOG2E * x)`."""

ROUNDING_SHIFT = 1.5 * 2.0**23
"""Adding this number to a float32 below 2^22 leaves the nearest integer in the last bits of the sum."""

EXP2_COEFFICIENTS = (1.0000000755, 0.6931210340, 0.2402210736, 0.0559220356, 0.0096760371)
"""Polynomial coefficients for `2**r` with r in [-1/2, 1/2], with a relative error of 4e-6."""

SINE_COEFFICIENTS = (6.2831851, -41.3416425, 81.6002465, -76.5330092, 39.4136231)
"""Odd polynomial coefficients for `sin(2 * pi * q)` with q in [-1/4, 1/4], with an error of at most 6e-9."""

MAX_EXPONENT = 100.0
"""Exponents are clipped to [-MAX_EXPONENT, MAX_EXPONENT]."""


def exp2(exponents: Any, factor: float = 1.0) -> Any:
    """Return `factor * 2**exponents` in float32, with a relative error of 1e-5, in the shape of `exponents`.

    `exponents` is a float array or tensor, which is not changed; its entries are clipped to [-MAX_EXPONENT,
    MAX_EXPONENT]. Each is split into the nearest integer k and a remainder r; the result is `2**k` times a polynomial
    in r.

    >>> exp2(np.array([0.0, 1.0, -2.0])).round(4).tolist()
    [1.0, 2.0, 0.25]
    """
    array = isinstance(exponents, np.ndarray)
    rest = exponents.clip(-MAX_EXPONENT, MAX_EXPONENT)
    rest = rest.astype(np.float32, copy=False) if array else rest.float()
    shifted = rest + ROUNDING_SHIFT
    rest -= shifted - ROUNDING_SHIFT
    powers = rest * (EXP2_COEFFICIENTS[-1] * factor)
    for coefficient in EXP2_COEFFICIENTS[-2:0:-1]:
        powers += coefficient * factor
        powers *= rest
    powers += EXP2_COEFFICIENTS[0] * factor
    if array:
        powers.view(np.int32)[...] += shifted.view(np.int32) << 23
        return powers
    import torch

    powers.view(torch.int32).add_(shifted.view(torch.int32).bitwise_left_shift_(23))
    return powers


def cosine(revolutions: np.ndarray) -> np.ndarray:
    """Return `cos(2 * pi * revolutions)` in float32.

    `revolutions` is a float32 array of any shape. The error is at most 1e-6.

    >>> cosine(np.array([0.0, 0.25, -1.5], np.float32)).round(4).tolist()
    [1.0, 0.0, -1.0]
    """
    quarter = np.float32(0.25) - np.abs(revolutions - np.rint(revolutions))
    square = quarter * quarter
    values = square * np.float32(SINE_COEFFICIENTS[-1])
    for coefficient in SINE_COEFFICIENTS[-2:0:-1]:
        values = (values + np.float32(coefficient)) * square
    return np.asarray((values + np.float32(SINE_COEFFICIENTS[0])) * quarter)


def tanh(values: np.ndarray) -> np.ndarray:
    """Return the hyperbolic tangent of the array `values` in float64, with an absolute error of 1e-5."""
    return np.asarray(1.0 - 2.0 / (exp2((2 * LOG2E) * values).astype(np.float64) + 1.0))


def softmax_numerators(exponents: Any) -> Any:
    """Return softmax weights before normalisation: integers (classes, rows), stored as float32.

    They are about proportional to `2**exponents`. `exponents` are (classes, rows). A row's largest exponent is
    subtracted from all its exponents first. The largest result of a row is about `2**(23 - ceil(log2(classes)))`, and
    all results are rounded down. Their sum over classes is at most 2**24, so float32 adds it exactly in any order.
    """
    array, classes = isinstance(exponents, np.ndarray), len(exponents)
    differences = exponents - (exponents.max(axis=0) if array else exponents.amax(0))
    numerators = exp2(differences, 2.0 ** (23 - math.ceil(math.log2(classes))))
    return np.trunc(numerators) if array else numerators.trunc_()
