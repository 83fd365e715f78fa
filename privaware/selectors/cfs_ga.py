"""Correlation-based selection by genetic search: the set of highest merit, of whatever size.

The same released uncertainties and merit as `cfs_greedy`; a population of sets evolves for some
generations, and the set of highest merit of all of them is selected.

Paper: Bao, Bauer and Bindschaedler, On the importance of architecture and feature selection in
    differentially private machine learning, algorithm 4; rates of parents, crossover and mutation
    are not in the paper.
Privacy: (epsilon, delta) for one row added or removed; the one Gaussian release of `_tables`. The
    search is post-processing, however large the population.
Use when: as `cfs_greedy`, where sets matter that no single column leads to.

>>> from privaware.noise import Rng
>>> from privaware.testing import example, rows_for
>>> small = CfsGa(columns=1, population=20, generations=3)
>>> small.run(rows_for(example(rows=2000), 2000), noise=1.0, rng=Rng(seed=1))
('age',)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privaware._validate import expect_count
from privaware.data import Rows
from privaware.events import Event, Gaussian
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.selectors import Selector
from privaware.selectors._genetic import Evolution, expect_rates, expect_search
from privaware.selectors._merit import merits
from privaware.selectors._tables import chosen, limit, release, slots, uncertainties

__all__ = ["CfsGa"]


@dataclass(frozen=True, kw_only=True)
class CfsGa(Selector):
    """At most `columns` are selected; `bins` is for numbers without declared ones."""

    in_parts: ClassVar[bool] = True

    columns: int | None = None
    population: int = 5000
    generations: int = 10
    keep: float = 0.2
    crossover: float = 0.7
    mutation: float = 0.2
    bins: int = 8

    def __post_init__(self) -> None:
        expect_search("cfs_ga", self.columns, self.population, self.generations)
        expect_rates("cfs_ga", self.keep, self.crossover, self.mutation)
        expect_count("cfs_ga", bins=self.bins)

    def cost(self, schema: Schema, noise: float) -> Event:
        slots(schema, self.bins)
        return Gaussian(noise=noise)

    def run(self, data: Rows, noise: float, rng: Rng) -> tuple[str, ...]:
        shared = uncertainties(release(data, self.bins, noise, rng))
        search = Evolution(
            population=self.population,
            generations=self.generations,
            keep=self.keep,
            crossover=self.crossover,
            mutation=self.mutation,
            most=limit(self.columns, data.schema),
        )
        width = len(data.schema.used)
        best = search.search(width, lambda masks: merits(masks, shared), rng.initial)
        return chosen(data.schema, best)
