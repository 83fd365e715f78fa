"""Numbers are put between edges as by halving."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privaware.data import Edges

FINITE = st.floats(-1e307, 1e307)


@given(edges=st.lists(FINITE, max_size=40, unique=True), values=arrays(np.float64, 50, elements=FINITE))
def test_positions_are_those_of_halving(edges: list[float], values: np.ndarray) -> None:
    ordered = np.unique(np.array(edges, dtype=float))
    near = np.concatenate([values, ordered, np.nextafter(ordered, np.inf), np.nextafter(ordered, -np.inf)])
    near = near[np.isfinite(near)]
    assert np.array_equal(Edges(ordered).position(near), np.searchsorted(ordered, near, "right"))


@given(low=st.floats(-1e6, 1e6), reach=st.floats(1e-6, 1e9), cells=st.integers(2, 5000))
def test_positions_on_equal_and_narrowing_cells(low: float, reach: float, cells: int) -> None:
    edges = np.unique(np.concatenate([np.linspace(low, low + reach, cells), low + reach * np.geomspace(1e-6, 1, 20)]))
    values = np.concatenate([np.random.default_rng(0).uniform(low - reach, low + 2 * reach, 20_000), edges])
    assert np.array_equal(Edges(edges).position(values), np.searchsorted(edges, values, "right"))
