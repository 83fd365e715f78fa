"""Private bounds and categories by noisy maximum, where only names, kinds and rows are declared.

- Each numeric column without bounds (and a regression target without bounds) gets a low and a high quantile, chosen by
  noisy maximum among public candidates: every number of two digits from 1e-12 to 1e12 (of three digits from 0.001 to a
  million), either sign, and zero.
- Each category column without categories gets its common values: Laplace noise is added to their counts, and only those
  above a threshold are released.
- If the kind of a column is undecided, noisy counts of its values of each kind decide it first: the column gets the
  likeliest kind (`privaware.data.likeliest`).

How far into the tails the quantiles reach follows from public numbers only (noise and declared rows). About one row in
a hundred is clipped on each side, and more (up to a quarter) if the noise exceeds one row in a hundred (`tail_share`).

Paper: Smith, "Privacy-preserving statistical estimation with optimal convergence rates" (2011), for quantiles;
Korolova, Kenthapadi, Mishra, Ntoulas, "Releasing search queries and clicks privately" (2009), and Vadhan, "The
complexity of differential privacy" (2017), section 3.3, for categories without a declared universe.
Privacy: for one row added, removed or (if the schema says so) replaced. A quantile costs Pure(1 / noise):
`quantile_scores` proves its sensitivity. The histogram of a column costs Approximate(1 / noise, delta / columns): a row
has one category, so one count changes by 1 (two counts when it is replaced), and a category that only that row has
passes the threshold with probability at most delta / columns. The counts that decide a kind cost Pure(1 / (4 noise)): a
row changes one of them by 1 (two when it is replaced). After them, an undecided column is charged Pure(1 / noise) and
Approximate(1 / noise, delta / columns). Together these dominate both two quantiles and a histogram, so the cost does
not depend on the noisy counts.
Missing values, NaN and infinities are not counted.
Use when: nobody can say in advance what range the columns have, and a draft read off the rows must not be assumed
public.

>>> from privaware.schema import Column, Schema
>>> known = Schema(columns=(Column(name="age"),), classes=("no", "yes"), rows=1000)
>>> NoisyMaximumRanges().cost(known, noise=4.0)
Repeated(event=Pure(epsilon=0.25), count=2)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from privaware._validate import expect_in
from privaware.data import COUNTED, Data, Spelt, Words, kind_counts, likeliest, uncoded_column
from privaware.events import NOTHING, Approximate, Event, Pure
from privaware.noise import LATTICE, Rng
from privaware.preprocessing import Transformation
from privaware.preprocessing._ranges.open_columns import (
    common_words,
    filled,
    filled_by_words,
    on_line,
    open_columns,
    open_target,
    outline,
    ranked_counts,
    released,
    single,
    worded,
)
from privaware.schema import Column, Schema

__all__ = ["NoisyMaximumRanges"]

KIND_NOISE = 4
"""Noise multiplier of the counts that decide a kind, divided by the noise multiplier of a bound.

