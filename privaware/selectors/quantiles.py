"""Bounds, categories and bins of all columns from noisy counts on public grids, where only names and rows are declared.

All columns together are counted in a few rounds. Where kinds are not known, a first round counts the values of
each kind. The next one counts the numbers of each column (and of a regression target) in half
decades of either sign, with zero apart, and how often each word occurs: cells and words that stand out of the noise
remain. Two more rounds count numbers on finer grids within what remains, equal cells and ever narrower ones towards
zero, and cut off the ends that hold next to nothing. From the last counts each number may get `bins` of about equal
numbers of rows.

Paper: Smith, "Privacy-preserving statistical estimation with optimal convergence rates" (2011), for private quantiles;
    Wilson et al., "Differentially private SQL with bounded user contribution" (2020), for words that pass a threshold.
Privacy: one row added or removed moves one cell or one word of each of c columns by one, so that the counts of a round
    move by sqrt(c) (at most twice that when a row is replaced); all rounds together are one Gaussian of the given
    noise. A word that only that row has passes the threshold with probability delta at most, over all columns, which is
    Approximate(0, delta). Missing values, NaN and infinities are not counted.
Use when: bounds are not declared and columns are many: the price of a round grows with the root of their number.

>>> from privaware.schema import Column, Schema
>>> known = Schema(columns=(Column(name="age"),), classes=("no", "yes"), rows=1000)
>>> from privaware.accounting import epsilon
>>> from privaware.events import Gaussian
>>> abs(epsilon(Quantiles().cost(known, 4.0), 1e-5) - epsilon(Gaussian(noise=4.0), 1e-5)) < 1e-6
True
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, ClassVar, Literal

import numpy as np

from privaware._validate import expect_count, expect_in
from privaware.data import COUNTED, Data, decided, kind_counts, uncoded_column
from privaware.events import NOTHING, Approximate, Event, Gaussian
from privaware.noise import LATTICE, Rng
from privaware.schema import Column, Schema
from privaware.selectors import Transformation
from privaware.selectors._grids import cells, equal_bins, grid_between
from privaware.selectors._open_columns import (
    NONE,
    SLOTS,
    filled,
    on_line,
    open_columns,
    open_target,
    outline,
    released,
    single,
    worded,
)

__all__ = ["Quantiles"]

KINDS, LOCATE, REFINE = 0.1, 0.5, 0.2
"""Shares of the rounds, over their sum: deciding kinds, finding decades and words, and each of two finer grids."""

STANDS_OUT = 4.0
"""Deviations of noise above which a count is taken for real: about one cell in thirty thousand is not."""

NOTHING_THERE = 2.0
"""Deviations of noise below which the rows at an end are taken for none."""

TAIL = 0.005
"""The share of rows that may be cut off at either end, beside what noise hides."""

DECADES = 10.0 ** (np.arange(-12, 25) / 2)
"""Edges of the first grid on the positive side, from a millionth to a million millions; what is smaller is zero."""

FARTHEST = 1e13
"""Where the outermost cells end."""

Span = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Quantiles(Transformation):
    """Releases the schema with kinds, bounds and categories filled in; `delta` is for all categories.

    With `single` a column whose kind is decided here stays one coded column, so that there are as many as in `outline`.
    `bins` is the number of bins of about equal numbers of rows that each number gets (0: none).
    """

    releases: ClassVar[Literal["schema"]] = "schema"

    delta: float = 1e-7
    single: bool = False
    bins: int = 0

    def __post_init__(self) -> None:
        expect_in("quantiles", "(0, 0.5)", delta=self.delta)
        expect_count("quantiles", 0, bins=self.bins)

    def cost(self, schema: Schema, noise: float) -> Event:
        event: Event = sum((Gaussian(noise=each) for each in _rounds(schema, noise)), start=NOTHING)
        words = open_columns(schema, "category", "undecided")
        return event + Approximate(epsilon=0.0, delta=self.delta) if words else event

    def outline(self, schema: Schema) -> Schema:
        """The public facts of the release before it is run: the same names and kinds, all bounded."""
        return outline(schema)

    def run(self, data: Data, noise: float, rng: Rng) -> Schema:
        """The schema, from rows as `Data.uncoded` holds them."""
        schema, rounds = data.schema, _rounds(data.schema, noise)
        positions = {column.name: at for at, column in enumerate(schema.declared)}
        values = {
            column.name: uncoded_column(data.x, positions[column.name])
            for column in schema.columns
            if not column.bounded
        }
        kinds: dict[str, np.ndarray] = {}
        if open_columns(schema, "undecided"):
            kinds = _kinds(values, schema, rounds.pop(0), rng)
        columns = [self._decided(column, kinds) for column in schema.columns]
        numbers = {
            column.name: on_line(values[column.name], column)
            for column in columns
            if not column.bounded and column.kind in ("number", "date")
        }
        words = {
            column.name: worded(values[column.name])
            for column in columns
            if not column.bounded and column.kind == "category"
        }
        if open_target(schema):
            numbers[""] = data.y.astype(float)
        counts = _Counts(numbers=numbers, words=words, sensitivity=_sensitivity(schema, _counted(schema)), rng=rng)
        spans, common = counts.located(rounds[0], self.delta)
        bins: dict[str, tuple[float, ...]] = {}
        for scale in rounds[1:]:
            spans, bins = counts.refined(spans, schema.rows, scale, self.bins)
        bounded = [column if column.bounded else self._filled(column, spans, bins, common, kinds) for column in columns]
        return released(schema, tuple(bounded), spans.get("", (schema.low, schema.high)))

    def _decided(self, column: Column, kinds: dict[str, np.ndarray]) -> Column:
        if column.name not in kinds:
            return column
        column = decided(column, kinds[column.name])
        return single(column) if self.single else column

    def _filled(
        self,
        column: Column,
        spans: dict[str, Span],
        bins: dict[str, tuple[float, ...]],
        common: dict[str, tuple[tuple[str, ...], float]],
        kinds: dict[str, np.ndarray],
    ) -> Column:
        """The column with bounds or categories; one whose texts are too many for categories is text."""
        if column.name in spans:
            low, high = spans[column.name]
            inner = tuple(edge for edge in bins.get(column.name, ()) if low < edge < high)
            return replace(filled(column, (low, high), ()), bins=inner if column.kind == "number" else ())
        if column.name not in common:
            return column
        words, covered = common[column.name]
        texts, names = (
            kinds.get(column.name, np.zeros(len(COUNTED)))[COUNTED.index(kind)] for kind in ("text", "word")
        )
        if texts > names and not self.single and covered < texts / 2:
            return replace(column, kind="text", fold=False)
        return filled(column, (0.0, 1.0), words)


@dataclass(frozen=True, kw_only=True)
class _Counts:
    """The numbers and words of the columns that are counted, and how far one row moves a round of counts."""

    numbers: dict[str, np.ndarray]
    words: dict[str, Counter[str]]
    sensitivity: float
    rng: Rng

    def located(self, noise: float, delta: float) -> tuple[dict[str, Span], dict[str, tuple[tuple[str, ...], float]]]:
        """The decades of each column of numbers, and the common words of each other one with the sum of their counts.

        Noise is independent for each word and the words come out as a set, so it does not matter which entry of the
        vector a word has. Sorted from large to small and padded with zeros, the vector has the same length whatever
        the words are, and one more row moves one entry by one.
        """
        edges = np.concatenate([-DECADES[::-1], DECADES])
        ranked = {name: sorted(counts, key=lambda word: (-counts[word], word)) for name, counts in self.words.items()}
        exact_parts = [cells(values, edges) for values in self.numbers.values()]
        for name, words in ranked.items():
            exact_counts = np.zeros(max(SLOTS, len(words)))
            exact_counts[: len(words)] = [self.words[name][word] for word in words]
            exact_parts.append(exact_counts)
        noisy, scale = self._noisy(exact_parts, noise), noise * self.sensitivity
        spans = {name: _span(part, edges, scale) for name, part in zip(self.numbers, noisy, strict=False)}
        # The chance that 1 + scale * N(0, 1) passes it is delta over all columns, for words that one row alone has;
        # the last term is for the rounding of released values to a lattice.
        chance = delta / max(len(ranked), 1)
        threshold = 1 + scale * (NormalDist().inv_cdf(1 - chance) + LATTICE)
        common = {}
        for (name, words), part in zip(ranked.items(), noisy[len(spans) :], strict=True):
            above = part[: len(words)] > threshold
            passed = tuple(sorted(word for word, passes in zip(words, above, strict=True) if passes))
            common[name] = (passed or NONE, float(part[: len(words)][above].sum()))
        return spans, common

    def refined(
        self, spans: dict[str, Span], rows: int, noise: float, bins: int
    ) -> tuple[dict[str, Span], dict[str, tuple[float, ...]]]:
        """Spans without the ends that hold next to nothing, and bins, from counts on finer grids."""
        grids = {name: grid_between(*spans[name]) for name in self.numbers}
        exact_parts = [cells(values, grids[name])[1:-1] for name, values in self.numbers.items()]
        scale, closer, edges = noise * self.sensitivity, dict(spans), {}
        for name, part in zip(self.numbers, self._noisy(exact_parts, noise), strict=False):
            first, last = _empty(part, rows, scale), len(part) - _empty(part[::-1], rows, scale)
            if first < last:
                closer[name] = (float(grids[name][first]), min(float(grids[name][last]), spans[name][1]))
            edges[name] = equal_bins(part, grids[name], bins)
        return closer, edges

    def _noisy(self, exact_parts: list[np.ndarray], noise: float) -> list[np.ndarray]:
        """All counts of a round in one release; an empty round still has one."""
        exact = np.concatenate(exact_parts) if exact_parts else np.zeros(1)
        noisy = self.rng.gaussian(exact, noise=noise, sensitivity=self.sensitivity)
        return np.split(noisy, np.cumsum([len(part) for part in exact_parts])[:-1]) if exact_parts else []


def _rounds(schema: Schema, noise: float) -> list[float]:
    """The noise multiplier of each round; together they are one release of `noise`."""
    shares = [KINDS] * bool(open_columns(schema, "undecided")) + [LOCATE] * bool(_counted(schema))
    if open_columns(schema, "number", "date", "undecided") or open_target(schema):
        shares += [REFINE, REFINE]
    return [noise * math.sqrt(sum(shares) / share) for share in shares]


def _counted(schema: Schema) -> int:
    return len(open_columns(schema, "number", "date", "category", "undecided")) + open_target(schema)


def _sensitivity(schema: Schema, columns: int) -> float:
    """How far one row moves a round: one count of each column by one, and another one too where it is replaced."""
    return math.sqrt((2 if schema.relation == "replace_one" else 1) * columns)


def _kinds(values: dict[str, Any], schema: Schema, noise: float, rng: Rng) -> dict[str, np.ndarray]:
    """How many values of each undecided column are of each kind, with noise."""
    names = [column.name for column in open_columns(schema, "undecided")]
    exact = np.stack([kind_counts(values[name]) for name in names])
    noisy = rng.gaussian(exact, noise=noise, sensitivity=_sensitivity(schema, len(names)))
    return dict(zip(names, np.asarray(noisy), strict=True))


def _span(counts: np.ndarray, edges: np.ndarray, scale: float) -> Span:
    """The bounds of the cells that stand out of the noise; without one, of that which is likeliest to hold all rows.

    Decades far from 1 are less likely a priori.
    """
    limits = np.concatenate([[-FARTHEST], edges, [FARTHEST]])
    outstanding = np.flatnonzero(counts > STANDS_OUT * scale)
    if not len(outstanding):
        decades = np.abs(np.log10(np.maximum(np.abs(limits[:-1]), np.abs(limits[1:]))))
        outstanding = np.array([int(np.argmax(counts / scale - math.log(2) * decades))])
    low, high = float(limits[outstanding[0]]), float(limits[outstanding[-1] + 1])
    least = float(DECADES[0])
    return 0.0 if abs(low) <= least else low, (least if low >= -least else 0.0) if abs(high) <= least else high


def _empty(counts: np.ndarray, rows: int, scale: float) -> int:
    """How many cells from the first one on hold together no more rows than a tail and the noise."""
    allowed = TAIL * rows + NOTHING_THERE * scale * np.sqrt(np.arange(1, len(counts) + 1))
    full = np.flatnonzero(np.cumsum(counts) > allowed)
    return int(full[0]) if len(full) else 0
