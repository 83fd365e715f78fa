"""DPGEN's randomised response: each row answers with itself or with another row of its candidate set.

This is what has no guarantee: the answers are rows. A row that is not there can be no answer, one that is there is its
own answer with the keep probability, so no finite epsilon bounds the ratio of the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privaware.noise import Rng

__all__ = ["Pairs", "response_pairs"]

PLAUSIBLE = 5.0
"""A pair further apart than so many deviations of its noise gets a larger noise level."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """Rows with noise, the position of the row that each is told to move to, and their noise levels."""

    noisy: np.ndarray
    answer: np.ndarray
    level: np.ndarray


def response_pairs(
    rows: np.ndarray, levels: np.ndarray, *, epsilon: float, candidates: int, pairs: int, rng: Rng
) -> Pairs:
    """`pairs` of a noisy row and the answer of its randomised response; none of no rows.

    `levels` fall. Rows are shuffled and cut into candidate sets, again and again until there are enough pairs.
    """
    position, answer = np.zeros(0, np.int64), np.zeros(0, np.int64)
    while len(rows) and len(position) < pairs:
        order = np.arange(len(rows))
        rng.shuffle(order)
        for start in range(0, len(order), candidates):
            members = order[start : start + candidates]
            own = np.arange(len(members))
            response = rng.respond(own, epsilon=epsilon, classes=len(own)) if len(own) > 1 else own
            position, answer = np.append(position, members), np.append(answer, members[response])
    position, answer = position[:pairs], answer[:pairs]
    number = rng.initial.integers(len(levels), size=len(position))
    noise = rng.initial.standard_normal((len(position), *rows.shape[1:]), dtype=np.float32)
    noisy = rows[position] + levels[number].reshape(-1, *[1] * (rows.ndim - 1)) * noise
    apart = np.abs(noisy - rows[answer]).max(axis=tuple(range(1, rows.ndim)), initial=0.0)
    number = np.minimum(number, plausible_level(apart, levels))
    return Pairs(noisy=noisy.astype(np.float32), answer=answer, level=levels[number])


def plausible_level(apart: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The number of the smallest noise level from which a distance is plausible, or 0, the largest.

    >>> plausible_level(np.array([0.0, 4.9, 5.1, 99.0]), np.array([10.0, 1.0, 0.1])).tolist()
    [2, 1, 0, 0]
    """
    enough = levels >= apart[:, None] / PLAUSIBLE
    return np.maximum(enough.sum(axis=1) - 1, 0)
