"""Counts of values in each column, and the ranges that are computed from these counts with noise.

Kinds of values, numbers in half decades and on finer public grids, and words are counted, in rounds. One round counts
all columns and is one release. Counts are integers, so their sums are exact.

The range of a column, its empty ends, and the number of rows in each cell are computed from released counts, at no
privacy cost. Where noise dominates the counts, rows are assumed to lie evenly between the bounds: a bound that is too
wide loses little, a bound that cuts off half of the rows loses much.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from privaware.data import FARTHEST, Data, Edges, Sum, kind_counts, uncoded_column
from privaware.noise import LATTICE, Rng
from privaware.preprocessing._ranges.open_columns import NONE, on_line, ranked_counts, worded
from privaware.schema import Column

Span = tuple[float, float]
"""A lower and an upper bound."""

OUTSTANDING_DEVIATIONS = 4.0
"""A cell whose count exceeds this many standard deviations of noise holds rows."""

FAR_DEVIATIONS = 5.5
"""A far cell holds rows if its count exceeds this many standard deviations of noise.

A cell is far if it reaches `FAR_FACTOR` times as far from zero as the fullest cell. A column has 75 cells, and noise
alone exceeds 4 deviations in one of 30,000 cells; a range that is wider by such a cell makes its column useless.
"""

FAR_FACTOR = 100.0
"""How many times as far from zero as the fullest cell a cell counts as far."""

INSIDE_DEVIATIONS = 3.0
"""The threshold instead of `OUTSTANDING_DEVIATIONS` for a cell no farther from zero than a cell that exceeds that."""

OUTWARD_DEVIATIONS = 2.0
"""A range grows by the next cell away from zero if its count exceeds this many standard deviations of noise."""

INWARD_DEVIATIONS = 1.0
"""A range grows by the next cell towards zero if its count exceeds this many standard deviations of noise."""

HIDDEN_DEVIATIONS = 2.0
"""Number of rows that noise may hide at an end of a range, in standard deviations of the noise of its count."""

TAIL_FRACTION = 0.005
"""Fraction of rows that may be cut off at either end of a range, in addition to the rows that noise may hide."""

MAX_CUT_FRACTION = 0.05
"""Largest fraction of rows that may be cut off at either end of a range, including the rows that noise may hide."""

MAX_TARGET_CUT_FRACTION = 0.01
"""`MAX_CUT_FRACTION` for a target, whose mean should change little."""

DECADES = 10.0 ** (np.arange(-12, 25) / 2)
"""Positive edges of the first grid, from 1e-6 to 1e12 in half decades; smaller absolute values count as zero."""

DECADE_EDGES = np.concatenate([-DECADES[::-1], DECADES])
"""The edges of the first grid, of either sign."""

EQUAL_CELLS = 16
"""Number of equal cells of the grid between two bounds; cells near zero are divided further."""


def cells(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return how many `values` lie below the first edge, between neighbouring edges, and above the last edge.

    A value equal to an edge counts in the cell above the edge. Values that are not finite are not counted. The result
    has `len(edges) + 1` floats, one for each cell.
    """
    known = np.isfinite(values)
    positions = Edges(edges).position(values if known.all() else values[known])
    return np.bincount(positions, minlength=len(edges) + 1).astype(float)