It may be large, because the kind of most columns is clear.
"""


@dataclass(frozen=True, kw_only=True)
class NoisyMaximumRanges(Transformation):
    """A transformation that releases the schema with kinds, bounds and categories filled in.

    `delta` bounds the probability, over all columns, that a category which only one row has is released. With `single`
    a column whose kind is decided here stays one coded column, so that there are as many as in `outline`.
    """

    releases: ClassVar[Literal["schema"]] = "schema"
    prices_replacement: ClassVar[bool] = True

    delta: float = 1e-7
    single: bool = False

    def __post_init__(self) -> None:
        expect_in("bounds", "(0, 0.5)", delta=self.delta)

    def cost(self, schema: Schema, noise: float) -> Event:
        undecided = len(open_columns(schema, "undecided"))
        words = len(open_columns(schema, "category")) + undecided
        lines = len(open_columns(schema, "number")) + len(open_columns(schema, "date")) + open_target(schema)
        choices = 2 * lines + undecided
        event: Event = choices * Pure(epsilon=1 / noise) if choices else NOTHING
        if words:
            event = event + words * Approximate(epsilon=1 / noise, delta=self.delta / words)
        if undecided:
            event = event + undecided * Pure(epsilon=1 / (KIND_NOISE * noise))
        return event

    def outline(self, schema: Schema) -> Schema:
        """Return the schema as it will be after the release, with placeholders for what is not known yet.

        It is used to compute the cost of later mechanisms before a row is read.
        """
        return outline(schema)

    def run(self, data: Data, noise: float, rng: Rng) -> Schema:
        """Return the schema with kinds, bounds and categories filled in, from rows in the form of `Data.uncoded`."""
        schema, columns = data.schema, []
        positions = {column.name: at for at, column in enumerate(schema.declared)}
        delta = self.delta / max(len(open_columns(schema, "category")) + len(open_columns(schema, "undecided")), 1)
        price = _Price(noise=noise, delta=delta, rng=rng)
        kinds = self._kinds(data, positions, price)
        for column in schema.columns:
            if not column.bounded:
                values = uncoded_column(data.x, positions[column.name])
                decided, counts = kinds.get(column.name, (column, np.zeros(len(COUNTED))))
                column = self._bought(decided, counts, values, schema, price)
            columns.append(column)
        limits = (schema.low, schema.high)
        if open_target(schema):
            limits = _range(data.y.astype(float), schema.rows, noise, rng)
        return released(schema, tuple(columns), limits)

    def _kinds(self, data: Data, positions: dict[str, int], price: _Price) -> dict[str, tuple[Column, np.ndarray]]:
        """Release the kinds of undecided columns: by name, the column with its kind, and its noisy counts.

        `positions` has the position of each declared column in `data` by name. The Laplace noise of a count has the
        noise multiplier `KIND_NOISE * price.noise`.
        """
        undecided = open_columns(data.schema, "undecided")
        if not undecided:
            return {}
        changed = 2 if data.schema.relation == "replace_one" else 1
        counts = []
        for column in undecided:
            exact_counts = kind_counts(uncoded_column(data.x, positions[column.name]))
            noisy = price.rng.laplace(exact_counts, noise=KIND_NOISE * price.noise, sensitivity=float(changed))
            counts.append(np.asarray(noisy, dtype=float))
        deviation = math.sqrt(2) * KIND_NOISE * price.noise * changed  # of Laplace noise
        decided = likeliest(undecided, np.stack(counts), deviation)
        decided = [single(column) for column in decided] if self.single else decided
        return {column.name: (column, noisy) for column, noisy in zip(decided, counts, strict=True)}

    def _bought(
        self, column: Column, counts: np.ndarray, values: np.ndarray | Words | Spelt, schema: Schema, price: _Price
    ) -> Column:
        """Return the column with bounds or categories if its kind has them; `counts` are its noisy counts of kinds.

        `values` are its values, uncoded. Two quantiles are released for bounds, or one histogram of words for
        categories, each at `price`. A category may become text (see `filled_by_words`).
        """
        if column.kind in ("number", "date"):
            grid = days() if column.kind == "date" else None
            return filled(column, _range(on_line(values, column), schema.rows, price.noise, price.rng, grid), ())
        if column.kind != "category":
            return column
        changed = 2 if schema.relation == "replace_one" else 1
        words, exact_counts = ranked_counts(worded(values))
        noisy = price.rng.laplace(exact_counts, noise=price.noise, sensitivity=float(changed))
        # A word that only one row has passes it, as 1 + scale * Laplace, with probability delta / changed.
        # LATTICE covers the rounding of released values to a lattice.
        threshold = 1 + price.noise * changed * (math.log(changed / (2 * price.delta)) + LATTICE)
        return filled_by_words(column, common_words(words, noisy, threshold), counts, self.single)


@dataclass(frozen=True, kw_only=True)
class _Price:
    """The noise multiplier of a column, the delta of its histogram, and the source of noise."""

    noise: float
    delta: float
    rng: Rng


def _range(
    values: np.ndarray, rows: int, noise: float, rng: Rng, among: tuple[np.ndarray, np.ndarray] | None = None
) -> tuple[float, float]:
    """Release a low and a high quantile of `values`; equal quantiles are moved apart.

    `noise` is the noise multiplier of each, and `rows` the declared number of rows. `among` are candidates and the
    logarithm of their prior; None takes `candidates()`.
    """
    grid, prior = among or candidates()
    tail = tail_share(rows, noise)
    quantiles = []
    for share in (tail, 1 - tail):
        scores = quantile_scores(values, share) if among is None else quantile_scores(values, share, grid)
        exact_scores = scores + np.round(2 * noise * prior)
        quantiles.append(float(grid[rng.choose(exact_scores, epsilon=1 / noise, sensitivity=1.0)]))
    low, high = min(quantiles), max(quantiles)
    if low < high:
        return low, high
    reach = max(1.0, abs(low) / 10)
    return float(f"{low - reach:.4g}"), float(f"{high + reach:.4g}")


def tail_share(rows: int, noise: float) -> float:
    """Return the fraction of rows beyond each bound: the smallest that exceeds the noise, from 0.01 to 0.25.

    The noisy maximum errs by about 2 * noise * (log(candidates) + 5) rows. Fractions are multiples of 1/1024, so scores
    are exact in floating point.

    >>> tail_share(100_000, noise=2.0), tail_share(100, noise=50.0)
    (0.0107421875, 0.25)
    """
    detectable = 2 * noise * (math.log(len(candidates()[0])) + 5) / rows
    return math.ceil(1024 * min(max(detectable, 0.01), 0.25)) / 1024


def quantile_scores(values: np.ndarray, share: float, grid: np.ndarray | None = None) -> np.ndarray:
    """Return the score of each candidate c: minus its distance, in rows, from the quantile at `share`.

    Of n values let b lie below c and u at or below c. Then c is the quantile if b <= share n <= u, and the score is
    -max(b - share n, share n - u, 0). One more value changes b and u by 0 or 1 and share n by share. So each
    difference, and the score, changes by at most max(share, 1 - share), whatever the other values are. A replaced value
    changes the score by at most 1. Values that are not finite are not counted. `grid` holds the candidates in
    increasing order; None takes `candidates()`.
    """
    grid = candidates()[0] if grid is None else grid
    known = np.sort(values[np.isfinite(values)])
    rank = share * len(known)
    below = np.searchsorted(known, grid, side="left")
    upto = np.searchsorted(known, grid, side="right")
    return -np.maximum(np.maximum(below - rank, rank - upto), 0.0)


@lru_cache(maxsize=1)
def candidates() -> tuple[np.ndarray, np.ndarray]:
    """Return public candidates in increasing order, and the logarithm of a public prior.

    The prior halves with each decade of distance from 1. Zero has the prior of a whole decade of candidates, because
    counts, amounts and flags start there.
    """
    sizes, shares = [], []
    for power in range(-12, 12):
        digits = range(100, 1000) if -3 <= power < 6 else range(100, 1000, 10)
        sizes += [float(f"{each}e{power - 2}") for each in digits]
        shares += [0.5 ** abs(power) / len(digits)] * len(digits)
    positive, weight = np.array([*sizes, 1e12]), np.array([*shares, shares[-1]])
    grid = np.concatenate([-positive[::-1], [0.0], positive])
    weights = np.concatenate([weight[::-1], [1.0], weight])
    return grid, np.log(weights / weights.sum())


@lru_cache(maxsize=1)
def days() -> tuple[np.ndarray, np.ndarray]:
    """Return public candidates for dates, in days since 1970, and the logarithm of their prior.

    They are all days from 1 January 1900 to 1 January 2100, with the same prior each.
    """
    grid = np.arange(-25_567.0, 47_483.0)
    return grid, np.full(len(grid), -math.log(len(grid)))
