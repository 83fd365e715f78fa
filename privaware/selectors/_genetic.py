"""A genetic search over sets of columns; a population is a boolean matrix (sets, columns)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from privaware._validate import expect_count, expect_fraction
from privaware.errors import WrongInput

Fitness = Callable[[np.ndarray], np.ndarray]
"""A function from sets of columns, as a boolean matrix (sets, columns), to their scores (sets,)."""


@dataclass(frozen=True, kw_only=True)
class Evolution:
    """Settings of a genetic search: `generations` generations of `population` sets of 1 to `most` columns.

    The best fraction `keep` of a population, but at least two sets, become parents. A child is a crossover of two
    parents with probability `crossover`, a mutation of one parent with probability `mutation`, and otherwise a copy of
    one parent. A crossover takes each column from either parent with equal probability. A mutation adds or removes each
    column with probability 1 / columns.
    """

    population: int
    generations: int
    keep: float
    crossover: float
    mutation: float
    most: int

    @classmethod
    def of(cls, selector: Any, most: int) -> Evolution:
        """Return the search of sets of at most `most` columns with the settings in the fields of `selector`."""
        names = [item.name for item in fields(cls) if item.name != "most"]
        return cls(most=most, **{name: getattr(selector, name) for name in names})

    def search(self, width: int, fitness: Fitness, rng: np.random.Generator) -> np.ndarray:
        """Return the set with the largest score of all generations, as a mask (width,) over `width` columns.

        `fitness` maps sets, a boolean matrix (sets, width), to their scores (sets,). It is called once for each
        generation. If it uses released scores only, the search is post-processing.
        """
        population = self.first(width, rng)
        parents = min(self.population, max(2, round(self.keep * self.population)))
        best, top = population[0], -np.inf
        for left in reversed(range(self.generations)):
            scores = fitness(population)
            order = np.argsort(-scores, kind="stable")
            if scores[order[0]] > top:
                best, top = population[order[0]], float(scores[order[0]])
            if left:
                population = self._children(population[order[:parents]], rng)
        return best

    def first(self, width: int, rng: np.random.Generator) -> np.ndarray:
        """Return masks (population, width) of random sets; every size from 1 to min(most, width) is equally likely."""
        sizes = rng.integers(1, min(self.most, width) + 1, size=(self.population, 1))
        return _ranks(rng.random((self.population, width))) < sizes

    def _children(self, parents: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        width, count = parents.shape[1], self.population
        one = rng.integers(len(parents), size=count)
        two = (one + rng.integers(1, max(len(parents), 2), size=count)) % len(parents)
        first, second = parents[one], parents[two]
        draws = rng.random((count, 1))
        mixed = np.where(rng.random((count, width)) < 0.5, first, second)
        flipped = first ^ (rng.random((count, width)) < 1 / width)
        children = np.where(draws < self.crossover, mixed, first)
        mutated = (draws >= self.crossover) & (draws < self.crossover + self.mutation)
        return self._within_limits(np.where(mutated, flipped, children), rng)

    def _within_limits(self, masks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Give each empty set one random column, and remove random columns from sets of more than `most` columns.

        `masks` (sets, columns) is changed in place and returned.
        """
        keys = rng.random(masks.shape)
        empty = ~masks.any(axis=1)
        masks[empty] = keys[empty] == keys[empty].max(axis=1, keepdims=True)
        large = masks.sum(axis=1) > self.most
        masks[large] &= _ranks(np.where(masks[large], keys[large], 2.0)) < self.most
        return masks


def _ranks(keys: np.ndarray) -> np.ndarray:
    """Return the rank of each entry within its row: 0 for the smallest."""
    return np.asarray(keys.argsort(axis=1).argsort(axis=1))


def expect_search(name: str, selector: Any) -> None:
    """Raise `WrongInput`, which starts with `name`, unless the fields of `selector` are settings of a genetic search.

    `columns` is None or at least 1, `population` at least 2 and `generations` at least 1. The rates `keep`, `crossover`
    and `mutation` are in [0, 1], and `crossover + mutation` is at most 1.
    """
    expect_count(name, optional=True, columns=selector.columns)
    expect_count(name, 2, population=selector.population)
    expect_count(name, generations=selector.generations)
    crossover, mutation = selector.crossover, selector.mutation
    expect_fraction(name, keep=selector.keep, crossover=crossover, mutation=mutation)
    if crossover + mutation > 1:
        raise WrongInput(f"{name}: expected crossover + mutation at most 1, got {crossover:g} + {mutation:g}")
