"""Compute exact sums over rows, which are the same in any order, with any BLAS and any number of threads.

1. Values are rounded to a public lattice: the multiples of a step, which is a power of two. Rounding towards zero
   makes no norm larger.
2. Products of two lattice values, and sums of such products below 2^53 steps, have no rounding error in float64, with
   or without fused multiply-add. So a chunk of rows whose sum stays below 2^53 steps is one matrix product.
3. Chunk sums are added without error too, as a high and a low part (Knuth's two-sum). The total is rounded to float64
   once, at the end.
4. So one more row changes the exact total by the row's own term. In any norm, and for up to `MOST_ROWS` rows, the
   rounded total changes by at most the norm of this term plus `MARGIN` times the largest norm of a term. Therefore
   terms that are clipped to `(1 - MARGIN) * sensitivity` keep the sensitivity.

>>> lattice = Lattice(bound=1.0, bits=20)
>>> rows = lattice.round(np.random.default_rng(0).uniform(-1, 1, (1000, 3)))
>>> bool((outer_sum(rows, rows, lattice, lattice) == outer_sum(rows[::-1], rows[::-1], lattice, lattice)).all())
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware._validate import expect, expect_count, expect_positive

__all__ = [
    "MARGIN",
    "MOST_ROWS",
    "Lattice",
    "Total",
    "add_column_sums",
    "add_outer_sum",
    "clip_rows",
    "column_sums",
    "count",
    "outer_sum",
    "row_lattice",
]

MANTISSA = 53
"""Number of mantissa bits of a float64; integers up to 2^53 are added without error."""

MOST_ROWS = 2**32
"""Largest true number of rows for which `MARGIN` is proven."""

MARGIN = 2.0**-18
"""Bound on how much more one row changes a total that is rounded to float64, divided by the largest term.

Rounding the totals of both neighbouring data sets adds at most `2 * 2**-53 * MOST_ROWS = 2**-20`. `MARGIN` is four
times as much, which leaves room for products of the total with public numbers.
"""

MOST_BITS = 45
"""Largest number of bits of a product; then the low part of a `Total` over 2^32 rows has no rounding error."""


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """The multiples of `step` in [-bound, bound], to which values are rounded so that sums and products are exact.

    `step` is a power of two, and `bits` sets its size: `bound` is more than `2**(bits - 1)` and at most `2**bits`
    steps.
    """

    bound: float
    bits: int

    def __post_init__(self) -> None:
        expect_positive("lattice", bound=self.bound)
        expect_count("lattice", bits=self.bits)

    @property
    def step(self) -> float:
        """The lattice step: `2**-bits` times the smallest power of two that is at least `bound`."""
        mantissa, exponent = math.frexp(self.bound)
        return math.ldexp(1.0, exponent - (mantissa == 0.5) - self.bits)

    def round(self, values: Any) -> Any:
        """Return a copy of `values`, clipped to the bound and rounded towards zero to a multiple of `step`.

        `values` are an array or a tensor of finite floats.

        >>> Lattice(bound=1.0, bits=2).round(np.array([0.3, -0.3, 7.0]))
        array([ 0.25, -0.25,  1.  ])
        """
        scaled = values.clip(-self.bound, self.bound) * (1 / self.step)  # a power of two: exact
        whole = np.trunc(scaled, out=scaled) if isinstance(scaled, np.ndarray) else scaled.trunc_()
        whole *= self.step
        return whole

    def nearest(self, values: Any) -> Any:
        """Return a copy of finite `values`, clipped to the bound and rounded to the nearest multiple of `step`.

        A clipped value moves by at most half a step. This may make a norm larger, and may lead beyond `bound` if
        `bound` is no multiple of `step`.
        """
        scaled = values.clip(-self.bound, self.bound) * (1 / self.step)
        whole = np.rint(scaled, out=scaled) if isinstance(scaled, np.ndarray) else scaled.round_()
        whole *= self.step
        return whole


def row_lattice(norm: float, width: int) -> Lattice:
    """Return a `Lattice` on which squared norms of rows of `width` numbers have no rounding error in float64.

    Its bound is `norm`, the L2 norm to which rows are clipped, and so a bound on the absolute value of every entry. It
    has `min(20, (53 - ceil(log2(width))) // 2)` bits.
    """
    return Lattice(bound=norm, bits=min(20, (MANTISSA - math.ceil(math.log2(max(width, 1)))) // 2))


def clip_rows(rows: Any, norm: float, lattice: Lattice, dtype: Any = np.float64) -> Any:
    """Return `rows` rounded to multiples of `lattice.step` and clipped to an L2 norm of `norm * (1 - MARGIN)`.

    `rows` is an array or tensor (rows, width), which does not change, and `lattice` is `row_lattice(norm, width)`.
    Entries that are not finite become 0. A row with an entry beyond `lattice.bound` is first scaled so that its largest
    absolute entry is `lattice.bound`. Each result depends, bit for bit, on its own row only: squared norms are exact,
    and all other operations act on single entries. A tensor gives a tensor of the same type on its device; an array
    gives an array of type `dtype`. Raise `WrongInput` if squared norms are not exact on `lattice`.
    """
    exact = 2 * lattice.bits + math.ceil(math.log2(max(rows.shape[1], 1))) <= MANTISSA
    expect(exact, "", "a lattice on which squared norms are exact (row_lattice)", lattice)
    array = isinstance(rows, np.ndarray)
    clipped = np.empty(rows.shape, dtype) if array else rows.new_empty(rows.shape)
    block, clip = (NUMBERS_AT_ONCE, _clip_array) if array else (TENSOR_NUMBERS_AT_ONCE, _clip_tensor)
    size = max(1, block // max(rows.shape[1], 1))
    for at in range(0, len(rows), size):
        clipped[at : at + size] = clip(rows[at : at + size], norm * (1 - MARGIN), lattice)
    return clipped


def _clip_array(rows: np.ndarray, most: float, lattice: Lattice) -> np.ndarray:
    block = np.nan_to_num(rows.astype(np.float64), posinf=0.0, neginf=0.0)
    largest = np.abs(block).max(axis=1, keepdims=True, initial=0.0)
    if (largest > lattice.bound).any():
        block *= np.where(largest > lattice.bound, lattice.bound / np.maximum(largest, 1e-300), 1.0)
    block = lattice.nearest(block)
    lengths = np.sqrt(np.einsum("ij,ij->i", block, block))[:, None]
    if (lengths > most).any():
        block = lattice.round(block * np.minimum(1.0, most / np.maximum(lengths, 1e-300)))
    return block


def _clip_tensor(rows: Any, most: float, lattice: Lattice) -> Any:
    import torch

    block = rows.to(torch.float64, copy=True).nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
    largest = block.abs().amax(1, keepdim=True)
    block *= (lattice.bound / largest.clamp(min=1e-300)).where(largest > lattice.bound, 1.0)
    block = lattice.nearest(block)
    lengths = block.square().sum(1, keepdim=True).sqrt_()
    return lattice.round(block * (most / lengths.clamp(min=1e-300)).clamp(max=1.0))


NUMBERS_AT_ONCE = 2**18
"""Number of array entries that are clipped at once, so that they stay in a CPU's cache."""

