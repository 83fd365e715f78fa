"""The merit of sets of columns against its formula."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.selectors.cfs_ga import merits
from privaware.selectors.cfs_greedy import best_first


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 7), st.integers(0, 2**32))
def test_merit_equals_the_formula_of_the_paper(width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shared = rng.random((width + 1, width + 1))
    shared = (shared + shared.T) / 2
    mask = rng.random(width) < 0.6
    mask[0] = True
    inside = np.flatnonzero(mask)
    k = len(inside)
    related = shared[inside, -1].mean()
    pairs = [shared[i, j] for i, j in combinations(inside, 2)]
    among = np.mean(pairs) if pairs else 0.0
    assert merits(mask[None], shared)[0] == pytest.approx(k * related / np.sqrt(k + k * (k - 1) * among))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 7), st.integers(0, 2**32))
def test_greedy_search_adds_the_column_of_largest_merit(width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shared = rng.random((width + 1, width + 1))
    shared = (shared + shared.T) / 2
    order, gained = best_first(shared)
    mask = np.zeros(width, dtype=bool)
    for at, gain in zip(order, gained, strict=True):
        tried = np.array([mask | (np.arange(width) == other) for other in np.flatnonzero(~mask)])
        assert gain == pytest.approx(merits(tried, shared).max())
        mask[at] = True
    assert sorted(order) == list(range(width))
