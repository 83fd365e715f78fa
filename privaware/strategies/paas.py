"""Genetic architecture search: the fitness of a candidate is the noisy held-out accuracy of its private model.

A generation is trained, scored on validation rows and ranked. Parents are the best fraction `keep` of the candidates,
and random ones of the rest, as many as the fraction `spare` of all candidates. A child takes each choice from one of
two parents. With probability `mutation` it is then mutated.

Paper: Bao, Bauer and Bindschaedler, PAAS (their Algorithm 1, with Evolve, their Algorithm 2), 6 generations of 10. The
paper does not state keep, spare and mutation; 0.4, 0.1 and 0.2 are from the code that it credits. Algorithm 2 replaces
the entire population by children: `refill="all"`. A child that was trained before then keeps its score, as with the
memoisation of the paper. The default `refill="rest"` is not from the paper: parents stay in the population with their
scores, and children fill the remaining places. So a generation trains fewer candidates and never loses its best one,
and a child is bred again, up to 50 times, until it has not been tried yet. For 6 generations of 10, "all" is charged
for 60 trainings and "rest" for 35. The overall epsilon of the paper, 22.3, follows from neither of its formulas.
Privacy: (epsilon, delta) for one row added or removed. Ranking and breeding see every score, so every trial is charged
by tight composition. The trainings use the training rows, and as many noisy scores use the validation rows. Models are
kept, so the best model is released without another training.
Use when: the search is on public rows, where it has no privacy cost, or one model's epsilon is small beside the total.

>>> from privaware.events import Gaussian
>>> from privaware.models.spaces import Space
>>> space, once = Space.load("fcn"), Gaussian(noise=4.0)
>>> [each.count for each in Paas(generations=3, population=10).rounds(space, once)]
[10, 5, 5]
>>> [each.count for each in Paas(generations=3, population=10, refill="all").rounds(space, once)]
[10, 10, 10]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from privaware._validate import expect_count, expect_fraction, expect_one_of
from privaware.events import Event
from privaware.models.spaces import Point, Space, point_key
from privaware.strategies._strategy import Ask, Round, RoundStrategy, Trial, TrialHistory

__all__ = ["Paas"]

MAX_ATTEMPTS = 50
"""Number of times that a child which was already tried is bred again before it is accepted."""


@dataclass(frozen=True, kw_only=True)
class Paas(RoundStrategy):
    """Genetic search.

    Parameters
    ----------
    generations : int
        Number of generations.
    population : int
        Number of candidates of a generation.
    trials : int, optional
        Number of trials that are charged, in as many generations as it needs; it replaces `generations`.
    keep : float
        Fraction of a generation, the best candidates, that become parents; at least one does.
    spare : float
        Further parents as a fraction of the whole generation, drawn at random from the remaining candidates.
    mutation : float
        Probability that a child is mutated.
    refill : str
        "rest": parents stay in the population, and children fill the remaining places. "all": children replace the
        entire population.
    """

    adaptive: ClassVar[bool] = True

    generations: int = 6
    population: int = 10
    trials: int | None = None
    keep: float = 0.4
    spare: float = 0.1
    mutation: float = 0.2
    refill: str = "rest"

    def __post_init__(self) -> None:
        expect_count("paas", generations=self.generations, population=self.population)
        expect_count("paas", optional=True, trials=self.trials)
        expect_fraction("paas", keep=self.keep, spare=self.spare, mutation=self.mutation)
        expect_one_of("paas", ("rest", "all"), refill=self.refill)

    def rounds(self, space: Space, once: Event) -> tuple[Round, ...]:
        children = self.population - (self.parents(self.population) if self.refill == "rest" else 0)
        counts = [self.population] + [children] * (self.generations - 1 if children else 0)
        if self.trials is not None:
            later = max(0, self.trials - self.population)
            full, rest = divmod(later, children) if children else (0, 0)
            counts = [min(self.population, self.trials), *[children] * full, *([rest] if rest else [])]
        return tuple(Round(count=count) for count in counts)

    def parents(self, ranked: int) -> int:
        """Return the number of parents in a generation of `ranked` candidates.

        It is `max(1, round(keep * ranked)) + round(spare * ranked)`, but at most `ranked`.
        """
        top = max(1, round(self.keep * ranked))
        return min(ranked, top + round(self.spare * ranked))

    def start(self, space: Space, rng: np.random.Generator) -> Breeding:
        return Breeding(space=space, rng=rng, strategy=self)


@dataclass(kw_only=True)
class Breeding(TrialHistory):
    """The searcher of a genetic search, with the current `generation` of candidates.

    `strategy` has the settings. `scored` maps the `point_key` of every tried candidate to its trial. `best` returns the
    best trial of the current generation.
    """

    strategy: Paas
    scored: dict[str, Trial] = field(default_factory=dict)
    generation: list[Point] = field(default_factory=list)

    def ask(self, count: int) -> list[Ask]:
        """Return the candidates of the next generation that have not been tried yet; at most `count`.

        `count` children are bred. The first generation is drawn at random from the space.
        """
        parents = self._parents() if self.generation else []
        children: list[Point] = []
        while len(children) < count:
            children.append(self._child(parents, {point_key(point) for point in children}))
        self.generation = children if self.strategy.refill == "all" else parents + children
        new = {point_key(point): point for point in children if point_key(point) not in self.scored}
        return [Ask(point=point) for point in new.values()]

    def tell(self, trials: Sequence[Trial]) -> None:
        super().tell(trials)
        self.scored |= {point_key(trial.point): trial for trial in trials}

    def best(self) -> Trial:
        """Return the best trial of the last generation, to which parents belong with `refill="rest"`."""
        return self._ranked()[0]

    def _ranked(self) -> list[Trial]:
        unique = {point_key(point): self.scored[point_key(point)] for point in self.generation}
        return sorted(unique.values(), key=lambda trial: -trial.score)

    def _parents(self) -> list[Point]:
        """Return the parents: the best candidates of the current generation, then randomly chosen other candidates."""
        ranked = self._ranked()
        top = max(1, round(self.strategy.keep * len(ranked)))
        rest = ranked[top:]
        spared = self.rng.permutation(len(rest))[: self.strategy.parents(len(ranked)) - top]
        return [trial.point for trial in ranked[:top]] + [rest[int(at)].point for at in spared]

    def _child(self, parents: list[Point], siblings: set[str]) -> Point:
        """Return a child that differs from `siblings` and, with `refill="rest"`, from every candidate tried so far.

        `siblings` are the keys (`point_key`) of other children. Without `parents` the child is drawn from the space.
        After `MAX_ATTEMPTS` further attempts, return the last child, even if it does not differ.
        """
        tried = siblings if self.strategy.refill == "all" else siblings | self.scored.keys()
        child = self._bred(parents)
        for _ in range(MAX_ATTEMPTS):
            if point_key(child) not in tried:
                break
            child = self._bred(parents)
        return child

    def _bred(self, parents: list[Point]) -> Point:
        if not parents:
            return self.space.draw(self.rng)
        one, two = (parents[int(self.rng.integers(len(parents)))] for _ in range(2))
        child = self.space.cross(one, two, self.rng)
        if self.rng.random() < self.strategy.mutation:
            child = self.space.mutate(child, self.rng)
        return child
