"""Many candidates start, and after each lap the slower ones stop.

All candidates train a first lap; their noisy scores decide which `1 / faster` of them go on from where they are, for
a lap as long as all laps before; and so on until one has trained to its end.

Paper: successive halving, Jamieson and Talwalkar 2016, arXiv:1502.07943, here at its honest price.
Privacy: (epsilon, delta) for one row added or removed. Laps and numbers are fixed before a row is read, so the price
is that of the steps that were really taken by all candidates, composed, beside one noisy score each lap: stopping
early is what makes it cheaper than training all to the end.
Use when: the first steps of a training tell good from bad, and rows are public or the candidates few.

>>> from privaware.events import Gaussian
>>> from privaware.models.spaces import Space
>>> [(each.count, each.share) for each in Racing(candidates=8).rounds(Space.load("fcn"), Gaussian(noise=4.0))]
[(8, 0.125), (4, 0.125), (2, 0.25), (1, 0.5)]
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from privaware._validate import expect_count
from privaware.errors import WrongInput
from privaware.events import Event
from privaware.models.spaces import Space
from privaware.strategies._strategy import Ask, Keeping, Round, Trial

__all__ = ["Racing"]


@dataclass(frozen=True, kw_only=True)
class Racing:
    """`candidates` start (`trials` is another word for it); each lap the best one in `faster` of them go on."""

    adaptive: ClassVar[bool] = True

    candidates: int = 16
    trials: int | None = None
    faster: int = 2

    def __post_init__(self) -> None:
        expect_count("racing", candidates=self.candidates)
        expect_count("racing", optional=True, trials=self.trials)
        if isinstance(self.faster, bool) or not isinstance(self.faster, int) or self.faster < 2:
            raise WrongInput(f"racing: expected faster as a whole number >= 2, got {self.faster!r}")

    def rounds(self, space: Space, once: Event) -> tuple[Round, ...]:
        counts = [self.trials or self.candidates]
        while counts[-1] > 1:
            counts.append(max(1, counts[-1] // self.faster))
        done = [float(self.faster) ** -(len(counts) - 1 - at) for at in range(len(counts))]
        laps = [done[0], *(after - before for before, after in itertools.pairwise(done))]
        return tuple(Round(count=n, share=lap) for n, lap in zip(counts, laps, strict=True))

    def start(self, space: Space, rng: np.random.Generator) -> Race:
        return Race(space=space, rng=rng)


@dataclass(kw_only=True)
class Race(Keeping):
    running: list[Trial] = field(default_factory=list)

    def ask(self, count: int) -> list[Ask]:
        if not self.running:
            return [Ask(point=self.space.draw(self.rng)) for _ in range(count)]
        ahead = sorted(self.running, key=lambda trial: -trial.score)[:count]
        return [Ask(point=trial.point, after=trial.number) for trial in ahead]

    def tell(self, trials: Sequence[Trial]) -> None:
        super().tell(trials)
        self.running = list(trials)

    def best(self) -> Trial:
        return max(self.running, key=lambda trial: trial.score)
