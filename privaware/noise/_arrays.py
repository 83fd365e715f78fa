"""Add Gaussian or Laplace noise to arrays, and round the sums to multiples of a public step, a power of two.

Gaussian noise is drawn in float64, block by block, so that a block stays in a CPU's cache. Laplace noise is exact: the
result is the true value plus a real Laplace number, rounded once.

1. A standard Laplace number is `ln(w)` with a random sign, where w is uniform in (0, 1].
2. 63 bits of w are drawn for every number. More bits are drawn only if 63 bits do not decide which of two neighbouring
   multiples of the step is nearest. Then `ln(w)` is bounded from both sides in decimal arithmetic.
3. So the result has the same distribution as with real arithmetic, at any distance from the true value.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np

NUMBERS_AT_ONCE = 2**15
"""Number of array entries that get their noise at once."""

SMALLEST_STEP = 2.0**-500
"""Smallest step that values are rounded to, also without noise; values below 2^523 then have a finite quotient."""

BITS = 63
"""Number of bits of w that are drawn for every number, in addition to its sign."""

MORE_BITS = 64
"""Number of bits of w that are drawn at a time if the first bits do not decide."""

MOST_STEPS = 2.0**13
"""Largest scale of the noise, in lattice steps, for which the error bound `NEAR` is proven."""

COARSE_BELOW = 2**40
"""A draw w below `COARSE_BELOW / 2**BITS` has too few significant bits to decide in float64."""

NEAR = 2.0**-26
"""Bound on the error of float64, in lattice steps: 2^-27 for bits of w that are not drawn, plus 2^-31 for rounding."""


def add_gaussian(exact: np.ndarray, scale: np.ndarray, step: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """Return `exact` (rows, width) plus normal noise, rounded to the nearest multiples of `step`.

    `exact` is float32 or float64. `scale` (rows, 1) has the standard deviation of the noise in each row, and `step`
    (rows, 1) the spacing of the results of each row: powers of two, of at least `SMALLEST_STEP`. The result is a new
    array with the shape and type of `exact`. The sum is computed in float64 with numbers of `stream`, in row-major
    order. Dividing and multiplying by a power of two is exact, so every result is a multiple of its step, also where
    float64 numbers are farther apart than one step.

    >>> ones = np.ones((2, 1))
    >>> add_gaussian(np.zeros((2, 3)), 8 * ones, 4 * ones, np.random.Generator(np.random.SFC64(0))) % 4
    array([[0., 0., 0.],
           [0., 0., 0.]])
    """
    rows, width = exact.shape
    high, wide = max(1, NUMBERS_AT_ONCE // max(width, 1)), max(1, min(width, NUMBERS_AT_ONCE))
    released, draws = np.empty_like(exact), np.empty(high * wide)
    for top in range(0, rows, high):
        some = slice(top, min(top + high, rows))
        steps = step[some]
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


def add_laplace(exact: np.ndarray, scale: np.ndarray, step: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """Return `exact` plus Laplace noise, rounded to the nearest multiples of `step`.

    Parameters
    ----------
    exact : array
        The exact values.
    scale : array that broadcasts to `exact`
        The scale of the noise, above 0.
    step : array that broadcasts to `exact`
        The spacing of the results: powers of two. A step below `scale / 8192` (`MOST_STEPS`) raises `ValueError`.
    stream : Generator
        The source of random bits.

    Returns
    -------
    array of float64
        The noisy values, in the shape of `exact`.

    Examples
    --------
    >>> released = add_laplace(np.zeros(3), np.array(8.0), np.array(0.25), np.random.Generator(np.random.SFC64(0)))
    >>> released % 0.25
    array([0., 0., 0.])
    """
    if not exact.ndim:
        return np.asarray(add_laplace(exact[None], scale, step, stream)[0])
    steps = scale / step
    if not (steps <= MOST_STEPS).all():
        raise ValueError(f"expected a scale of at most {MOST_STEPS:g} lattice steps, got {float(steps.max()):g}")
    values = exact / step
    whole = np.rint(values)
    rest = np.subtract(values, whole, out=values)  # exact, and at most half a step
    raw = stream.bit_generator.random_raw(exact.size).view(np.int64).reshape(exact.shape)
    negative = raw >= 0
    bits = raw ^ (raw >> BITS)  # all bits inverted if the sign bit is set
    noisy = bits + 0.5
    noisy *= 2.0**-BITS
    np.log(noisy, out=noisy)
    noisy *= steps
    noisy = np.where(negative, noisy, -noisy)
    noisy += rest
    nearest = np.rint(noisy)
    noisy -= nearest
    unsure = (np.abs(noisy, out=noisy) >= 0.5 - NEAR) | (bits < COARSE_BELOW)
    if unsure.any():
        for at in zip(*unsure.nonzero(), strict=True):
            each = Fraction(float(np.broadcast_to(steps, exact.shape)[at]))
            nearest[at] = _nearest(Fraction(float(rest[at])), -each if negative[at] else each, int(bits[at]), stream)
    whole += nearest
    return np.asarray(whole * step)


def _nearest(rest: Fraction, scale: Fraction, bits: int, stream: np.random.Generator) -> int:
    """Return the integer nearest to `rest - scale * ln(w)`, for a uniform random number w in (0, 1).

    `bits` is an integer, the first `BITS` binary digits of w. If these digits do not decide, further digits are drawn
    from `stream`. `rest` and `scale` are in units of the step to which results are rounded; `scale` has the sign of the
    noise.
    """
    count = BITS
    while True:
        if bits:
            ends = [math.floor(rest + scale * end + Fraction(1, 2)) for end in _exponential_bounds(bits, count)]
            if ends[0] == ends[1]:
                return ends[0]
        bits = (bits << MORE_BITS) | int(stream.bit_generator.random_raw())
        count += MORE_BITS


def _exponential_bounds(bits: int, count: int) -> tuple[Fraction, Fraction]:
    """Return a lower and an upper bound on `-ln(w)` for all w from `bits / 2**count` to `(bits + 1) / 2**count`.

    `bits` must be above 0.
    """
    context = Context(prec=20 + count // 3)
    slack = Fraction(count, 10 ** (context.prec - 5))  # far above the error of decimal logarithms
    unit = Fraction(count * Fraction(context.ln(Decimal(2))))
    low, high = (unit - Fraction(context.ln(Decimal(end))) for end in (bits + 1, bits))
    return low - slack, high + slack
