"""Ranges, categories and bins of all columns from noisy counts on public grids, where only names and rows are declared.

All columns are counted together in a few rounds:
1. If the kinds of some columns are not declared, the first round counts the values of each kind.
2. The next round counts the numbers of each column (and of a regression target) in half decades of either sign, with
   zero apart. Dates are counted as days before or after 2030-01-01. Cells that stand out of the noise remain.
3. One more round, or two if rows are many, counts numbers on finer grids within the remaining cells: equal cells, and
   cells that become narrower towards zero. Ends that hold almost no rows are cut off.
4. Rounds 2 and 3 also count how often each word occurs. Words whose mean count stands out of the noise remain.

From the last counts each number may get `bins` of about equal numbers of rows. If the first counts say that every
column is an identifier, the first of them becomes a category, because a model needs a column.

Paper: Smith, "Privacy-preserving statistical estimation with optimal convergence rates" (2011), for private quantiles;
Wilson et al., "Differentially private SQL with bounded user contribution" (2020), for words that pass a threshold.
Privacy: one row added or removed changes one cell or one word of each of c columns by 1, and one cell of a regression's
target by 2 (the target's counts are doubled, which halves their noise). The counts of a round change by at most sqrt(c)
in L2 norm, or sqrt(c + 4) with a target (sqrt(2) times that when a row is replaced). All rounds together are one
Gaussian release at the given noise multiplier. Words that only one unit has (a row, or all rows of a person) pass the
threshold with probability at most delta, over all columns. This costs Approximate(0, delta), where delta is for all
rows of a unit together (see `word_threshold`). Missing words are counted as the word "". It is a candidate whatever the
rows are, so it is released like a cell, at no chance of failure. Missing numbers, NaN and infinities are not counted.
Use when: bounds are not declared and columns are many: the noise of a round grows with the square root of their number.

>>> from privaware.schema import Column, Schema
>>> known = Schema(columns=(Column(name="age"),), classes=("no", "yes"), rows=1000)
>>> from privaware.accounting import epsilon
>>> from privaware.events import Gaussian
>>> abs(epsilon(Ranges().cost(known, 4.0), 1e-5) - epsilon(Gaussian(noise=4.0), 1e-5)) < 1e-6
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from privaware._validate import expect_count, expect_in
from privaware.data import COUNTED, Rows, likeliest, release
from privaware.events import NOTHING, Approximate, Event, Gaussian
from privaware.noise import Rng
from privaware.preprocessing import Transformation
from privaware.preprocessing._ranges.column_counts import (
    DECADE_EDGES,
    TARGET_WEIGHT,
    Grids,
    KindCounts,
    RoundCounts,
    Span,
    averaged,
    common_words,
    grid_between,
    joint_noise,
    located,
    narrowed,
    word_threshold,
)
from privaware.preprocessing._ranges.open_columns import (
    REFERENCE_DAY,
    filled,
    filled_by_words,
    open_columns,
    open_target,
    outline,
    released,
    single,
)
from privaware.schema import NOT_USED, Column, Schema

__all__ = ["Ranges"]

KINDS_WEIGHT = 0.1
"""Weight of the round that decides the kinds of columns.

1 / noise^2 is divided among rounds in proportion to weights.
"""

LOCATE_WEIGHT = 0.5
"""Weight of the round that finds the decades of numbers and the words."""

REFINE_WEIGHT = 0.4
"""Weight of the rounds with finer grids."""

CLEAR_DEVIATIONS = 3.0
"""A column is free text only if its count of texts exceeds this many standard deviations of noise."""

MIN_ROWS_PER_NOISE = 50.0
"""The finer grids take two rounds if the declared rows are at least this multiple of the noise of a count.

