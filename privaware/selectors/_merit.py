"""The merit of a set of columns: high if its columns depend on the target but not on each other.

It is computed from released numbers, so it is post-processing.
"""

from __future__ import annotations

import numpy as np


def merits(masks: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """Return k r / sqrt(k + k (k - 1) f) for each set in `masks` (sets, columns).

    k is the number of columns in the set, r the mean symmetrical uncertainty of its columns with the target, and f the
    mean symmetrical uncertainty of pairs of its columns. `shared` holds the symmetrical uncertainties of all pairs, the
    target last. The empty set has merit 0.

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
    """Return the indices of all columns in the order in which a greedy search adds them, and the merit after each.

    `shared` holds the symmetrical uncertainties of all pairs, the target last.
    """
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
