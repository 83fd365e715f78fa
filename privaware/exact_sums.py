"""Sums over rows that are exact, and so the same in any order, by any BLAS, on any number of threads.

Rows are rounded towards zero to a public lattice of a power-of-two step, which makes no norm larger. Products of two
lattice values and sums of up to 2^53 of their steps have no rounding error in float64, fused or not: a chunk of that
many rows is one matrix product. Chunk sums are added without error too (a high and a low part by Knuth's two-sum),
and the total is rounded to float64 once, at the end. So one more row moves the exact total by its own term, and the
float64 total by at most `MARGIN` times the largest term more, in any norm, for up to `MOST_ROWS` rows: terms that are
clipped to (1 - MARGIN) of a sensitivity keep it.

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
"""Bits of a float64: whole numbers up to 2^53 are added without error."""

MOST_ROWS = 2**32
"""The true number of rows for which `MARGIN` is proven; more do not fit a machine's memory."""

MARGIN = 2.0**-18
"""What rounding totals to float64 can add, over the largest term: 2^-53 x rows on either side, and four times that
for products of the total with public numbers."""

MOST_BITS = 45
"""Of a product: with 2^32 rows in chunks of 2^(53 - 45), the low part of a `Total` has no rounding error."""


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """Multiples of `step` from -bound to bound: `bits` for the largest, beside the sign."""

    bound: float
    bits: int

    def __post_init__(self) -> None:
        expect_positive("lattice", bound=self.bound)
        expect_count("lattice", bits=self.bits)

    @property
    def step(self) -> float:
        """2^-bits times the power of two at or above the bound."""
        mantissa, exponent = math.frexp(self.bound)
        return math.ldexp(1.0, exponent - (mantissa == 0.5) - self.bits)

    def round(self, values: Any) -> Any:
        """Finite numbers (array or tensor) moved towards zero to the lattice, and those beyond the bound onto it.

        >>> Lattice(bound=1.0, bits=2).round(np.array([0.3, -0.3, 7.0]))
        array([ 0.25, -0.25,  1.  ])
        """
        scaled = values.clip(-self.bound, self.bound) * (1 / self.step)  # a power of two: exact
        whole = np.trunc(scaled, out=scaled) if isinstance(scaled, np.ndarray) else scaled.trunc_()
        whole *= self.step
        return whole

    def nearest(self, values: Any) -> Any:
        """Finite numbers moved to the nearest lattice value: by half a step at most, but a norm may grow by that."""
        scaled = values.clip(-self.bound, self.bound) * (1 / self.step)
        whole = np.rint(scaled, out=scaled) if isinstance(scaled, np.ndarray) else scaled.round_()
        whole *= self.step
        return whole


def row_lattice(norm: float, width: int) -> Lattice:
    """A lattice for rows of `width` numbers of L2 norm `norm`, on which squared norms are exact: at most 20 bits."""
    return Lattice(bound=norm, bits=min(20, (MANTISSA - math.ceil(math.log2(max(width, 1)))) // 2))


def clip_rows(rows: Any, norm: float, lattice: Lattice, dtype: Any = np.float64) -> Any:
    """Rows on a `row_lattice`, clipped to an L2 norm of norm x (1 - MARGIN); what is not finite becomes 0.

    Each is a function of itself alone, bit for bit: squared norms are exact and all else is done entry by entry. A
    float32 tensor gives one on its device, of the same bits.
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
    block = rows.double().nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
    largest = block.abs().amax(1, keepdim=True)
    block *= (lattice.bound / largest.clamp(min=1e-300)).where(largest > lattice.bound, 1.0)
    block = lattice.nearest(block)
    lengths = block.square().sum(1, keepdim=True).sqrt_()
    return lattice.round(block * (most / lengths.clamp(min=1e-300)).clamp(max=1.0))


NUMBERS_AT_ONCE = 2**18
"""Numbers of an array that are clipped at once; they stay in a processor's cache."""

TENSOR_NUMBERS_AT_ONCE = 2**26
"""Numbers of a tensor that are clipped at once."""


class Total:
    """The exact sum of arrays (or tensors) whose entries are whole multiples of one step."""

    def __init__(self) -> None:
        self._high: Any = None
        self._low: Any = None

    def add(self, term: Any) -> None:
        """Adds what is itself exact; `term` is kept."""
        if self._high is None:
            self._high, self._low = term, term * 0.0
            return
        total = self._high + term
        part = total - self._high
        self._low = self._low + ((self._high - (total - part)) + (term - part))
        self._high = total

    def merge(self, other: Total) -> Total:
        """This total with all that the other one holds, which stays as it is: exact, so the same in any order."""
        if other._high is not None:
            self.add(other._high)
            self._low = self._low + other._low
        return self

    @property
    def value(self) -> Any:
        """The total, rounded to float64 once."""
        return self._high + self._low


def chunk_rows(*lattices: Lattice) -> int:
    """How many products of one value of each lattice a float64 adds up without error."""
    bits = sum(lattice.bits for lattice in lattices)
    expect(bits <= MOST_BITS, "", f"lattices of at most {MOST_BITS} bits together", bits)
    return int(2 ** min(MANTISSA - bits, 16))


def outer_sum(left: Any, right: Any, left_lattice: Lattice, right_lattice: Lattice) -> Any:
    """The sum over rows of left x right': (rows, a) and (rows, b), arrays or tensors on their lattices, to (a, b)."""
    total = Total()
    add_outer_sum(total, left, right, left_lattice, right_lattice)
    return total.value


def add_outer_sum(total: Total, left: Any, right: Any, left_lattice: Lattice, right_lattice: Lattice) -> None:
    """Adds the exact `outer_sum` of some of the rows to the total of all."""
    size = chunk_rows(left_lattice, right_lattice)
    for at in range(0, max(len(left), 1), size):
        total.add(_double(left[at : at + size]).T @ _double(right[at : at + size]))


def column_sums(values: Any, lattice: Lattice) -> Any:
    """The sums over the first axis of values on a lattice."""
    total = Total()
    add_column_sums(total, values, lattice)
    return total.value


def add_column_sums(total: Total, values: Any, lattice: Lattice) -> None:
    """Adds the exact `column_sums` of some of the rows to the total of all."""
    size = chunk_rows(lattice)
    for at in range(0, max(len(values), 1), size):
        total.add(_double(values[at : at + size]).sum(0))


def count(codes: np.ndarray, size: int) -> np.ndarray:
    """How often each of the codes 0 to size - 1 occurs: whole numbers, as float64."""
    return np.bincount(codes, minlength=size).astype(np.float64)


def _double(values: Any) -> Any:
    return values.astype(np.float64, copy=False) if isinstance(values, np.ndarray) else values.double()
