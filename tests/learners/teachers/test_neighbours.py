"""Votes of the nearest rows: against a slow reference, and how far one row moves them."""

from __future__ import annotations

import numpy as np
import pytest

from privaware.learners._teachers.neighbours import WIDTH, Embedding, Neighbours

RNG = np.random.default_rng(0)


def small_rows(rows: int, seed: int, spread: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Rows with many ties, and labels."""
    rng = np.random.default_rng(seed)
    return rng.integers(-spread, spread + 1, (rows, 2)).astype(float), rng.integers(0, 3, rows)


def votes(rows: np.ndarray, labels: np.ndarray, queries: np.ndarray, sample: np.ndarray, count: int) -> np.ndarray:
    return Neighbours(rows, labels, 3, "cpu").votes(queries, np.tile(sample, (len(queries), 1)), count)


def slow_votes(rows: np.ndarray, labels: np.ndarray, query: np.ndarray, sample: np.ndarray, count: int) -> np.ndarray:
    """The mean over all orders of ties, one neighbour after another."""
    total, left = np.zeros(3), count
    distances = ((rows - query) ** 2).sum(axis=1)
    for distance in np.unique(distances[sample]):
        tied = np.bincount(labels[sample & (distances == distance)], minlength=3)
        taken = min(left, tied.sum())
        total += tied * taken / tied.sum()
        left -= taken
    return total


@pytest.mark.parametrize("count", [1, 4, 20, 60])
def test_votes_are_those_of_a_slow_reference(count: int) -> None:
    rows, labels = small_rows(50, seed=1)
    queries, _ = small_rows(20, seed=2)
    sample = np.random.default_rng(3).random(50) < 0.4
    expected = [slow_votes(rows, labels, query, sample, count) for query in queries]
    np.testing.assert_allclose(votes(rows, labels, queries, sample, count), expected, atol=1e-12)


def test_all_neighbours_of_all_rows_are_the_class_counts() -> None:
    rows, labels = small_rows(40, seed=1)
    everyone = votes(rows, labels, rows[:3], np.ones(40, dtype=bool), 40)
    assert (everyone == np.bincount(labels, minlength=3)).all()


def test_one_neighbour_is_the_nearest_row() -> None:
    rows, labels = RNG.permutation(1000)[:, None] * np.ones((1, 2)), RNG.integers(0, 3, 1000)
    assert (votes(rows, labels, rows, np.ones(1000, dtype=bool), 1) == np.eye(3)[labels]).all()


def test_one_row_moves_two_votes_at_most() -> None:
    """Added and removed rows at all distances, with ties, in samples smaller and larger than the neighbours."""
    for seed in range(300):
        rows, labels = small_rows(12, seed, spread=1 + seed % 3)
        queries, _ = small_rows(6, seed + 1000)
        sample = np.random.default_rng(seed).random(12) < 0.7
        sample[seed % 12] = True
        count = 1 + seed % 9
        with_row = votes(rows, labels, queries, sample, count)
        keep = np.arange(12) != seed % 12
        without = votes(rows[keep], labels[keep], queries, sample[keep], count)
        moved = with_row - without
        assert np.abs(moved).max() <= 1 + 1e-12
        assert np.sqrt((moved**2).sum(axis=1)).max() <= np.sqrt(2) + 1e-12


def test_order_of_the_rows_changes_no_bit() -> None:
    raw, labels = RNG.standard_normal((500, 300)).astype(np.float32), RNG.integers(0, 3, 500)
    raw[100:200] = raw[:100]  # ties
    embedding = Embedding.of(RNG.standard_normal((400, 300)).astype(np.float32), np.random.default_rng(1))
    order, sample = RNG.permutation(500), RNG.random(500) < 0.5
    queries = embedding(RNG.standard_normal((20, 300)).astype(np.float32))
    one = votes(embedding(raw), labels, queries, sample, 31)
    two = votes(embedding(raw[order]), labels[order], queries, sample[order], 31)
    assert (one == two).all()


def test_embedded_row_does_not_depend_on_other_rows() -> None:
    rows = RNG.standard_normal((257, 1000)).astype(np.float32)
    embedding = Embedding.of(rows[:200], np.random.default_rng(0))
    assert embedding(rows).shape == (257, WIDTH)
    for at in (0, 100, 256):
        assert (embedding(rows)[at] == embedding(rows[at : at + 1])[0]).all()
    hostile = np.concatenate([rows, np.full((1, 1000), np.nan, np.float32), np.full((1, 1000), 3e38, np.float32)])
    assert (embedding(hostile)[:257] == embedding(rows)).all()
    assert np.isfinite(embedding(hostile)).all()


def test_distances_are_exact() -> None:
    """Two rows whose distances differ by one part in 2^40 are told apart, in any arrangement."""
    top = float(2**20)
    rows = np.full((3, WIDTH), top)
    rows[1, 0], rows[2, 0] = top - 1, top - 2
    far = -np.full((1, WIDTH), top)
    nearest = votes(rows, np.array([0, 1, 2]), far, np.ones(3, dtype=bool), 1)
    assert nearest.tolist() == [[0.0, 0.0, 1.0]]


def test_main_directions_keep_the_distances_of_public_rows() -> None:
    low = RNG.standard_normal((300, 20)) @ RNG.standard_normal((20, 400))
    embedded = Embedding.of(low.astype(np.float32), np.random.default_rng(0))(low)
    true = np.linalg.norm(low[:50, None] - low[None, 50:100], axis=2)
    found = np.linalg.norm(embedded[:50, None] - embedded[None, 50:100], axis=2)
    assert np.corrcoef(true.ravel(), found.ravel())[0, 1] > 0.9999


def test_no_rows_give_no_votes() -> None:
    assert votes(np.zeros((0, 2)), np.zeros(0, np.int64), np.zeros((4, 2)), np.zeros(0, dtype=bool), 3).sum() == 0
