"""Genetic architecture search: candidates breed, and their fitness is the private model's own noisy accuracy.

A generation is trained, scored on rows that train nothing, and ranked; the best `keep` share and a random `spare`
share of the rest stay as parents, with their scores; children, which take each choice from one of two parents and are
changed with probability `mutation`, fill the places of the others.

Paper: Bao, Bauer and Bindschaedler, PAAS (their Algorithm 1), 6 generations of 10; keep, spare and mutation are not
stated there (0.4, 0.1 and 0.2 are those of the code they credit). Their overall price, 22.3, follows from neither of
their formulas.
Privacy: (epsilon, delta) for one row added or removed. Ranking and breeding see every score, so every trial is paid
for by tight composition: the first generation and the children of each later one train on one part of the rows, and
as many noisy scores come from the other. Models are kept, so the winner is released without training it again.
Use when: the search is on public rows, where it is free, or the budget of one model is small beside the whole.

>>> from privaware.events import Gaussian
>>> from privaware.models.spaces import Space
>>> [each.count for each in Paas(generations=3, population=10).rounds(Space.load("fcn"), Gaussian(noise=4.0))]
[10, 5, 5]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from privaware._validate import expect_count, expect_fraction
from privaware.events import Event
from privaware.models.spaces import Point, Space, key
from privaware.strategies._strategy import Ask, Keeping, Round, Trial

__all__ = ["Paas"]

TRIES = 50
"""How often a candidate that was tried before is made anew before it may stay."""


@dataclass(frozen=True, kw_only=True)
class Paas:
    """With `trials` the generations are as many as it takes to try so many."""

    adaptive: ClassVar[bool] = True

    generations: int = 6
    population: int = 10
    trials: int | None = None
    keep: float = 0.4
    spare: float = 0.1
    mutation: float = 0.2

    def __post_init__(self) -> None:
        expect_count("paas", generations=self.generations, population=self.population)
        expect_count("paas", optional=True, trials=self.trials)
        expect_fraction("paas", keep=self.keep, spare=self.spare, mutation=self.mutation)

    def rounds(self, space: Space, once: Event) -> tuple[Round, ...]:
        born = self.population - self.parents(self.population)
        counts = [self.population] + [born] * (self.generations - 1 if born else 0)
        if self.trials is not None:
            later = max(0, self.trials - self.population)
            full, rest = divmod(later, born) if born else (0, 0)
            counts = [min(self.population, self.trials), *[born] * full, *([rest] if rest else [])]
        return tuple(Round(count=count) for count in counts)

    def parents(self, ranked: int) -> int:
        """How many of a generation stay."""
        top = max(1, round(self.keep * ranked))
        return min(ranked, top + round(self.spare * ranked))

    def start(self, space: Space, rng: np.random.Generator) -> Breeding:
        return Breeding(space=space, rng=rng, strategy=self)


@dataclass(kw_only=True)
class Breeding(Keeping):
    """Generations of points; `known` holds every score there is."""

    strategy: Paas
    known: dict[str, Trial] = field(default_factory=dict)
    generation: list[Point] = field(default_factory=list)

    def ask(self, count: int) -> list[Ask]:
        """New candidates: the first generation, or children for the places of those that do not stay."""
        stay = self._stay() if self.generation else []
        born: list[Point] = []
        while len(born) < count:
            born.append(self._fresh(stay, {key(point) for point in born}))
        self.generation = stay + born
        new = {key(point): point for point in born if key(point) not in self.known}
        return [Ask(point=point) for point in new.values()]

    def tell(self, trials: Sequence[Trial]) -> None:
        super().tell(trials)
        self.known |= {key(trial.point): trial for trial in trials}

    def best(self) -> Trial:
        """The top of the last generation."""
        return self._ranked()[0]

    def _ranked(self) -> list[Trial]:
        them = {key(point): self.known[key(point)] for point in self.generation}
        return sorted(them.values(), key=lambda trial: -trial.score)

    def _stay(self) -> list[Point]:
        """The best, and a few of the others by chance."""
        ranked = self._ranked()
        top = max(1, round(self.strategy.keep * len(ranked)))
        rest = ranked[top:]
        lucky = self.rng.permutation(len(rest))[: self.strategy.parents(len(ranked)) - top]
        return [trial.point for trial in ranked[:top]] + [rest[int(at)].point for at in lucky]

    def _fresh(self, parents: list[Point], born: set[str]) -> Point:
        """A new candidate where one can be found: a score that is paid for should say something."""
        made = self._one(parents)
        for _ in range(TRIES):
            if key(made) not in self.known and key(made) not in born:
                break
            made = self._one(parents)
        return made

    def _one(self, parents: list[Point]) -> Point:
        if not parents:
            return self.space.draw(self.rng)
        one, two = (parents[int(self.rng.integers(len(parents)))] for _ in range(2))
        child = self.space.crossed(one, two, self.rng)
        if self.rng.random() < self.strategy.mutation:
            child = self.space.mutated(child, self.rng)
        return child
