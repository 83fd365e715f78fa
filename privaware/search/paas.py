"""Genetic architecture search: candidates breed, and their fitness is the private model's own noisy accuracy.

A generation is trained, scored on rows that train nothing, and ranked; the best `keep` share and a random `spare`
share of the rest are parents; children take each choice from one of two parents and are changed with probability
`mutation`. A candidate that comes up again keeps its score.

Paper: Bao, Bauer and Bindschaedler, PAAS (their Algorithm 1), 6 generations of 10; keep, spare and mutation are not
stated there (0.4, 0.1 and 0.2 are those of the code they credit). Their overall price, 22.3, follows from neither of
their formulas.
Privacy: (epsilon, delta) for one row added or removed. Ranking and breeding see every score, so every trial is paid
for by tight composition: `generations` x `population` trainings on one part of the rows, and as many noisy scores on
the other. Models are kept, so the winner is released without training it again.
Use when: the search is on public rows, where it is free, or the budget of one model is small beside the whole.

>>> from privaware.events import Gaussian
>>> from privaware.space import Space
>>> [each.count for each in Paas(generations=3, population=4).rounds(Space.load("fcn"), Gaussian(noise=4.0))]
[4, 4, 4]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from privaware.events import Event
from privaware.search._strategy import Ask, Keeping, Round, Trial, expect_counts, expect_shares
from privaware.space import Point, Space, key

__all__ = ["Paas"]

TRIES = 50
"""How often a child that was tried before is drawn anew before it may stay."""


@dataclass(frozen=True, kw_only=True)
class Paas:
    """`trials` left out is generations x population; otherwise the generations are as many as fit."""

    adaptive: ClassVar[bool] = True

    generations: int = 6
    population: int = 10
    trials: int | None = None
    keep: float = 0.4
    spare: float = 0.1
    mutation: float = 0.2

    def __post_init__(self) -> None:
        expect_counts(
            "paas", generations=self.generations, population=self.population, trials=self.trials
        )
        expect_shares("paas", keep=self.keep, spare=self.spare, mutation=self.mutation)

    def rounds(self, space: Space, once: Event) -> tuple[Round, ...]:
        if self.trials is None:
            return (Round(count=self.population),) * self.generations
        full, rest = divmod(self.trials, self.population)
        return (Round(count=self.population),) * full + ((Round(count=rest),) if rest else ())

    def start(self, space: Space, rng: np.random.Generator) -> Breeding:
        return Breeding(space=space, rng=rng, strategy=self)


@dataclass(kw_only=True)
class Breeding(Keeping):
    """Generations of points; `known` holds every score there is."""

    strategy: Paas
    known: dict[str, Trial] = field(default_factory=dict)
    generation: list[Point] = field(default_factory=list)

    def ask(self, count: int) -> list[Ask]:
        """The candidates of the next generation that are new; the others keep their score."""
        self.generation = self._bred(count) if self.generation else self._first(count)
        fresh = {key(point): point for point in self.generation}
        return [Ask(point=point) for name, point in fresh.items() if name not in self.known]

    def tell(self, trials: Sequence[Trial]) -> None:
        super().tell(trials)
        self.known |= {key(trial.point): trial for trial in trials}

    def best(self) -> Trial:
        """The top of the last generation."""
        return self._ranked()[0]

    def _ranked(self) -> list[Trial]:
        them = {key(point): self.known[key(point)] for point in self.generation}
        return sorted(them.values(), key=lambda trial: -trial.score)

    def _first(self, count: int) -> list[Point]:
        return [self.space.draw(self.rng) for _ in range(count)]

    def _bred(self, count: int) -> list[Point]:
        ranked = self._ranked()
        top = max(1, round(self.strategy.keep * len(ranked)))
        rest = ranked[top:]
        lucky = min(len(rest), round(self.strategy.spare * len(ranked)))
        chosen = self.rng.permutation(len(rest))[:lucky]
        parents = [trial.point for trial in ranked[:top]] + [rest[int(at)].point for at in chosen]
        children = parents[:count]
        while len(children) < count:
            children.append(self._child(parents))
        return children

    def _child(self, parents: list[Point]) -> Point:
        """A new candidate where one can be found: a score that is paid for should say something."""
        child = parents[0]
        for _ in range(TRIES):
            one, two = (parents[int(self.rng.integers(len(parents)))] for _ in range(2))
            child = self.space.crossed(one, two, self.rng)
            if self.rng.random() < self.strategy.mutation:
                child = self.space.mutated(child, self.rng)
            if key(child) not in self.known:
                break
        return child
