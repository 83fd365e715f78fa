"""Weights for the feature blocks of a row, such as the features of several networks.

A block that separates the classes better gets a larger weight.

Clipping bounds the total gradient norm, so an uninformative feature block takes signal away from the other blocks.
1. In the first steps all blocks have the same norm.
2. For each row and block, the margin is the output of the row's class minus the mean output of all classes, at the
   released weights. Noisy sums of these margins are released.
3. In the later steps each block has a norm that grows with its noisy margin.

Each block needs only one noisy number, the sum of its margins. The norm of a block's released weights would be a worse
measure, because it contains noise that grows with the number of columns of the block.

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

from privaware.exact_sums import Lattice
from privaware.learners._centring import write_affine

FIRST_STEPS_FRACTION = 0.15
"""Fraction of the steps in which all blocks have the same norm."""
MARGIN_CLIP = 5.0
"""Margins are clipped at this many standard deviations of the margin under random weights of the same size."""
MARGIN_POWER = 1.5
"""Exponent of the margin in the weight of a block."""
ADDED_DEVIATIONS = 1.0
"""Number of standard deviations of the noise that are added to every margin."""
MIN_SQUARED_NORM_LEFT = 0.1
"""Lower bound on the fraction of a block's squared norm that remains after the mean is subtracted."""

Parts = Sequence[tuple[int, float]]
"""The number of columns and the norm of each feature block of a row, in their order."""


def part_lengths(parts: Parts, mean: np.ndarray, scale: float) -> np.ndarray:
    """Estimate the norm of each block of a row of norm 1 after it is replaced by `(row - mean) * scale`: (blocks,).

    `parts` has the number of columns and the relative norm of each block, and `mean` (columns,) is for the whole row.
    With `square` the fraction of a block in the squared norm of a row, the estimate is
    `scale * sqrt(max(square - |mean of the block|**2, MIN_SQUARED_NORM_LEFT * square))`.
    """
    squares = np.array([length for _, length in parts]) ** 2
    squares /= squares.sum()
    ends = np.cumsum([columns for columns, _ in parts])[:-1]
    gone = np.array([part @ part for part in np.split(mean, ends)])
    return np.asarray(scale * np.sqrt(np.maximum(squares - gone, MIN_SQUARED_NORM_LEFT * squares)))


def part_weights(noisy_margins: np.ndarray, parts: Parts, deviation: float) -> np.ndarray:
    """Return a weight for each block (blocks,); together the weights have norm 1.

    A weight is proportional to `norm * margin**MARGIN_POWER`, where `norm` is the block's norm in `parts` and `margin`
    is `max(0, noisy_margin) + ADDED_DEVIATIONS * deviation`. `noisy_margins` (blocks,) are noisy sums of margins, and
    `deviation` is the standard deviation of their noise. When noise dominates all margins, the weights are about
    proportional to the norms in `parts`.
    """
    margins = np.maximum(noisy_margins, 0.0) + ADDED_DEVIATIONS * deviation
    weights = np.array([length for _, length in parts]) * (margins / margins.max()) ** MARGIN_POWER
    return np.asarray(weights / np.linalg.norm(weights))


def with_kept(weights: np.ndarray, parts: Parts) -> np.ndarray:
    """Return one weight for each block in `parts`.

    The first `len(weights)` blocks get `weights`, scaled to norm 1. Every later block gets its norm in `parts`. Such a
    block, for instance the other columns of a table with images, may separate the classes poorly alone and still
    improve predictions together with the other blocks.
    """
    kept = [length for _, length in parts[len(weights) :]]
    return np.concatenate([weights / np.linalg.norm(weights), kept])


def factors(weights: Sequence[float] | np.ndarray, parts: Parts, lengths: np.ndarray) -> np.ndarray:
    """Return a factor for each column (columns,) that gives the blocks of a row norms proportional to `weights`.

    `parts` has the number of columns of each block, and `lengths` (blocks,) the norm of each block before. After
    multiplication all blocks together have norm 1. The columns of a block of norm 0 get the factor 0.
    """
    wanted = np.array(weights) / np.linalg.norm(weights)
    by_part = np.divide(wanted, lengths, out=np.zeros(len(parts)), where=lengths > 0)
    return np.repeat(by_part, [columns for columns, _ in parts])


def weigh(rows: Any, by_column: np.ndarray, lattice: Lattice) -> Any:
    """Return a copy of `rows` with columns multiplied by `by_column` (columns,), each row then clipped to norm 1.

    `rows` is an array or a tensor. Entries are rounded to multiples of `lattice.step`. Each new row is a function of
    its own row alone.
    """
    weighed = np.empty_like(rows) if isinstance(rows, np.ndarray) else rows.new_empty(rows.shape)
    write_affine(weighed, rows, np.zeros(len(by_column)), by_column, lattice)
    return weighed
