"""Functions of one row whose bits do not depend on where the row stands among others.

Exponentials of libraries may differ in their last bits between the body of a vector loop and its end, sums of a
row's numbers between orders, and a matrix product does both: a row that leaves then moves the terms of others. Here
only additions, multiplications and divisions are used, entry by entry, which IEEE 754 rounds alike everywhere,
and sums of whole numbers, which are exact. Each takes NumPy arrays or tensors on any device.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["LOG2E", "cosine", "exp2", "softmax_numerators", "tanh"]

LOG2E = math.log2(math.e)

MAGIC = 1.5 * 2.0**23
"""Added to a float32, it leaves the nearest whole number in the last bits."""

POWERS_OF_TWO = (1.0000000755, 0.6931210340, 0.2402210736, 0.0559220356, 0.0096760371)
"""The polynomial for 2^r, r from -1/2 to 1/2, to a relative error of 4e-6."""

SINE = (6.2831851, -41.3416425, 81.6002465, -76.5330092, 39.4136231)
"""The odd polynomial for the sine of q revolutions, q from -1/4 to 1/4, to an error of 1e-6."""

RANGE = 100.0
"""Exponents beyond it are moved onto it."""


def exp2(exponents: Any, factor: float = 1.0) -> Any:
    """`factor` times 2^x in float32, to a relative error of 1e-5: 2^k times a polynomial in the rest.

    >>> exp2(np.array([0.0, 1.0, -2.0])).round(4).tolist()
    [1.0, 2.0, 0.25]
    """
    array = isinstance(exponents, np.ndarray)
    rest = exponents.clip(-RANGE, RANGE)
    rest = rest.astype(np.float32, copy=False) if array else rest.float()
    shifted = rest + MAGIC
    rest -= shifted - MAGIC
    powers = rest * (POWERS_OF_TWO[-1] * factor)
    for coefficient in POWERS_OF_TWO[-2:0:-1]:
        powers += coefficient * factor
        powers *= rest
    powers += POWERS_OF_TWO[0] * factor
    if array:
        powers.view(np.int32)[...] += shifted.view(np.int32) << 23
        return powers
    import torch

    powers.view(torch.int32).add_(shifted.view(torch.int32).bitwise_left_shift_(23))
    return powers


def cosine(revolutions: np.ndarray) -> np.ndarray:
    """The cosine of angles in float32 revolutions, to an error of 1e-6 for few revolutions.

    >>> cosine(np.array([0.0, 0.25, -1.5], np.float32)).round(4).tolist()
    [1.0, 0.0, -1.0]
    """
    quarter = np.float32(0.25) - np.abs(revolutions - np.rint(revolutions))
    square = quarter * quarter
    values = square * np.float32(SINE[-1])
    for coefficient in SINE[-2:0:-1]:
        values = (values + np.float32(coefficient)) * square
    return np.asarray((values + np.float32(SINE[0])) * quarter)


def tanh(values: np.ndarray) -> np.ndarray:
    """The hyperbolic tangent in float64, to an error of 1e-5."""
    return np.asarray(1.0 - 2.0 / (exp2((2 * LOG2E) * values).astype(np.float64) + 1.0))


def softmax_numerators(exponents: Any) -> Any:
    """Whole numbers (classes, rows) in float32 in the proportions of 2^x over the first axis, rounded down.

    Their sum over classes is at most 2^24, so exact in any order.
    """
    array, classes = isinstance(exponents, np.ndarray), len(exponents)
    differences = exponents - (exponents.max(axis=0) if array else exponents.amax(0))
    numerators = exp2(differences, 2.0 ** (23 - math.ceil(math.log2(classes))))
    return np.trunc(numerators) if array else numerators.trunc_()
