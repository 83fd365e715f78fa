"""Spans, ends and shares of rows from noisy counts."""

from __future__ import annotations

import numpy as np
import pytest

from privaware.preprocessing._ranges.column_counts import DECADES, cells, empty_cells, grid_between, shrunken, span

EDGES = np.concatenate([-DECADES[::-1], DECADES])


def noisy_counts(values: np.ndarray, edges: np.ndarray, scale: float, seed: int) -> np.ndarray:
    return cells(values, edges) + scale * np.random.default_rng(seed).normal(size=len(edges) + 1)


@pytest.mark.parametrize("seed", range(5))
def test_noise_as_large_as_the_counts_cuts_off_few_rows(seed: int) -> None:
    values = np.random.default_rng(seed).uniform(227, 278, 850)
    grid = grid_between(200.0, 316.0)
    counts = noisy_counts(values, grid, 75.0, seed)[1:-1]
    low, high = empty_cells(counts, 75.0, 850), len(counts) - empty_cells(counts[::-1], 75.0, 850)
    assert np.mean((values >= grid[low]) & (values <= grid[high])) > 0.75


def test_clear_counts_cut_off_empty_ends() -> None:
    values, grid = np.random.default_rng(0).uniform(227, 278, 10_000), grid_between(100.0, 316.0)
    counts = noisy_counts(values, grid, 10.0, 0)[1:-1]
    low, high = empty_cells(counts, 10.0, 10_000), len(counts) - empty_cells(counts[::-1], 10.0, 10_000)
    assert 210 < grid[low] <= 227
    assert 278 <= grid[high] < 300


def test_span_takes_in_neighbours_that_are_likely_full() -> None:
    values = np.random.default_rng(0).uniform(0, 1, 850)  # 185 of them between 0.1 and 0.316, 4 deviations would be 192
    low, high = span(cells(values, EDGES), EDGES, 48.0)
    assert low <= 0.1
    assert high == 1.0


def test_a_far_cell_that_noise_explains_is_left_out() -> None:
    counts = noisy_counts(np.full(850, 5.0), EDGES, 48.0, 2)
    for deviations, reaches in ((3.5, False), (5.0, False), (6.0, True)):
        counts[-3] = deviations * 48
        assert (span(counts, EDGES, 48.0)[1] > 32) is reaches


def test_zeros_alone_do_not_bound_a_target() -> None:
    draw, highs = np.random.default_rng(0), []
    for seed in range(20):
        values = np.where(draw.random(5000) < 0.7, 0.0, draw.lognormal(2, 1, 5000))  # 1 to 100 hardly stands out
        counts = noisy_counts(values, EDGES, 180.0, seed)
        low, high = span(counts, EDGES, 180.0, target=True)
        assert low == 0
        highs.append(high)
    assert min(highs) > 0.1
    assert 10 <= np.median(highs) <= 100


def test_shrunken_counts_are_nearer_to_the_truth() -> None:
    values = np.random.default_rng(0).beta(2, 5, 900)
    grid = grid_between(0.0, 1.0)
    exact = cells(values, grid)[1:-1]
    errors = []
    for seed in range(20):
        noisy = noisy_counts(values, grid, 60.0, seed)[1:-1]
        errors.append((np.linalg.norm(shrunken(noisy, 60.0, 900)[0] - exact), np.linalg.norm(noisy - exact)))
    near, far = np.mean(errors, axis=0)
    assert near < 0.75 * far