TENSOR_NUMBERS_AT_ONCE = 2**26
"""Number of tensor entries that are clipped at once."""


class Total:
    """The exact sum of arrays or tensors of one shape whose entries are multiples of one step; it starts empty."""

    def __init__(self) -> None:
        self._high: Any = None
        self._low: Any = None

    def add(self, term: Any) -> None:
        """Add `term`, in place and without rounding; the term itself must be free of rounding errors.

        The total may keep a reference to `term`, so do not change it afterwards.
        """
        if self._high is None:
            self._high, self._low = term, term * 0.0
            return
        total = self._high + term
        part = total - self._high
        self._low = self._low + ((self._high - (total - part)) + (term - part))
        self._high = total

    def merge(self, other: Total) -> Total:
        """Add the `other` total to this one, exactly, and return this one; `other` does not change."""
        if other._high is not None:
            self.add(other._high)
            self._low = self._low + other._low
        return self

    @property
    def value(self) -> Any:
        """The total, rounded to float64; at least one term must have been added."""
        return self._high + self._low


def chunk_rows(*lattices: Lattice) -> int:
    """Return how many products (one factor from each of `lattices`) float64 sums without rounding, at most 2^16.

    With b bits in all lattices together this is `min(2**(53 - b), 2**16)`. Raise `WrongInput` if b exceeds `MOST_BITS`.
    """
    bits = sum(lattice.bits for lattice in lattices)
    expect(bits <= MOST_BITS, "", f"lattices of at most {MOST_BITS} bits together", bits)
    return int(2 ** min(MANTISSA - bits, 16))


def outer_sum(left: Any, right: Any, left_lattice: Lattice, right_lattice: Lattice) -> Any:
    """Return the exact `left.T @ right` (a, b) of arrays or tensors (rows, a) and (rows, b), as float64.

    The entries of `left` and `right` must be multiples of the steps of `left_lattice` and `right_lattice`. The exact
    sum is rounded to float64 once. Raise `WrongInput` for lattices of more than `MOST_BITS` bits together.
    """
    total = Total()
    add_outer_sum(total, left, right, left_lattice, right_lattice)
    return total.value


def add_outer_sum(total: Total, left: Any, right: Any, left_lattice: Lattice, right_lattice: Lattice) -> None:
    """Add `left.T @ right` to `total`, in place and without rounding; the arguments are those of `outer_sum`."""
    size = chunk_rows(left_lattice, right_lattice)
    for at in range(0, max(len(left), 1), size):
        total.add(_double(left[at : at + size]).T @ _double(right[at : at + size]))


def column_sums(values: Any, lattice: Lattice) -> Any:
    """Return the exact sums over the first axis of `values`, an array or tensor, rounded to float64 once.

    All entries must be multiples of `lattice.step` within `lattice.bound`.
    """
    total = Total()
    add_column_sums(total, values, lattice)
    return total.value


def add_column_sums(total: Total, values: Any, lattice: Lattice) -> None:
    """Add the sums over the first axis of `values` to `total`, in place and without rounding.

    All entries of `values` must be multiples of `lattice.step` within `lattice.bound`.
    """
    size = chunk_rows(lattice)
    for at in range(0, max(len(values), 1), size):
        total.add(_double(values[at : at + size]).sum(0))


def count(codes: np.ndarray, size: int) -> np.ndarray:
    """Return how often each of the codes 0 to `size - 1` occurs, as float64; other codes must not occur."""
    return np.bincount(codes, minlength=size).astype(np.float64)


def _double(values: Any) -> Any:
    return values.astype(np.float64, copy=False) if isinstance(values, np.ndarray) else values.double()
