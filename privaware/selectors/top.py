"""The columns most dependent on the target, by repeated report-noisy-max (peeling).

The score of a column measures how far its table with the target is from independence, in rows. It is T = sum of |n_sc -
n_s n_c / n| over values s of the column and classes c of the target, minus the largest expectation of T if column and
target were independent. That expectation is a public number; it is larger for columns with many values, which show more
dependence by chance.

Paper: peeling by report-noisy-max, after Dwork, Su and Zhang 2021, Differentially private false discovery rate control;
Dwork and Roth 2014, chapter 3.
Privacy: (epsilon, delta) for one row added or removed, at `columns` times Pure(1 / noise). The sensitivity of T is
below 4:
1. A row at (s, c) adds 1 to one count, so the term n_sc changes by 1 in L1 norm.
2. Let the vectors a, b be the marginal counts and e, f what the row adds to them (b' is b transposed). The term n_s n_c
   / n changes from ab'/n to (ab' + af' + eb' + ef') / (n + 1), by at most n/(n + 1) + (2n + 1)/(n + 1) < 3.
3. So T changes by less than 4 (from no rows to one row it stays 0). For rare s and c it changes by nearly 4.
4. In floating-point arithmetic n T is an integer without error. T is at most 2n and is rounded three times, by 2^-52 n
   each. The score is reduced by the factor 1 - `MARGIN`, which covers this for 2^32 rows.

Use when: columns are many, few are wanted, and overlap among them does no harm.

>>> from privaware.noise import Rng
>>> from privaware.testing import example, rows_for
>>> Top(columns=1).run(rows_for(example(), 500), noise=1.0, rng=Rng(seed=1))
('age',)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaware._validate import expect_count
from privaware.data import Data, Rows, Sum, release
from privaware.events import Event, Pure
from privaware.exact_sums import MARGIN
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.selectors import Selector
from privaware.selectors._tables import blocks, chosen, column_sums, limit, slots

__all__ = ["Top"]


@dataclass(frozen=True, kw_only=True)
class Top(Selector):
    """Selection of the columns most dependent on the target.

    Parameters
    ----------
    columns : int
        Number of columns to select; all if the table has fewer.
    bins : int
        Number of bins for numbers without declared bins, and for a regression target.
    """

    in_parts: ClassVar[bool] = True

    columns: int = 5
    bins: int = 8

    def __post_init__(self) -> None:
        expect_count("top", columns=self.columns, bins=self.bins)

    def cost(self, schema: Schema, noise: float) -> Event:
        slots(schema, self.bins)
        return limit(self.columns, schema) * Pure(epsilon=1 / noise)

    def run(self, data: Rows, noise: float, rng: Rng) -> tuple[str, ...]:
        counts = TargetCounts(schema=data.schema, bins=self.bins, columns=limit(self.columns, data.schema))
        return release(counts, data.parts, noise, rng)


@dataclass(frozen=True, kw_only=True)
class TargetCounts(Sum[Data, np.ndarray, tuple[str, ...]]):
    """Integer counts of how often each value of a column occurs with each value of the target.

    The counts are a matrix (one-hot entries of all columns and of the target, entries of the target). The release is
    the names, in the order of the schema, of `columns` columns that depend most on the target. Each is chosen by one
    `Rng.choose` at epsilon `1 / noise` among the columns not chosen before. `bins` is the number of bins for numbers
    without declared bins, and for a regression target.
    """

    schema: Schema
    bins: int
    columns: int

    def partial(self, part: Data) -> np.ndarray:
        sizes = slots(self.schema, self.bins)
        exact = np.zeros((sum(sizes), sizes[-1]), dtype=np.int64)
        for block in blocks(part, self.bins):
            exact += (block.T @ block[:, -sizes[-1] :]).astype(np.int64)  # below 2^24: exact in float32
        return exact

    def release(self, total: np.ndarray, noise: float, rng: Rng) -> tuple[str, ...]:
        sizes = slots(self.schema, self.bins)
        table, classes = total[: -sizes[-1]], np.diagonal(total[-sizes[-1] :])
        scores = (1 - MARGIN) * distances(table, classes, sizes[:-1]) - by_chance(sizes, self.schema.rows)
        left = np.arange(len(scores))
        for _ in range(self.columns):
            at = rng.choose(scores[left], epsilon=1 / noise, sensitivity=4.0)
            left = np.delete(left, at)
        return chosen(self.schema, ~np.isin(np.arange(len(scores)), left))


def distances(table: np.ndarray, classes: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """Return, for each column, the L1 distance of its table with the target from independence, in rows.

    It is `T = sum_{s,c} |n[s,c] - n[s] * n[c] / n|` over values s of the column and classes c. `table` (one-hot entries
    of all columns, classes) holds the counts, `classes` the class counts, and `sizes` the number of entries of each
    column.
    """
    total = max(int(classes.sum()), 1)
    whole = np.int64 if total < 2**31 else object  # Python integers when products exceed 64 bits
    counts = table.astype(whole)
    deviation = np.abs(total * counts - np.outer(counts.sum(axis=1), classes.astype(whole))).sum(axis=1)
    return np.array([int(column) / total for column in column_sums(deviation, sizes, 0)])


def by_chance(sizes: tuple[int, ...], rows: int) -> np.ndarray:
    """Return the expectation of `distances` for columns that are independent of the target, with equally likely values.

    By the normal approximation, no other distribution of independent columns has a larger expectation. `sizes` is the
    number of values of each column, the target last, and `rows` the declared number of rows.

    >>> by_chance((2, 5, 2), 100).round(1).tolist()
    [8.0, 16.0]
    """
    freedom = (np.array(sizes[:-1]) - 1.0) * (sizes[-1] - 1.0)
    return np.asarray(np.sqrt(2 * rows * freedom / np.pi))
