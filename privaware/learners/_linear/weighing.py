"""Parts of a row, such as features of several networks, weighed by how far each tells classes apart.

A clipped gradient has a length to spend, and what it spends on a part that tells little is lost to the others. So the
first steps see parts of one length; then each row says, for each part, by how much the released weights put its class
above the mean of the classes, and noisy sums of these margins weigh the parts that the other steps see. A margin is
taken from noisy weights, so the noise of the sum grows with the signal and not with the columns, as that of the
weights' own length would.

>>> import numpy as np
>>> parts = ((2, 1.0), (1, 1.0))
>>> even = part_lengths(parts, np.zeros(3), 1.0)
>>> factors([1.0, 0.0], parts, even).round(3)
array([1.414, 1.414, 0.   ])
>>> part_weights(np.array([30.0, 10.0]), parts, deviation=0.1).round(2)
array([0.98, 0.19])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from privaware.exact_sums import Lattice, clip_rows

__all__ = ["FIRST", "REACH", "Parts", "factors", "part_lengths", "part_weights", "weigh"]

FIRST = 0.15
"""The part of the steps that see parts of one length."""
REACH = 5.0
"""Margins are clipped at so many deviations of what a weight of the average size adds to them."""
POWER = 1.5
"""The power of a margin in its part's weight."""
DOUBT = 1.0
"""Deviations of the noise that are added to every margin."""
LEAST = 0.1
"""The least part of its squared length that a part is taken to have about the mean."""
ROWS_AT_ONCE = 4096
"""Rows that are weighed at once."""

Parts = Sequence[tuple[int, float]]
"""Columns and length of each part of a row, in their order."""


def part_lengths(parts: Parts, mean: np.ndarray, scale: float) -> np.ndarray:
    """The length of each part of a row about a released mean, times the scale; the row had length 1."""
    squares = np.array([length for _, length in parts]) ** 2
    squares /= squares.sum()
    ends = np.cumsum([columns for columns, _ in parts])[:-1]
    gone = np.array([part @ part for part in np.split(mean, ends)])
    return np.asarray(scale * np.sqrt(np.maximum(squares - gone, LEAST * squares)))


def part_weights(noisy_margins: np.ndarray, parts: Parts, deviation: float) -> np.ndarray:
    """A weight for each part, which grows with its margin and with the length it was given; length 1 together.

    Margins that are lost in noise of this deviation leave parts the lengths that they were given.
    """
    margins = np.maximum(noisy_margins, 0.0) + DOUBT * deviation
    weights = np.array([length for _, length in parts]) * (margins / margins.max()) ** POWER
    return np.asarray(weights / np.linalg.norm(weights))


def factors(weights: Sequence[float] | np.ndarray, parts: Parts, lengths: np.ndarray) -> np.ndarray:
    """What each column is multiplied by, so that parts of these lengths have the weights, and the row length 1."""
    by_part = np.array(weights) / np.linalg.norm(weights) / lengths
    return np.repeat(by_part, [columns for columns, _ in parts])


def weigh(rows: Any, by_column: np.ndarray, lattice: Lattice) -> Any:
    """Rows with their columns multiplied, clipped to norm 1 on the lattice: each a function of itself."""
    weighed = np.empty_like(rows) if isinstance(rows, np.ndarray) else rows.new_empty(rows.shape)
    for at in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[at : at + ROWS_AT_ONCE]
        by: Any = by_column if isinstance(part, np.ndarray) else part.new_empty(0).double().new_tensor(by_column)
        wide = part.astype(np.float64) if isinstance(part, np.ndarray) else part.double()
        weighed[at : at + ROWS_AT_ONCE] = clip_rows(wide * by, 1.0, lattice, np.float32)
    return weighed
