"""Correlation-based selection by genetic search: the set of highest merit, of any size.

The released numbers and the merit of a set are the same as in `cfs_greedy`. A population of sets evolves for
`generations` generations, and the set of highest merit of all generations is selected.

Paper: Bao, Bauer and Bindschaedler, On the importance of architecture and feature selection in differentially private
machine learning, algorithm 4; the paper does not give the rates of parents, crossover and mutation.
Privacy: (epsilon, delta) for one row added or removed, by the one Gaussian release of `_tables`. The search is
post-processing, however large the population.
Use when: as `cfs_greedy`, if good sets cannot be found by adding one column at a time.

>>> from privaware.noise import Rng
>>> from privaware.testing import example, rows_for
>>> small = CfsGa(columns=1, population=20, generations=3)
>>> small.run(rows_for(example(rows=2000), 2000), noise=1.0, rng=Rng(seed=1))
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
from privaware.selectors._genetic import Evolution, expect_search
from privaware.selectors._tables import chosen, limit, release, slots, uncertainties

__all__ = ["CfsGa"]


@dataclass(frozen=True, kw_only=True)
class CfsGa(Selector):
    """Correlation-based selection by genetic search.

    Parameters
    ----------
    columns : int, optional
        Largest number of columns that are selected; by default all columns may be.
    population, generations : int
        Number of sets in a generation, and number of generations.
    keep : float
        Fraction of a generation that become parents; at least two sets do.
    crossover, mutation : float
        Probabilities that a child is a crossover of two parents, or a mutation of one.
    bins : int
        Number of bins for numbers without declared bins, and for a regression target.
    """

    in_parts: ClassVar[bool] = True

    columns: int | None = None
    population: int = 5000
    generations: int = 10
    keep: float = 0.2
    crossover: float = 0.7
    mutation: float = 0.2
    bins: int = 8

    def __post_init__(self) -> None:
        expect_search("cfs_ga", self)
        expect_count("cfs_ga", bins=self.bins)

    def cost(self, schema: Schema, noise: float) -> Event:
        slots(schema, self.bins)
        return Gaussian(noise=noise)

    def run(self, data: Rows, noise: float, rng: Rng) -> tuple[str, ...]:
        shared = uncertainties(release(data, self.bins, noise, rng))
        search = Evolution.of(self, limit(self.columns, data.schema))
        width = len(data.schema.used)
        best = search.search(width, lambda masks: merits(masks, shared), rng.initial)
        return chosen(data.schema, best)


def merits(masks: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """Return the merit `k * r / sqrt(k + k * (k - 1) * f)` of each set in `masks`, a boolean matrix (sets, columns).

    k is the number of columns in the set, r the mean symmetrical uncertainty of its columns with the target, and f the
    mean symmetrical uncertainty of pairs of its columns. `shared` has the symmetrical uncertainties of all pairs, the
    target last. The empty set has merit 0.

    >>> two = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])  # a column and its copy
    >>> merits(np.array([[True, False], [True, True]]), two).tolist()
    [0.5, 0.5]
    """
    inside = masks.astype(float)
    related = inside @ shared[:-1, -1]
    among = shared[:-1, :-1] * (1 - np.eye(len(shared) - 1))
    twice = ((inside @ among) * inside).sum(axis=1)  # every pair counted in both orders
    return np.asarray(related / np.sqrt(np.maximum(inside.sum(axis=1) + twice, 1e-300)))