The noise is the standard deviation that a count would have in each of two rounds.
"""


@dataclass(frozen=True, kw_only=True)
class Ranges(Transformation):
    """A transformation that releases the schema with kinds, bounds and categories filled in.

    Parameters
    ----------
    delta : float
        Largest probability, over all columns, that a word which only one unit has (a row, or all rows of a person) is
        released.
    single : bool
        Whether a column whose kind is decided here must give a learner one input column only, as `outline` assumes: a
        date gives its days, and an identifier or a text becomes a category.
    bins : int
        Largest number of bins of about equal numbers of rows that each number gets; 0 for none.
    """

    releases: ClassVar[Literal["schema"]] = "schema"
    prices_replacement: ClassVar[bool] = True
    in_parts: ClassVar[bool] = True

    delta: float = 1e-7
    single: bool = False
    bins: int = 0

    def __post_init__(self) -> None:
        expect_in("ranges", "(0, 0.5)", delta=self.delta)
        expect_count("ranges", 0, bins=self.bins)

    def cost(self, schema: Schema, noise: float) -> Event:
        event: Event = sum((Gaussian(noise=each) for each in _rounds(schema, noise)), start=NOTHING)
        words = open_columns(schema, "category", "undecided")
        proven = schema.unit_rows if schema.unit_rows > 1 else None
        return event + Approximate(epsilon=0.0, delta=self.delta, rows=proven) if words else event

    def outline(self, schema: Schema) -> Schema:
        """Return the schema as it will be after the release, with placeholders for what is not known yet.

        It is used to compute the cost of later mechanisms before a row is read.
        """
        return outline(schema)

    def deviation(self, schema: Schema, noise: float) -> float:
        """Return the standard deviation of the noise in the counts of decades, at noise multiplier `noise`.

        Return 0 if nothing is counted.
        """
        return _after_kinds(schema, noise)[0] * _sensitivity(schema, _weighted(schema)) if _counted(schema) else 0.0

    def least_rows(self, schema: Schema, noise: float) -> float:
        """Return the number of rows that a category needs to be released with probability 1/2, at `noise`.

        Return 0 if no column can become a category. All columns of undecided kind are assumed to become one, so the
        number is an upper bound.
        """
        columns = len(open_columns(schema, "category", "undecided"))
        if not columns:
            return 0.0
        scale = joint_noise(_after_kinds(schema, noise)) * _sensitivity(schema, _weighted(schema))
        return word_threshold(rows=schema.unit_rows, scale=scale, chance=self.delta / columns)

    def run(self, data: Rows, noise: float, rng: Rng) -> Schema:
        """Return the schema with kinds, bounds and categories filled in; `data` has raw values (`Data.uncoded`)."""
        schema, rounds = data.schema, _rounds(data.schema, noise)
        kinds: dict[str, np.ndarray] = {}
        decided: list[Column] = []
        if undecided := open_columns(schema, "undecided"):
            counted = KindCounts(places=_places(schema, undecided), sensitivity=_sensitivity(schema, len(undecided)))
            scale = rounds.pop(0)
            kinds = release(counted, data.parts, scale, rng)
            deviation = scale * counted.sensitivity
            decided = likeliest(undecided, np.stack(list(kinds.values())), deviation, rows=schema.rows)
            kinds = {name: np.where(counts > CLEAR_DEVIATIONS * deviation, counts, 0) for name, counts in kinds.items()}
        by_name = {column.name: single(column) if self.single else column for column in decided}
        columns = [by_name.get(column.name, column) for column in schema.columns]
        if decided and all(column.kind in NOT_USED for column in columns):  # a model needs a column
            columns = [single(column) if column.name == decided[0].name else column for column in columns]
        still_open = [column for column in columns if not column.bounded]
        grids = Grids(
            numbers=_places(schema, [column for column in still_open if column.kind in ("number", "date")]),
            target=open_target(schema),
            sensitivity=_sensitivity(schema, _weighted(schema)),
        )
        words = _places(schema, [column for column in still_open if column.kind == "category"])
        counts = RoundCounts(grids=grids, edges=[DECADE_EDGES] * len(grids.names), closed=False, words=words)
        noisy, first_words = release(counts, data.parts, rounds[0], rng)
        spans, bins = located(grids, noisy, rounds[0]), dict[str, tuple[float, ...]]()
        all_words = [first_words]
        for scale in rounds[1:]:
            edges = [grid_between(*spans[name]) for name in grids.names]
            noisy, more_words = release(replace(counts, edges=edges, closed=True), data.parts, scale, rng)
            spans, bins = narrowed(grids, spans, noisy, scale, rows=schema.rows, bins=self.bins)
            all_words.append(more_words)
        common = {
            column.name: common_words(
                averaged([each[at] for each in all_words], rounds),
                rows=schema.unit_rows,
                scale=joint_noise(rounds) * grids.sensitivity,
                chance=self.delta / len(words),
            )
            for at, (_, column) in enumerate(words)
        }
        bounded = [column if column.bounded else self._filled(column, spans, bins, common, kinds) for column in columns]
        return released(schema, tuple(bounded), spans.get("", (schema.low, schema.high)))

    def _filled(
        self,
        column: Column,
        spans: dict[str, Span],
        bins: dict[str, tuple[float, ...]],
        common: dict[str, tuple[tuple[str, ...], float]],
        kinds: dict[str, np.ndarray],
    ) -> Column:
        """Return the column with bounds or categories, or as text (see `filled_by_words`).

        What was released is given by column name: the bounds (`spans`), the inner edges of `bins`, the `common` words
        with the sum of their noisy counts, and the noisy counts of `kinds`. A column that is in neither `spans` nor
        `common` is returned unchanged.
        """
        if column.name in spans:
            low, high = spans[column.name]
            if column.kind == "date":
                low, high = low + REFERENCE_DAY, high + REFERENCE_DAY
            inner = tuple(edge for edge in bins.get(column.name, ()) if low < edge < high)
            return replace(filled(column, (low, high), ()), bins=inner if column.kind == "number" else ())
        if column.name not in common:
            return column
        no_counts = np.zeros(len(COUNTED))
        return filled_by_words(column, common[column.name], kinds.get(column.name, no_counts), self.single)


def _rounds(schema: Schema, noise: float) -> list[float]:
    """Return the noise multiplier of each round of counts, in order; together they cost one release at `noise`."""
    shares = [KINDS_WEIGHT] * bool(open_columns(schema, "undecided")) + [LOCATE_WEIGHT] * bool(_counted(schema))
    of_numbers = bool(open_columns(schema, "number", "date", "undecided")) or open_target(schema)
    shares += [REFINE_WEIGHT] * of_numbers
    noises = [noise * math.sqrt(sum(shares) / share) for share in shares]
    halved = noises[-1] * math.sqrt(2) if noises else 0.0
    if of_numbers and schema.rows >= MIN_ROWS_PER_NOISE * halved * _sensitivity(schema, _counted(schema)):
        noises[-1:] = [halved, halved]
    return noises


def _after_kinds(schema: Schema, noise: float) -> list[float]:
    """Return the noise multiplier of each round that counts numbers and words, in order."""
    return _rounds(schema, noise)[bool(open_columns(schema, "undecided")) :]


def _counted(schema: Schema) -> int:
    return len(open_columns(schema, "number", "date", "category", "undecided")) + open_target(schema)


def _weighted(schema: Schema) -> float:
    """Return the number of counted columns, where a regression target without bounds counts as `TARGET_WEIGHT**2`."""
    return _counted(schema) + (TARGET_WEIGHT**2 - 1) * open_target(schema)


def _sensitivity(schema: Schema, columns: float) -> float:
    """Return the L2 sensitivity of a round over `columns` columns: one row changes one count of each column by 1.

    If `schema.relation` is "replace_one", a row changes two counts of each column. `columns` counts a target of weight
    w as w^2 columns.
    """
    return math.sqrt((2 if schema.relation == "replace_one" else 1) * columns)


def _places(schema: Schema, columns: list[Column]) -> tuple[tuple[int, Column], ...]:
    """Return each column with its position among the declared columns."""
    positions = {column.name: at for at, column in enumerate(schema.declared)}
    return tuple((positions[column.name], column) for column in columns)
