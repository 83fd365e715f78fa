"""Noisy two-way tables: their sensitivity, and uncertainties computed from them."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.data import Data
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.selectors._tables import release, uncertainties

ODDS = 1e-7
"""Negligible noise."""


def table(codes: np.ndarray, y: np.ndarray, sizes: tuple[int, ...]) -> Data:
    columns = tuple(
        Column(name=f"c{at}", kind="category", categories=tuple(map(str, range(size))))
        for at, size in enumerate(sizes[:-1])
    )
    classes = tuple(f"k{at}" for at in range(sizes[-1]))
    schema = Schema(columns=columns, classes=classes, rows=max(len(y), 1))
    return Data(schema=schema, x=codes.astype(float), y=y.astype(np.int64))


@st.composite
def tables(draw: st.DrawFn, least: int = 1) -> Data:
    sizes = tuple(draw(st.lists(st.integers(2, 4), min_size=2, max_size=5)))
    rows = draw(st.integers(least, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = np.column_stack([rng.integers(size, size=rows) for size in sizes])
    codes[:, 0] = np.minimum(codes[:, -1], sizes[0] - 1)  # one column that says something
    return table(codes[:, :-1], codes[:, -1], sizes)


def entropy(*columns: np.ndarray) -> float:
    _, count = np.unique(np.column_stack(columns), axis=0, return_counts=True)
    share = count / count.sum()
    return float(-(share * np.log2(share)).sum())


@settings(max_examples=60, deadline=None)
@given(tables())
def test_uncertainties_without_noise_equal_those_of_the_rows(data: Data) -> None:
    shared = uncertainties(release(data, 8, ODDS, Rng(seed=1)))
    columns = [*data.x.T, data.y]
    for i, j in combinations(range(len(columns)), 2):
        a, b, both = entropy(columns[i]), entropy(columns[j]), entropy(columns[i], columns[j])
        expected = 2 * (1 - both / (a + b)) if a + b > 1e-3 else 0.0
        assert shared[i, j] == pytest.approx(expected, abs=2e-3)
        assert shared[j, i] == pytest.approx(shared[i, j])


def test_sensitivity_bound_of_the_tables_is_tight() -> None:
    """The bound is attained, so no budget is wasted."""
    data = table(np.array([[0, 1, 2]]), np.array([1]), (2, 3, 4, 2))

    class Seen(Rng):
        exact = np.zeros(0)

        def gaussian(self, exact: np.ndarray, *, noise: float, sensitivity: float) -> np.ndarray:
            self.exact = exact
            assert sensitivity == 1.0
            return exact

    rng = Seen(seed=0)
    release(data, 8, 1.0, rng)
    assert 1 - 1e-5 < np.linalg.norm(rng.exact) <= 1


def test_shrinkage_lowers_the_uncertainty_of_independent_columns() -> None:
    rng = np.random.default_rng(0)
    data = table(rng.integers(3, size=(500, 6)), rng.integers(2, size=500), (3,) * 6 + (2,))
    shrunk = [uncertainties(release(data, 8, 5.0, Rng(seed=seed))) for seed in range(20)]
    plain = [
        uncertainties(replace(tables, noise=0 * tables.noise))
        for tables in (release(data, 8, 5.0, Rng(seed=seed)) for seed in range(20))
    ]
    above = np.triu_indices(7, 1)
    assert np.mean([shared[above] for shared in shrunk]) < 0.5 * np.mean([shared[above] for shared in plain])