def grid_between(low: float, high: float) -> np.ndarray:
    """Return the ascending edges of the cells of a grid between `low` and `high`.

    The edges are the union of two sets. The first set cuts the range into `EQUAL_CELLS` cells of equal width. The edges
    of the second set are closer together near an anchor: zero or, if zero is outside the range, the bound nearest to
    zero. Their distances from the anchor grow geometrically, from 0.001 of the range to less than half of it. The last
    edge is the next float above `high`, so a value equal to `high` lies in the last cell.
    """
    anchor, reach = min(max(0.0, low), high), high - low
    sizes = reach * np.geomspace(1e-3, 0.5, EQUAL_CELLS // 2)[:-1]
    edges = np.concatenate([np.linspace(low, high, EQUAL_CELLS + 1), anchor + sizes, anchor - sizes])
    inside = np.unique(edges[(edges >= low) & (edges < high)])
    return np.append(inside, np.nextafter(high, np.inf))


def equal_bins(counts: np.ndarray, grid: np.ndarray, bins: int) -> tuple[float, ...]:
    """Return the inner edges of at most `bins` bins with about equal numbers of rows.

    `counts` are the (noisy) numbers of rows in the cells between the edges `grid`; bin edges are among `grid`. There
    are no edges if `bins` is below 2.
    """
    if bins < 2:
        return ()
    so_far = np.cumsum(counts)
    rising = (np.maximum.accumulate(so_far) + np.minimum.accumulate(so_far[::-1])[::-1]) / 2
    shares = rising / max(float(rising[-1]), 1.0)
    nearest = {int(np.argmin(np.abs(shares - part / bins))) + 1 for part in range(1, bins)}
    return tuple(float(grid[at]) for at in sorted(nearest) if at < len(grid) - 1)


def span(counts: np.ndarray, edges: np.ndarray, scale: float, *, target: bool = False) -> Span:
    """Return the bounds of the cells that stand out of the noise, extended to neighbours that hold rows.

    `counts` are the noisy counts below, between and above the `edges`; the outermost cells end at `FARTHEST`.
    `scale` is the standard deviation of the noise of a count. A cell stands out if its count exceeds 4 standard
    deviations, or 5.5 if it reaches over 100 times as far from zero as the fullest cell; 3 are enough for a cell that
    is no farther from zero than such a cell. If no cell stands out, the bounds are the ends of the likeliest cell,
    where decades far from 1 are less likely a priori. If only the zeros of a regression `target` stand out, the bounds
    take in the likeliest other cell, because the other values set the mean; a column then tells zero from other values.
    A bound of absolute value at most 1e-6 (`DECADES[0]`) becomes 0, except that the upper bound becomes 1e-6 if the
    lower bound becomes 0.
    """
    limits = np.concatenate([[-FARTHEST], edges, [FARTHEST]])
    distances = np.maximum(np.abs(limits[:-1]), np.abs(limits[1:]))
    nonzero = distances > DECADES[0]  # zero is a cell of its own
    fullest = np.argmax(np.where(nonzero, counts, -np.inf))
    far = distances > FAR_FACTOR * distances[fullest]
    outstanding = np.flatnonzero(counts > np.where(far, FAR_DEVIATIONS, OUTSTANDING_DEVIATIONS) * scale)
    likely = counts / scale - math.log(2) * np.abs(np.log10(distances))
    if not len(outstanding):
        outstanding = np.array([int(np.argmax(likely))])
    if target and not nonzero[outstanding].any():
        outstanding = np.append(outstanding, int(np.argmax(np.where(nonzero, likely, -np.inf))))
    farthest = distances[outstanding].max()
    inside = np.flatnonzero((counts > INSIDE_DEVIATIONS * scale) & (distances <= farthest))
    real = np.union1d(outstanding, inside)
    first = _grown(counts / scale, distances, int(real[0]), -1)
    last = _grown(counts / scale, distances, int(real[-1]), 1)
    low, high = float(limits[first]), float(limits[last + 1])
    least = float(DECADES[0])
    return 0.0 if abs(low) <= least else low, (least if low >= -least else 0.0) if abs(high) <= least else high


def _grown(deviations: np.ndarray, distances: np.ndarray, at: int, step: int) -> int:
    """Return the last cell of a span that grows from cell `at` in the direction `step` (1 or -1) up to an empty cell.

    A cell counts as empty if its count is at most `OUTWARD_DEVIATIONS`, or `INWARD_DEVIATIONS` if it is no farther from
    zero than the cell before it. `deviations` are the noisy counts in standard deviations of their noise, and
    `distances` the largest absolute value of each cell.
    """
    while 0 <= at + step < len(deviations):
        threshold = OUTWARD_DEVIATIONS if distances[at + step] > distances[at] else INWARD_DEVIATIONS
        if deviations[at + step] <= threshold:
            break
        at += step
    return at


def shrunken(counts: np.ndarray, scale: float, rows: int) -> tuple[np.ndarray, float]:
    """Return the noisy `counts` shrunken towards their mean as far as noise explains their differences, and the factor.

    The factor on the differences is from 0 (only the mean remains) to 1. `scale` is the standard deviation of the noise
    of a count. The mean is the sum of `counts`, clipped to [rows / 2, rows], divided by their number.

    >>> shrunken(np.array([40.0, 60.0]), scale=0.0, rows=100)
    (array([40., 60.]), 1.0)
    >>> shrunken(np.array([40.0, 60.0]), scale=20.0, rows=100)
    (array([50., 50.]), 0.0)
    """
    mean = float(np.clip(counts.sum(), rows / 2, rows)) / len(counts)
    differences = counts - counts.mean()
    kept = max(0.0, 1 - (len(counts) - 1) * scale**2 / max(float(differences @ differences), 1e-12))
    return mean + kept * differences, kept


def empty_cells(counts: np.ndarray, scale: float, rows: int, most: float = MAX_CUT_FRACTION) -> int:
    """Return how many of the first cells may be cut off, by the noisy `counts` of all cells; 0 if these would be all.

    The cells that are cut off hold together at most `TAIL_FRACTION * rows` plus the rows that noise may hide
    (`HIDDEN_DEVIATIONS` standard deviations of the noise of their sum), and at most `most * rows`. `scale` is the
    standard deviation of the noise of a count.
    """
    likely, kept = shrunken(counts, scale, rows)
    hidden = HIDDEN_DEVIATIONS * kept * scale * np.sqrt(np.arange(1, len(counts) + 1))
    full = np.flatnonzero(np.cumsum(likely) > np.minimum(TAIL_FRACTION * rows + hidden, most * rows))
    return int(full[0]) if len(full) else 0


Places = tuple[tuple[int, Column], ...]
"""Columns, each with its position among the declared columns."""

WordCounts = dict[str, float]
"""The noisy count of each word of a column."""

TARGET_WEIGHT = 2.0
"""Factor on the counts of a regression target, because every model loses what the target's bounds cut off."""


@dataclass(frozen=True, kw_only=True)
class KindCounts(Sum[Data, np.ndarray, dict[str, np.ndarray]]):
    """The number of values of each kind (`COUNTED`) in each undecided column, as a matrix (columns, kinds).

    `places` are pairs of the position among the declared columns and the column, for the undecided columns.
    `sensitivity` is the L2 sensitivity of all counts. The release maps the name of a column to its noisy counts, in the
    order of `COUNTED`.
    """

    places: Places
    sensitivity: float

    def partial(self, part: Data) -> np.ndarray:
        return np.stack([kind_counts(uncoded_column(part.x, at)) for at, _ in self.places])

    def release(self, total: np.ndarray, noise: float, rng: Rng) -> dict[str, np.ndarray]:
        noisy = rng.gaussian(total, noise=noise, sensitivity=self.sensitivity)
        return {column.name: counts for (_, column), counts in zip(self.places, np.asarray(noisy), strict=True)}


@dataclass(frozen=True, kw_only=True)
class Grids:
    """The columns that a round counts on grids.

    `numbers` are the numeric and date columns with their positions. With `target` the target is counted too, under the
    name "". `sensitivity` is the L2 sensitivity of all counts of a round. Counts of the target are multiplied by
    `TARGET_WEIGHT` before noise is added, and divided by it afterwards.
    """

    numbers: Places
    target: bool
    sensitivity: float

    @property
    def names(self) -> list[str]:
        return [column.name for _, column in self.numbers] + [""] * self.target

    @property
    def weights(self) -> list[float]:
        """The factor on the counts of each of `names`."""
        return [1.0] * len(self.numbers) + [TARGET_WEIGHT] * self.target

    def counts(self, part: Data, edges: list[np.ndarray]) -> list[np.ndarray]:
        """Return, for each of `names`, the exact number of its values in each cell of its grid, for the rows `part`.

        The first and last cells have no outer edge. `edges` holds the inner edges of each grid, in the order of
        `names`.
        """
        values = [on_line(uncoded_column(part.x, at), column) for at, column in self.numbers]
        values += [part.y.astype(float)] * self.target
        return [cells(each, grid) for each, grid in zip(values, edges, strict=True)]

    def noisy(self, exact_parts: list[np.ndarray], noise: float, rng: Rng) -> list[np.ndarray]:
        """Return all counts of a round with noise, in one release; an empty round is one release too.

        `exact_parts` are the counts of each of `names`, then other counts, whose weight is 1.
        """
        weights = [*self.weights, *[1.0] * (len(exact_parts) - len(self.weights))]
        exact_parts = [part * weight for weight, part in zip(weights, exact_parts, strict=True)]
        exact = np.concatenate(exact_parts) if exact_parts else np.zeros(1)
        noisy = rng.gaussian(exact, noise=noise, sensitivity=self.sensitivity)
        parts = np.split(noisy, np.cumsum([len(part) for part in exact_parts])[:-1]) if exact_parts else []
        return [part / weight for weight, part in zip(weights, parts, strict=True)]


def word_threshold(*, rows: int, scale: float, chance: float) -> float:
    """Return the noisy count above which a word is released.

    Parameters
    ----------
    rows : int
        The number of rows of one unit (a row, or all rows of a person), which are added or removed together. A word
        that only this unit has is counted up to `rows` times, and the unit has up to `rows` such words.
    scale : float
        The standard deviation of the noise of a count.
    chance : float
        The largest probability that any word passes which only one unit has.

    Returns
    -------
    float
        The threshold. Each of the unit's words passes it with a probability of at most `chance / rows`.

    >>> [round(word_threshold(rows=rows, scale=1.0, chance=1e-7), 2) for rows in (1, 20)]
    [6.2, 25.73]
    """
    # LATTICE covers the rounding of released values to a lattice, also in the mean of up to three rounds.
    return rows + scale * (LATTICE - NormalDist().inv_cdf(chance / rows))


@dataclass(frozen=True, kw_only=True)
class RoundCounts(Sum[Data, tuple[list[np.ndarray], list[Counter[str]]], tuple[list[np.ndarray], list[WordCounts]]]):
    """The number of values of each column in the cells of a grid, and how often each word occurs in `words`.

    `grids` has the columns of numbers, and the sensitivity of all counts together; `edges` are the inner edges of the
    grid of each of its columns. With `closed`, values outside the edges are not counted. `words` are the columns of
    words. The result is the noisy counts of each grid, and the words of each column with their noisy counts
    (`WordCounts`). Words are private until `common_words` has applied its threshold. See `ranked_counts` for the
    vector of counts that gets noise.
    """

    grids: Grids
    edges: list[np.ndarray]
    closed: bool
    words: Places

    def partial(self, part: Data) -> tuple[list[np.ndarray], list[Counter[str]]]:
        counts = self.grids.counts(part, self.edges)
        inner = [each[1:-1] for each in counts] if self.closed else counts
        return inner, [worded(uncoded_column(part.x, at)) for at, _ in self.words]

    def merge(
        self, left: tuple[list[np.ndarray], list[Counter[str]]], right: tuple[list[np.ndarray], list[Counter[str]]]
    ) -> tuple[list[np.ndarray], list[Counter[str]]]:
        for words, more in zip(left[1], right[1], strict=True):
            words.update(more)  # the sum of two counters would drop a count of 0
        return [one + other for one, other in zip(left[0], right[0], strict=True)], left[1]

    def release(
        self, total: tuple[list[np.ndarray], list[Counter[str]]], noise: float, rng: Rng
    ) -> tuple[list[np.ndarray], list[WordCounts]]:
        ranked = [ranked_counts(counts) for counts in total[1]]
        noisy = self.grids.noisy([*total[0], *(counts for _, counts in ranked)], noise, rng)
        counted = noisy[len(total[0]) :]
        return noisy[: len(total[0])], [
            dict(zip(words, counts.tolist(), strict=False)) for (words, _), counts in zip(ranked, counted, strict=True)
        ]


def located(grids: Grids, noisy: list[np.ndarray], noise: float) -> dict[str, Span]:
    """Return bounds of each column of `grids` by its noisy counts in the half decades `DECADE_EDGES`.

    `noise` is the noise multiplier of the counts. The target is named "". See `span`.
    """
    scale = noise * grids.sensitivity
    return {
        name: span(counts, DECADE_EDGES, scale / weight, target=not name)
        for name, weight, counts in zip(grids.names, grids.weights, noisy, strict=True)
    }


def narrowed(
    grids: Grids, spans: dict[str, Span], noisy: list[np.ndarray], noise: float, *, rows: int, bins: int
) -> tuple[dict[str, Span], dict[str, tuple[float, ...]]]:
    """Return bounds of each column of `grids` without almost empty ends, and the inner edges of at most `bins` bins.

    Parameters
    ----------
    grids : Grids
        The columns; the target is named "".
    spans : dict
        The bounds so far, by name.
    noisy : list of numpy.ndarray
        The noisy counts of each column in the cells of `grid_between` its bounds.
    noise : float
        The noise multiplier of the counts.
    rows : int
        The declared number of rows.
    bins : int
        The largest number of bins of a column.

    Returns
    -------
    tuple of dict
        The bounds and the inner edges of bins, both by name.
    """
    closer, edges = dict(spans), {}
    for name, weight, counts in zip(grids.names, grids.weights, noisy, strict=True):
        scale, grid = noise * grids.sensitivity / weight, grid_between(*spans[name])
        most = MAX_CUT_FRACTION if weight == 1 else MAX_TARGET_CUT_FRACTION
        first = empty_cells(counts, scale, rows, most)
        last = len(counts) - empty_cells(counts[::-1], scale, rows, most)
        if first < last:
            closer[name] = (float(grid[first]), min(float(grid[last]), spans[name][1]))
        edges[name] = equal_bins(shrunken(counts, scale, rows)[0], grid, bins)
    return closer, edges


def common_words(counts: WordCounts, *, rows: int, scale: float, chance: float) -> tuple[tuple[str, ...], float]:
    """Return the words that are released, sorted, and the sum of their noisy `counts`.

    `scale` is the standard deviation of the noise of a count; see `word_threshold` for the threshold of a word by
    `rows`, `scale` and `chance`. The word "" of missing values is known without the rows, so it is released if it
    stands out of the noise; its count is not in the sum. If no word is released, the words are `NONE`, ("other",).
    """
    threshold = word_threshold(rows=rows, scale=scale, chance=chance)
    public = OUTSTANDING_DEVIATIONS * scale
    passed = {word: count for word, count in counts.items() if count > (threshold if word else public)}
    return tuple(sorted(passed)) or NONE, sum(count for word, count in passed.items() if word)


def averaged(counts: list[WordCounts], noises: list[float]) -> WordCounts:
    """Return the mean of several noisy counts of the same words, weighted by 1 / noise^2 of each.

    >>> averaged([{"a": 10.0}, {"a": 20.0}], [2.0, 2.0])
    {'a': 15.0}
    """
    weights = [noise**-2 for noise in noises]
    together = [[weight * each[word] for weight, each in zip(weights, counts, strict=True)] for word in counts[0]]
    return dict(zip(counts[0], (sum(each) / sum(weights) for each in together), strict=True))


def joint_noise(noises: Sequence[float]) -> float:
    """Return the noise multiplier of the weighted mean of counts with noise multipliers `noises` (`averaged`)."""
    return sum(noise**-2 for noise in noises) ** -0.5
