"""The columns most dependent on the target, by repeated report-noisy-max (peeling).

The score of a column is how far its table with the target is from independence, in rows: T = sum of
|n_sc - n_s n_c / n| over slots s and classes c, less the most that independent rows would show
on average (a public number, since columns with many slots show more by chance).

Paper: peeling by report-noisy-max, after Dwork, Su and Zhang 2021, Differentially private false
    discovery rate control; Dwork and Roth 2014, chapter 3.
Privacy: (epsilon, delta) for one row added or removed, `columns` times Pure(1 / noise). A row at
    (s, c) adds 1 to one count, so the first term moves by 1 in L1. With a, b the marginal counts and
    e, f those of the row, the second goes from ab'/n to (ab' + af' + eb' + ef') / (n + 1), a change
    of at most n/(n + 1) + (2n + 1)/(n + 1) < 3. So T moves by less than 4 (and from no rows to one it
    stays 0), and for small shares of s and c it moves by nearly that much. As computed: n T is a
    whole number without error, and T, at most 2n, is rounded three times, by 2^-52 n each; `MARGIN` of
    the score is left off for that, which covers 2^32 rows.
Use when: columns are many, few are wanted, and overlap among them does no harm.

>>> from privaware.noise import Rng
>>> from privaware.testing import example, rows_for
>>> Top(columns=1).run(rows_for(example(), 500), noise=1.0, rng=Rng(seed=1))
('age',)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privaware._validate import expect_count
from privaware.data import Data
from privaware.events import Event, Pure
from privaware.exact_sums import MARGIN
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.selectors import Selector
from privaware.selectors._tables import blocks, chosen, limit, slots

__all__ = ["Top"]


@dataclass(frozen=True, kw_only=True)
class Top(Selector):
    """`columns` are selected; `bins` is for numbers without declared ones."""

    columns: int = 5
    bins: int = 8

    def __post_init__(self) -> None:
        expect_count("top", columns=self.columns, bins=self.bins)

    def cost(self, schema: Schema, noise: float) -> Event:
        slots(schema, self.bins)
        return limit(self.columns, schema) * Pure(epsilon=1 / noise)

    def run(self, data: Data, noise: float, rng: Rng) -> tuple[str, ...]:
        sizes = slots(data.schema, self.bins)
        scores = (1 - MARGIN) * dependence(data, self.bins) - by_chance(sizes, data.schema.rows)
        left = np.arange(len(scores))
        for _ in range(limit(self.columns, data.schema)):
            at = rng.choose(scores[left], epsilon=1 / noise, sensitivity=4.0)
            left = np.delete(left, at)
        return chosen(data.schema, ~np.isin(np.arange(len(scores)), left))


def dependence(data: Data, bins: int) -> np.ndarray:
    """T of every column: the L1 distance of its table with the target from independence, in rows."""
    sizes = slots(data.schema, bins)
    exact = np.zeros((sum(sizes), sizes[-1]), dtype=np.int64)
    for block in blocks(data, bins):
        exact += (block.T @ block[:, -sizes[-1] :]).astype(np.int64)  # whole numbers below 2^24: exact in float32
    return distances(exact[: -sizes[-1]], np.diagonal(exact[-sizes[-1] :]), sizes[:-1])


def distances(table: np.ndarray, classes: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """T of columns with these numbers of slots, from the counts (slots, classes) and those of the classes."""
    total = max(int(classes.sum()), 1)
    whole = np.int64 if total < 2**31 else object  # Python's numbers, where products exceed 64 bits
    counts = table.astype(whole)
    deviation = np.abs(total * counts - np.outer(counts.sum(axis=1), classes.astype(whole))).sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return np.array([int(column) / total for column in np.add.reduceat(deviation, starts)])


def by_chance(sizes: tuple[int, ...], rows: int) -> np.ndarray:
    """The largest expected T when column and target are independent: all slots equally likely.

    >>> by_chance((2, 5, 2), 100).round(1).tolist()
    [8.0, 16.0]
    """
    freedom = (np.array(sizes[:-1]) - 1.0) * (sizes[-1] - 1.0)
    return np.asarray(np.sqrt(2 * rows * freedom / np.pi))
