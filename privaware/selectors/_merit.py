"""The merit of sets of columns: correlated with the target, not with each other. All of it is post-processing."""

from __future__ import annotations

import numpy as np


def merits(masks: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """k r / sqrt(k + k (k - 1) f) for each mask (sets, columns): r is the mean uncertainty shared with the
    target and f the mean over pairs; the empty set has merit 0.

    >>> two = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])  # a column and its copy
    >>> merits(np.array([[True, False], [True, True]]), two).tolist()
    [0.5, 0.5]
    """
    inside = masks.astype(float)
    related = inside @ shared[:-1, -1]
    among = shared[:-1, :-1] * (1 - np.eye(len(shared) - 1))
    twice = ((inside @ among) * inside).sum(axis=1)  # every pair counted in both orders
    return np.asarray(related / np.sqrt(np.maximum(inside.sum(axis=1) + twice, 1e-300)))


def best_first(shared: np.ndarray) -> tuple[list[int], list[float]]:
    """Columns in the order in which the best next one is added, and the merit after each."""
    related, among = shared[:-1, -1], shared[:-1, :-1]
    left, order, gained = np.ones(len(related), dtype=bool), [], []
    sums, pairs, overlap = 0.0, 0.0, np.zeros(len(related))
    for size in range(1, len(related) + 1):
        merit = (sums + related) / np.sqrt(size + 2 * (pairs + overlap))
        at = int(np.argmax(np.where(left, merit, -1.0)))
        order.append(at)
        gained.append(float(merit[at]))
        sums, pairs, overlap = sums + related[at], pairs + overlap[at], overlap + among[at]
        left[at] = False
    return order, gained
