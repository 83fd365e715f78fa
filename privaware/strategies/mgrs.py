"""Random search in generations: each starts from the best winner so far, changed or drawn anew.

Paper: Bao, Bauer and Bindschaedler, MGRS (their Algorithm 3): 40, 20 and 10 candidates, changed with probability 0.7.
They price the three generations by the formula of RS, whose argument is upside down, and release the last winner; all
winners are paid for, so here the best of them is released.
Privacy: (epsilon, delta) for one row added or removed. Each generation is a random search of its own (see `rs`): a
secret number of trials, drawn alike given the earlier generations' winners, of which the best is shown. The prices of
the generations are composed.
Use when: good candidates are rare and alike, so that looking near the best one pays for its price.

>>> from privaware.events import Gaussian
>>> from privaware.models.spaces import Space
>>> [each.law.mean for each in Mgrs().rounds(Space.load("fcn"), Gaussian(noise=4.0))]
[40.0, 20.0, 10.0]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaware._validate import expect_count, expect_fraction
from privaware.errors import WrongInput
from privaware.events import Event
from privaware.models.spaces import Space
from privaware.strategies._strategy import Ask, Keeping, Law, Round

__all__ = ["Mgrs"]


@dataclass(frozen=True, kw_only=True)
class Mgrs:
    """Mean numbers of trials by the logarithmic law, one a generation (`trials` in all scales them)."""

    adaptive: ClassVar[bool] = True

    generations: tuple[int, ...] = (40, 20, 10)
    trials: int | None = None
    mutation: float = 0.7

    def __post_init__(self) -> None:
        if not isinstance(self.generations, (list, tuple)) or not self.generations:
            raise WrongInput(f"mgrs: expected generations as a list of counts, got {self.generations!r}")
        object.__setattr__(self, "generations", tuple(self.generations))
        for count in self.generations:
            expect_count("mgrs", generations=count)
        expect_count("mgrs", optional=True, trials=self.trials)
        expect_fraction("mgrs", mutation=self.mutation)

    def rounds(self, space: Space, once: Event) -> tuple[Round, ...]:
        scale = 1.0 if self.trials is None else self.trials / sum(self.generations)
        return tuple(Round(law=Law(mean=max(count * scale, 1.01))) for count in self.generations)

    def start(self, space: Space, rng: np.random.Generator) -> Generations:
        return Generations(space=space, rng=rng, mutation=self.mutation)


@dataclass(kw_only=True)
class Generations(Keeping):
    """Draws around the best winner."""

    mutation: float

    def ask(self, count: int) -> list[Ask]:
        return [Ask(point=self._drawn()) for _ in range(count)]

    def _drawn(self) -> dict[str, object]:
        if not self.told or self.rng.random() >= self.mutation:
            return self.space.draw(self.rng)
        return self.space.mutated(self.best().point, self.rng)
