"""Random search in generations: a candidate is a mutation of the best trial so far, or a new random candidate.

Paper: Bao, Bauer and Bindschaedler, MGRS (section VIII-A, in words; no algorithm is printed): 40, 20 and 10 candidates,
mutated with probability 0.7. The paper computes the cost of the three generations by its formula for RS, whose argument
is inverted, and releases the best trial of the last generation. Here the best trial of every generation is charged, so
the best of them is released.
Privacy: (epsilon, delta) for one row added or removed. Each generation is a random search of its own (see `rs`): it has
a secret number of trials, which are identically distributed given the earlier results, and releases only the best. The
costs of the generations compose.
Use when: good candidates are rare and similar, so that trying neighbours of the best one is worth its cost.

>>> from privaware.events import Gaussian
>>> from privaware.models.spaces import Space
>>> [each.distribution.mean for each in Mgrs().rounds(Space.load("fcn"), Gaussian(noise=4.0))]
[40.0, 20.0, 10.0]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaware._validate import expect, expect_count, expect_fraction
from privaware.events import Event
from privaware.models.spaces import Point, Space
from privaware.strategies._strategy import Ask, Round, RoundStrategy, TrialCount, TrialHistory

__all__ = ["Mgrs"]


@dataclass(frozen=True, kw_only=True)
class Mgrs(RoundStrategy):
    """Random search in generations, with trial counts from the logarithmic distribution.

    Parameters
    ----------
    generations : tuple of int
        Expected number of trials of each generation; fewer than 1.01 count as 1.01.
    trials : int, optional
        Expected number of trials in all, to which `generations` are scaled.
    mutation : float
        After the first generation, the probability that a candidate is a mutation of the best trial so far; otherwise
        it is a new random candidate.
    """

    adaptive: ClassVar[bool] = True

    generations: tuple[int, ...] = (40, 20, 10)
    trials: int | None = None
    mutation: float = 0.7

    def __post_init__(self) -> None:
        listed = isinstance(self.generations, (list, tuple)) and len(self.generations) > 0
        expect(listed, "mgrs", "generations as a list of counts", self.generations)
        object.__setattr__(self, "generations", tuple(self.generations))
        for count in self.generations:
            expect_count("mgrs", generations=count)
        expect_count("mgrs", optional=True, trials=self.trials)
        expect_fraction("mgrs", mutation=self.mutation)

    def rounds(self, space: Space, once: Event) -> tuple[Round, ...]:
        scale = 1.0 if self.trials is None else self.trials / sum(self.generations)
        return tuple(Round(distribution=TrialCount(mean=max(count * scale, 1.01))) for count in self.generations)

    def start(self, space: Space, rng: np.random.Generator) -> Generations:
        return Generations(space=space, rng=rng, mutation=self.mutation)


@dataclass(kw_only=True)
class Generations(TrialHistory):
    """A searcher: each candidate is a mutation of the best trial so far with probability `mutation`, or else random.

    In the first generation all candidates are random.
    """

    mutation: float

    def ask(self, count: int) -> list[Ask]:
        return [Ask(point=self._candidate()) for _ in range(count)]

    def _candidate(self) -> Point:
        if not self.trials or self.rng.random() >= self.mutation:
            return self.space.draw(self.rng)
        return self.space.mutate(self.best().point, self.rng)
