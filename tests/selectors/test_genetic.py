"""The genetic search over sets of columns."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.selectors._genetic import Evolution


def search(**changed: float) -> Evolution:
    usual = {"population": 30, "generations": 12, "keep": 0.2, "crossover": 0.7, "mutation": 0.2}
    return Evolution(**{**usual, "most": 12, **changed})  # type: ignore[arg-type]


def test_genetic_search_finds_a_hidden_set_and_copying_does_not() -> None:
    hidden = np.arange(12) % 3 == 0

    def fitness(masks: np.ndarray) -> np.ndarray:
        return -(masks ^ hidden).sum(axis=1).astype(float)

    best_masks = [search().search(12, fitness, np.random.default_rng(seed)) for seed in range(8)]
    assert sum(bool((mask == hidden).all()) for mask in best_masks) >= 6
    best: list[float] = []

    def watched(masks: np.ndarray) -> np.ndarray:
        best.append(float(fitness(masks).max()))
        return fitness(masks)

    search(crossover=0.0, mutation=0.0).search(12, watched, np.random.default_rng(1))
    assert max(best) == best[0]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32))
def test_candidate_sets_are_neither_empty_nor_too_large(width: int, most: int, seed: int) -> None:
    counts = []

    def fitness(masks: np.ndarray) -> np.ndarray:
        counts.append(masks.sum(axis=1))
        return np.zeros(len(masks))

    search(most=most, generations=4, mutation=0.3).search(width, fitness, np.random.default_rng(seed))
    sizes = np.concatenate(counts)
    assert sizes.min() >= 1
    assert sizes.max() <= min(most, width)
    assert len(sizes) == 120
