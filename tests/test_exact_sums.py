"""Sums over rows have no rounding error but the last one, whatever the order, the chunks and the number of rows."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware import exact_sums
from privaware.errors import WrongInput
from privaware.exact_sums import MARGIN, Lattice, Total, clip_rows, column_sums, count, outer_sum, row_lattice

FINE = Lattice(bound=1.0, bits=20)


def exact_outer_sum(left: np.ndarray, right: np.ndarray) -> list[list[float]]:
    """By rational numbers, rounded once."""
    sums = [[Fraction(0)] * right.shape[1] for _ in range(left.shape[1])]
    for one, two in zip(left.tolist(), right.tolist(), strict=True):
        for i, a in enumerate(one):
            for j, b in enumerate(two):
                sums[i][j] += Fraction(a) * Fraction(b)
    return [[float(entry) for entry in line] for line in sums]


@given(seed=st.integers(0, 10**6), rows=st.integers(0, 300), bits=st.integers(1, 22), bound=st.floats(1e-3, 1e3))
@settings(max_examples=30, deadline=None)
def test_outer_sum_equals_that_of_rational_numbers(seed: int, rows: int, bits: int, bound: float) -> None:
    rng, lattice = np.random.default_rng(seed), Lattice(bound=bound, bits=bits)
    left = lattice.round(rng.uniform(-bound, bound, (rows, 2)))
    right = FINE.round(rng.uniform(-1, 1, (rows, 3)))
    expected = exact_outer_sum(left, right) if rows else np.zeros((2, 3)).tolist()
    assert outer_sum(left, right, lattice, FINE).tolist() == expected
    tensors = outer_sum(torch.from_numpy(left), torch.from_numpy(right), lattice, FINE)
    assert tensors.tolist() == expected
    assert column_sums(right, FINE).tolist() == [float(sum(map(Fraction, column))) for column in right.T.tolist()]


def worst(rows: int) -> np.ndarray:
    """Values that fill all bits and cancel late: the running sum crosses every power of two."""
    values = np.where(np.arange(rows) % 3 == 0, 1 - 2.0**-20, 2.0**-20)
    values[rows // 2 :] *= -1
    values[0] = 2.0**-20
    return np.stack([values, 1 - values * 2.0**-1], axis=1)


@pytest.mark.parametrize("rows", [1_000_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
def test_order_of_rows_does_not_change_a_bit(rows: int) -> None:
    x = FINE.round(worst(rows))
    total = outer_sum(x, x, FINE, FINE)
    for order in (slice(None, None, -1), np.random.default_rng(0).permutation(rows)):
        assert np.array_equal(outer_sum(x[order], x[order], FINE, FINE), total)
        assert np.array_equal(column_sums(x[order], FINE), column_sums(x, FINE))
    whole = (x * 2.0**20).astype(np.int64).astype(object)
    assert column_sums(x, FINE).tolist() == [int(entry) / 2**20 for entry in whole.sum(axis=0)]


def test_float32_sum_is_caught_by_the_same_comparison() -> None:
    x = FINE.round(worst(1_000_000)).astype(np.float32)
    assert not np.array_equal(x.T @ x, x[::-1].T @ x[::-1])


def test_totals_are_exact_where_single_and_double_words_are_not() -> None:
    total, exact = Total(), Fraction(0)
    for term in (2.0**60, 1.0, 2.0**70, -3.0, -(2.0**70), 5.0, -(2.0**60)):
        total.add(np.array([term]))
        exact += Fraction(term)
    assert total.value.tolist() == [float(exact)] == [3.0]


@given(seed=st.integers(0, 10**6), width=st.integers(1, 40), size=st.floats(-3, 12), norm=st.floats(1e-3, 1e3))
@settings(max_examples=40, deadline=None)
def test_clipped_rows_keep_the_norm_and_ignore_other_rows(seed: int, width: int, size: float, norm: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((50, width)) * 10.0**size
    rows[3, 0], rows[5, -1] = np.nan, np.inf
    lattice = row_lattice(norm, width)
    clipped = clip_rows(rows, norm, lattice)
    for row in clipped[:8].tolist():
        assert sum(Fraction(entry) ** 2 for entry in row) <= Fraction(norm * (1 - MARGIN)) ** 2
    order = rng.permutation(50)[:31]
    assert np.array_equal(clip_rows(rows[order], norm, lattice), clipped[order])
    assert np.array_equal(np.concatenate([clip_rows(rows[[at]], norm, lattice) for at in range(50)]), clipped)
    assert np.array_equal(clip_rows(rows, norm, lattice, np.float32), clipped)
    if size < 0:
        short = rows / np.linalg.norm(np.nan_to_num(rows, posinf=0), axis=1, keepdims=True) * norm / 2
        assert np.abs(clip_rows(short, norm, lattice) - np.nan_to_num(short, posinf=0)).max() <= lattice.step


def test_lattice_moves_towards_zero_and_never_beyond_the_bound() -> None:
    lattice = Lattice(bound=3.0, bits=4)
    assert lattice.step == 0.25
    assert lattice.round(np.array([0.3, -0.3, 9.0, -9.0])).tolist() == [0.25, -0.25, 3.0, -3.0]
    assert lattice.round(torch.tensor([0.3, -9.0])).tolist() == [0.25, -3.0]
    assert Lattice(bound=1.0, bits=4).step == 2.0**-4


def test_counts_are_whole_numbers_of_every_code() -> None:
    assert count(np.array([0, 2, 2]), 4).tolist() == [1.0, 0.0, 2.0, 0.0]


def test_lattices_too_fine_to_be_exact_are_refused(monkeypatch: Any) -> None:
    finer = Lattice(bound=1.0, bits=26)
    with pytest.raises(WrongInput, match="at most 45 bits"):
        outer_sum(np.ones((2, 1)), np.ones((2, 1)), finer, FINE)
    with pytest.raises(WrongInput, match="squared norms are exact"):
        clip_rows(np.ones((2, 9)), 1.0, finer)
    x = FINE.round(worst(200_000)) * 2.0**20 + 1e8  # not on the lattice: the refusal is there for a reason
    monkeypatch.setattr(exact_sums, "MANTISSA", 60)
    assert not np.array_equal(outer_sum(x, x, FINE, FINE), outer_sum(x[::-1], x[::-1], FINE, FINE))


def test_rows_are_clipped_to_the_same_bits_as_a_tensor() -> None:
    rows = np.random.default_rng(5).standard_normal((40, 7)).astype(np.float32)
    rows[:10] *= 1e-2
    rows[11] = [np.nan, np.inf, -np.inf, 1e30, 0.5, 0, 3]
    lattice = exact_sums.Lattice(bound=1.0, bits=12)
    array = exact_sums.clip_rows(rows, 1.0, lattice, np.float32)
    assert np.array_equal(array, exact_sums.clip_rows(torch.from_numpy(rows), 1.0, lattice).numpy())


def test_clipping_leaves_the_given_tensor_unchanged() -> None:
    rows = torch.tensor([[1e9, float("nan")], [3.0, 4.0]], dtype=torch.float64)
    before = rows.clone()
    clip_rows(rows, 1.0, row_lattice(1.0, 2))
    assert torch.equal(rows.nan_to_num(), before.nan_to_num())
