"""Private bounds of a target alone, from one noisy histogram on a public grid.

The target of a regression is counted between 1, 2 and 5 times every power of ten, of either sign. The bounds start at
the most frequent cell and grow to either side while the counts that they take in outweigh the wider range: counts are
compared with their noise, and a range twice as wide doubles the noise of a mean.

Paper: Smith 2011, Privacy-Preserving Statistical Estimation with Optimal Convergence Rates, for a histogram that finds
where a private mean is clipped; the rule by which the bounds grow is this package's.
Privacy: epsilon-DP for one row added or removed, which changes one count by 1. Missing values and NaN are not counted.
Use when: only the target has undeclared bounds, and the following mechanism is not Gaussian: the private mean or
median.

>>> from privaware.schema import Schema
>>> data = Data(schema=Schema(rows=900), x=np.zeros((900, 0)), y=np.linspace(25, 90, 900))
>>> released = TargetHistogramRange().run(data, noise=2.0, rng=Rng(seed=1))
>>> released.low, released.high
(0.0, 100.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from privaware.data import Data, Rows, Sum, release
from privaware.events import NOTHING, Event, Laplace
from privaware.noise import Rng
from privaware.preprocessing import Transformation
from privaware.preprocessing._ranges.column_counts import cells
from privaware.preprocessing._ranges.open_columns import open_target, released
from privaware.schema import Schema

SIZES = np.array([float(f"{digit}e{power}") for power in range(-6, 12) for digit in (1, 2, 5)])
"""Positive edges of the grid: 1, 2 and 5 times every power of ten from 1e-6 to 1e11."""
EDGES = np.concatenate([-SIZES[::-1], [0.0], SIZES])
"""Edges from -5e11 to 5e11; values farther out count in the outermost cells."""
WINDOW = 3
"""Number of neighbouring cells, about one power of ten, whose sum is compared to find where most targets are."""
MIN_CELL_COUNT = 0.75
"""Noisy count that a cell must exceed to improve a span, in units of the noise scale."""

COUNT_PER_DECADE = 6.0
"""Noisy count that a span ten times as wide must add, in units of the noise scale; neighbours with more stand out."""


@dataclass(frozen=True, kw_only=True)
class TargetHistogramRange(Transformation):
    """A transformation that releases bounds of the target from one noisy histogram; it has no settings."""

    releases: ClassVar[Literal["schema"]] = "schema"
    in_parts: ClassVar[bool] = True

    def cost(self, schema: Schema, noise: float) -> Event:
        return Laplace(noise=noise) if open_target(schema) else NOTHING

    def outline(self, schema: Schema) -> Schema:
        """Return the schema as it will be after the release, with 0 and 1 as target bounds that are not known yet.

        Declared bounds stay. It is used to compute the cost of later mechanisms before a row is read.
        """
        return released(schema, schema.columns, (0.0, 1.0))

    def run(self, data: Rows, noise: float, rng: Rng) -> Schema:
        """Return the schema with bounds of the target; unchanged if it has bounds or classes.

        `noise` is the scale of the Laplace noise of each count.
        """
        schema = data.schema
        if not open_target(schema):
            return schema
        return released(schema, schema.columns, release(TargetCounts(), data.parts, noise, rng))


@dataclass(frozen=True, kw_only=True)
class TargetCounts(Sum[Data, np.ndarray, tuple[float, float]]):
    """The number of targets in each cell between neighbouring `EDGES`.

    The outermost cells also count values farther out. The release is (lower bound, upper bound), which `span` reads
    from the counts with Laplace noise.
    """

    def partial(self, part: Data) -> np.ndarray:
        targets = part.y.astype(float)
        return cells(np.clip(targets, EDGES[0], np.nextafter(EDGES[-1], 0)), EDGES)[1:-1]

    def release(self, total: np.ndarray, noise: float, rng: Rng) -> tuple[float, float]:
        return span(np.asarray(rng.laplace(total, noise=noise, sensitivity=1.0)) / noise)


def span(counts: np.ndarray) -> tuple[float, float]:
    """Return the bounds around the most frequent cell that maximise the sum of counts minus a penalty for width.

    `counts` are in units of their noise scale. Each cell costs `MIN_CELL_COUNT`, each power of ten of width
    `COUNT_PER_DECADE`. In the search for the most frequent cell, cells far from 1 are less likely a priori. The two
    cells next to 0 are only searched if no other cell stands out: where most targets are 0, the others set the mean.

    >>> counts = np.zeros(len(EDGES) - 1)
    >>> counts[[80, 81, 82]] = 40.0, 100.0, 3.0
    >>> span(counts) == (EDGES[80], EDGES[83])
    True
    """
    powers = np.abs(np.log10(np.maximum(np.abs(EDGES[:-1]), np.abs(EDGES[1:]))))
    others = np.where(np.minimum(np.abs(EDGES[:-1]), np.abs(EDGES[1:])) > 0, counts, 0.0)
    for found in (others, counts):
        windows = np.convolve(found, np.ones(WINDOW), "same") / math.sqrt(WINDOW) - math.log(2) * powers
        if windows.max() > COUNT_PER_DECADE:
            break
    centre = int(np.argmax(windows))
    first = max(centre - WINDOW // 2, 0)
    top = first + int(np.argmax(found[first : centre + WINDOW // 2 + 1]))
    sums = np.concatenate([[0.0], np.cumsum(np.maximum(counts, 0.0) - MIN_CELL_COUNT)])
    low, high = np.arange(top + 1)[:, None], np.arange(top + 1, len(EDGES))[None, :]
    worth = sums[high] - sums[low] - COUNT_PER_DECADE * np.log10(EDGES[high] - EDGES[low])
    best_low, best_high = np.unravel_index(int(np.argmax(worth)), worth.shape)
    return float(EDGES[best_low]), float(EDGES[top + 1 + best_high])
