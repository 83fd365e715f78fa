"""What private quantiles count over rows: kinds, numbers in decades and on finer grids, and words.

Each is one round of counts of all columns, released together; counts are whole numbers, so their sums are exact.

What noisy counts on a grid say of a column: its span, its empty ends, and how many rows each cell holds.

All of it is a function of what was released, so it costs nothing. Where noise drowns the counts, rows are taken to lie
evenly between the bounds: a bound that is too wide loses little, one that cuts off half of the rows much.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from privaware.data import Data, Sum, kind_counts, uncoded_column
from privaware.noise import LATTICE, Rng
from privaware.preprocessing._grids import cells, equal_bins, grid_between
from privaware.preprocessing._ranges.open_columns import NONE, SLOTS, on_line, worded
from privaware.schema import Column

__all__ = ["TARGET_WEIGHT", "FinerCounts", "Grids", "KindCounts", "LocatedCounts", "Span", "word_threshold"]

Span = tuple[float, float]

STANDS_OUT = 4.0
"""Deviations of noise above which any cell is taken to hold rows."""

INSIDE = 3.0
"""Deviations of noise above which a cell is taken to hold rows if one farther from zero does."""

BEYOND = 2.0
"""Deviations of noise above which the next cell away from zero is added to a span."""

TOWARDS_ZERO = 1.0
"""Deviations of noise above which the next cell towards zero is added to a span."""

NOTHING_THERE = 2.0
"""Deviations of noise below which the rows at an end are taken for none."""

TAIL = 0.005
"""Share of rows that may be cut off at either end, beside the rows that noise may hide."""

MOST_CUT = 0.05
"""Largest share of rows that may be cut off at either end, with the rows that noise may hide."""

MOST_CUT_OF_TARGET = 0.01
"""Value of `MOST_CUT` for a target, whose mean should change little."""

DECADES = 10.0 ** (np.arange(-12, 25) / 2)
"""Edges of the first grid on the positive side, from a millionth to a million millions; what is smaller is zero."""

FARTHEST = 1e13
"""Where the outermost cells end."""


def span(counts: np.ndarray, edges: np.ndarray, scale: float) -> Span:
    """The bounds of the cells that stand out of the noise and of their neighbours; of the likeliest one without any.

    Decades far from 1 are less likely a priori.
    """
    limits = np.concatenate([[-FARTHEST], edges, [FARTHEST]])
    distances = np.maximum(np.abs(limits[:-1]), np.abs(limits[1:]))
    outstanding = np.flatnonzero(counts > STANDS_OUT * scale)
    if not len(outstanding):
        outstanding = np.array([int(np.argmax(counts / scale - math.log(2) * np.abs(np.log10(distances))))])
    farthest = distances[outstanding].max()
    inside = np.flatnonzero((counts > INSIDE * scale) & (distances <= farthest))
    real = np.union1d(outstanding, inside)
    first = _grown(counts / scale, distances, int(real[0]), -1)
    last = _grown(counts / scale, distances, int(real[-1]), 1)
    low, high = float(limits[first]), float(limits[last + 1])
    least = float(DECADES[0])
    return 0.0 if abs(low) <= least else low, (least if low >= -least else 0.0) if abs(high) <= least else high


def _grown(deviations: np.ndarray, distances: np.ndarray, at: int, step: int) -> int:
    """The last cell, from one on in a direction, before one that holds nothing."""
    while 0 <= at + step < len(deviations):
        threshold = BEYOND if distances[at + step] > distances[at] else TOWARDS_ZERO
        if deviations[at + step] <= threshold:
            break
        at += step
    return at


def shrunken(counts: np.ndarray, scale: float, rows: int) -> tuple[np.ndarray, float]:
    """Counts moved towards equal ones as far as noise explains that they differ, and what is left of a difference.

    >>> shrunken(np.array([40.0, 60.0]), scale=0.0, rows=100)
    (array([40., 60.]), 1.0)
    >>> shrunken(np.array([40.0, 60.0]), scale=20.0, rows=100)
    (array([50., 50.]), 0.0)
    """
    mean = float(np.clip(counts.sum(), rows / 2, rows)) / len(counts)
    differences = counts - counts.mean()
    kept = max(0.0, 1 - (len(counts) - 1) * scale**2 / max(float(differences @ differences), 1e-12))
    return mean + kept * differences, kept


def empty_cells(counts: np.ndarray, scale: float, rows: int, most: float = MOST_CUT) -> int:
    """How many cells from the first one on hold together no more rows than a tail and what noise may hide.

    `most` is the largest share of rows that they may hold.
    """
    likely, kept = shrunken(counts, scale, rows)
    hidden = NOTHING_THERE * kept * scale * np.sqrt(np.arange(1, len(counts) + 1))
    full = np.flatnonzero(np.cumsum(likely) > np.minimum(TAIL * rows + hidden, most * rows))
    return int(full[0]) if len(full) else 0


Places = tuple[tuple[int, Column], ...]
"""Columns and where they stand among those that are declared."""

TARGET_WEIGHT = 2.0
"""The weight of the counts of a regression target: what its bounds cut off is lost to every model."""


@dataclass(frozen=True, kw_only=True)
class KindCounts(Sum[Data, np.ndarray, dict[str, np.ndarray]]):
    """How many values of each undecided column are of each kind."""

    places: Places
    sensitivity: float

    def partial(self, part: Data) -> np.ndarray:
        return np.stack([kind_counts(uncoded_column(part.x, at)) for at, _ in self.places])

    def merge(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return left + right

    def release(self, total: np.ndarray, noise: float, rng: Rng) -> dict[str, np.ndarray]:
        noisy = rng.gaussian(total, noise=noise, sensitivity=self.sensitivity)
        return {column.name: counts for (_, column), counts in zip(self.places, np.asarray(noisy), strict=True)}


@dataclass(frozen=True, kw_only=True)
class Grids:
    """The columns of numbers (and the target, named "", if it is counted), and how far one row moves a round.

    Counts of the target are multiplied by its weight before noise is added, and divided by it afterwards.
    """

    numbers: Places
    target: bool
    sensitivity: float

    @property
    def names(self) -> list[str]:
        return [column.name for _, column in self.numbers] + [""] * self.target

    @property
    def weights(self) -> list[float]:
        """What the counts of each of `names` are multiplied by."""
        return [1.0] * len(self.numbers) + [TARGET_WEIGHT] * self.target

    def counts(self, part: Data, edges: list[np.ndarray]) -> list[np.ndarray]:
        """How many numbers of each column lie in each cell of its grid, the outermost cells being open."""
        values = [on_line(uncoded_column(part.x, at), column) for at, column in self.numbers]
        values += [part.y.astype(float)] * self.target
        return [cells(each, grid) for each, grid in zip(values, edges, strict=True)]

    def noisy(self, exact_parts: list[np.ndarray], noise: float, rng: Rng) -> list[np.ndarray]:
        """All counts of a round in one release; an empty round still has one."""
        weights = [*self.weights, *[1.0] * (len(exact_parts) - len(self.weights))]
        exact_parts = [part * weight for weight, part in zip(weights, exact_parts, strict=True)]
        exact = np.concatenate(exact_parts) if exact_parts else np.zeros(1)
        noisy = rng.gaussian(exact, noise=noise, sensitivity=self.sensitivity)
        parts = np.split(noisy, np.cumsum([len(part) for part in exact_parts])[:-1]) if exact_parts else []
        return [part / weight for weight, part in zip(weights, parts, strict=True)]


def word_threshold(*, rows: int, scale: float, chance: float) -> float:
    """The noisy count above which a word is released.

    Parameters
    ----------
    rows : int
        The rows that one unit adds or removes: a word that one unit alone has is counted up to `rows` times, and the
        unit has up to `rows` such words.
    scale : float
        The standard deviation of the noise of a count.
    chance : float
        The largest chance that any word passes which one unit alone has.

    Returns
    -------
    float
        The threshold. Each of the unit's words passes it with a chance of at most `chance / rows`.

    >>> [round(word_threshold(rows=rows, scale=1.0, chance=1e-7), 2) for rows in (1, 20)]
    [6.2, 25.73]
    """
    # The last term is for the rounding of released values to a lattice.
    return rows + scale * (LATTICE - NormalDist().inv_cdf(chance / rows))


@dataclass(frozen=True, kw_only=True)
class Located:
    """The decades of each column of numbers, and the common words of each other one with the sum of their counts."""

    spans: dict[str, Span]
    common: dict[str, tuple[tuple[str, ...], float]]


@dataclass(frozen=True, kw_only=True)
class LocatedCounts(Sum[Data, tuple[list[np.ndarray], list[Counter[str]]], Located]):
    """Numbers in half decades of either sign, and how often each word occurs.

    Noise is independent for each word and the words come out as a set, so it does not matter which entry of the
    vector a word has. Sorted from large to small and padded with zeros, the vector has the same length whatever
    the words are, and one more row moves one entry by one. A word that only one unit of up to `unit_rows` rows has is
    released with a chance of at most `delta`, over all columns.
    """

    grids: Grids
    words: Places
    delta: float
    unit_rows: int

    @property
    def edges(self) -> np.ndarray:
        return np.concatenate([-DECADES[::-1], DECADES])

    def partial(self, part: Data) -> tuple[list[np.ndarray], list[Counter[str]]]:
        counts = self.grids.counts(part, [self.edges] * len(self.grids.names))
        return counts, [worded(uncoded_column(part.x, at)) for at, _ in self.words]

    def merge(
        self, left: tuple[list[np.ndarray], list[Counter[str]]], right: tuple[list[np.ndarray], list[Counter[str]]]
    ) -> tuple[list[np.ndarray], list[Counter[str]]]:
        for words, more in zip(left[1], right[1], strict=True):
            words.update(more)
        return [one + other for one, other in zip(left[0], right[0], strict=True)], left[1]

    def release(self, total: tuple[list[np.ndarray], list[Counter[str]]], noise: float, rng: Rng) -> Located:
        exact_parts, counters = list(total[0]), total[1]
        ranked = [sorted(counts, key=lambda word: (-counts[word], word)) for counts in counters]
        for words, counts in zip(ranked, counters, strict=True):
            exact_counts = np.zeros(max(SLOTS, len(words)))
            exact_counts[: len(words)] = [counts[word] for word in words]
            exact_parts.append(exact_counts)
        noisy, scale = self.grids.noisy(exact_parts, noise, rng), noise * self.grids.sensitivity
        spans = {
            name: span(part, self.edges, scale / weight)
            for name, weight, part in zip(self.grids.names, self.grids.weights, noisy, strict=False)
        }
        threshold = word_threshold(rows=self.unit_rows, scale=scale, chance=self.delta / max(len(ranked), 1))
        common = {}
        for (_, column), words, part in zip(self.words, ranked, noisy[len(spans) :], strict=True):
            above = part[: len(words)] > threshold
            passed = tuple(sorted(word for word, passes in zip(words, above, strict=True) if passes))
            common[column.name] = (passed or NONE, float(part[: len(words)][above].sum()))
        return Located(spans=spans, common=common)


@dataclass(frozen=True, kw_only=True)
class FinerCounts(Sum[Data, list[np.ndarray], tuple[dict[str, Span], dict[str, tuple[float, ...]]]]):
    """Numbers on finer grids: spans without the ends that hold next to nothing, and bins."""

    grids: Grids
    spans: dict[str, Span]
    rows: int
    bins: int

    @cached_property
    def edges(self) -> list[np.ndarray]:
        return [grid_between(*self.spans[name]) for name in self.grids.names]

    def partial(self, part: Data) -> list[np.ndarray]:
        return [counts[1:-1] for counts in self.grids.counts(part, self.edges)]

    def merge(self, left: list[np.ndarray], right: list[np.ndarray]) -> list[np.ndarray]:
        return [one + other for one, other in zip(left, right, strict=True)]

    def release(
        self, total: list[np.ndarray], noise: float, rng: Rng
    ) -> tuple[dict[str, Span], dict[str, tuple[float, ...]]]:
        closer, edges = dict(self.spans), {}
        noisy = self.grids.noisy(total, noise, rng)
        columns = zip(self.grids.names, self.grids.weights, self.edges, noisy, strict=False)
        for name, weight, grid, part in columns:
            scale = noise * self.grids.sensitivity / weight
            most = MOST_CUT if weight == 1 else MOST_CUT_OF_TARGET
            first = empty_cells(part, scale, self.rows, most)
            last = len(part) - empty_cells(part[::-1], scale, self.rows, most)
            if first < last:
                closer[name] = (float(grid[first]), min(float(grid[last]), self.spans[name][1]))
            edges[name] = equal_bins(shrunken(part, scale, self.rows)[0], grid, self.bins)
        return closer, edges
