"""Select columns greedily that correlate with the target but little with each other.

The merit of a set of k columns is k r / sqrt(k + k (k - 1) f), where r is the mean symmetrical uncertainty of the
columns with the target and f the mean symmetrical uncertainty of pairs of columns. The column that gives the highest
merit is added next, until all columns are in order. The first `columns` columns are selected. If `columns` is None, the
search selects as many columns as give the highest merit.

Paper: Hall 1999, Correlation-based feature selection for machine learning; Bao, Bauer and Bindschaedler, On the
importance of architecture and feature selection in differentially private machine learning, algorithm 3, which adds
noise to entropies. This module adds noise to two-way tables instead, which needs far less noise at the same cost;
`_tables` has the proof.
Privacy: (epsilon, delta) for one row added or removed, by one Gaussian release, which one row changes by at most 1 in
L2 norm. Uncertainties, merits and the search are post-processing of the release.
Use when: columns overlap (for example, several measurements of one thing) and there are thousands of rows.

>>> from privaware.noise import Rng
>>> from privaware.testing import example, rows_for
>>> CfsGreedy(columns=1).run(rows_for(example(rows=2000), 2000), noise=1.0, rng=Rng(seed=1))
('age',)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaware._validate import expect_count
from privaware.data import Rows
from privaware.events import Event, Gaussian
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.selectors import Selector
from privaware.selectors._tables import chosen, release, slots, uncertainties

__all__ = ["CfsGreedy"]


@dataclass(frozen=True, kw_only=True)
class CfsGreedy(Selector):
    """Correlation-based selection by greedy search.

    Parameters
    ----------
    columns : int, optional
        Number of columns to select, or all if the table has fewer; by default the number at which the merit is highest.
    bins : int
        Number of bins for numbers without declared bins, and for a regression target.
    """

    in_parts: ClassVar[bool] = True

    columns: int | None = None
    bins: int = 8

    def __post_init__(self) -> None:
        expect_count("cfs_greedy", optional=True, columns=self.columns)
        expect_count("cfs_greedy", bins=self.bins)

    def cost(self, schema: Schema, noise: float) -> Event:
        slots(schema, self.bins)
        return Gaussian(noise=noise)

    def run(self, data: Rows, noise: float, rng: Rng) -> tuple[str, ...]:
        shared = uncertainties(release(data, self.bins, noise, rng))
        order, merit = best_first(shared)
        size = int(np.argmax(merit)) + 1 if self.columns is None else self.columns
        return chosen(data.schema, np.isin(np.arange(len(order)), order[:size]))


def best_first(shared: np.ndarray) -> tuple[list[int], list[float]]:
    """Return the indices of all columns in the order in which a greedy search adds them, and the merit after each.

    `shared` is the result of `uncertainties`: the symmetrical uncertainties of all pairs of columns, the target last.
    """
    related, among = shared[:-1, -1], shared[:-1, :-1]
    left, order, gained = np.ones(len(related), dtype=bool), [], []
    sums, pairs, overlap = 0.0, 0.0, np.zeros(len(related))
    for size in range(1, len(related) + 1):
        merit = (sums + related) / np.sqrt(size + 2 * (pairs + overlap))
        at = int(np.argmax(np.where(left, merit, -1.0)))
        order.append(at)
        gained.append(float(merit[at]))
        sums, pairs, overlap = sums + related[at], pairs + overlap[at], overlap + among[at]
        left[at] = False
    return order, gained
