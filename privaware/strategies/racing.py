"""Successive halving: many candidates train a little, and after each round only the best continue.

All candidates train for a first fraction of the steps. Their noisy scores decide which `1 / faster` of them continue
from their weights. After a round, a candidate has trained `faster` times as many steps as before it. This repeats until
one candidate is fully trained.

Paper: Jamieson and Talwalkar 2016, arXiv:1502.07943, charged at its full cost.
Privacy: (epsilon, delta) for one row added or removed. Fractions and counts are fixed before a row is read. The cost is
the composition of the steps of all candidates and of one noisy score for each candidate in each round. Stopping early
makes it cheaper than training all candidates fully.
Use when: the first steps of a training separate good candidates from bad, and rows are public or candidates few.

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
from privaware.events import Event
from privaware.models.spaces import Space
from privaware.strategies._strategy import Ask, Round, RoundStrategy, Trial, TrialHistory

__all__ = ["Racing"]


@dataclass(frozen=True, kw_only=True)
class Racing(RoundStrategy):
    """Successive halving.

    Parameters
    ----------
    candidates : int
        Number of candidates of the first round.
    trials : int, optional
        Number of candidates of the first round, not of all trials; it replaces `candidates`.
    faster : int
        After each round the best `1 / faster` of the candidates (rounded down) continue, but at least one.
    """

    adaptive: ClassVar[bool] = True

    candidates: int = 16
    trials: int | None = None
    faster: int = 2

    def __post_init__(self) -> None:
        expect_count("racing", candidates=self.candidates)
        expect_count("racing", optional=True, trials=self.trials)
        expect_count("racing", 2, faster=self.faster)

    def rounds(self, space: Space, once: Event) -> tuple[Round, ...]:
        counts = [self.trials or self.candidates]
        while counts[-1] > 1:
            counts.append(max(1, counts[-1] // self.faster))
        trained = [float(self.faster) ** -(len(counts) - 1 - at) for at in range(len(counts))]
        shares = [trained[0], *(after - before for before, after in itertools.pairwise(trained))]
        return tuple(Round(count=count, share=share) for count, share in zip(counts, shares, strict=True))

    def start(self, space: Space, rng: np.random.Generator) -> Race:
        return Race(space=space, rng=rng)


@dataclass(kw_only=True)
class Race(TrialHistory):
    """A searcher that asks for random candidates first, and later for the best candidates of the round before.

    A candidate of a later round continues from its weights. `running` are the trials of the last round; `best` returns
    the one with the highest score.
    """

    running: list[Trial] = field(default_factory=list)

    def ask(self, count: int) -> list[Ask]:
        if not self.running:
            return [Ask(point=self.space.draw(self.rng)) for _ in range(count)]
        leading = sorted(self.running, key=lambda trial: -trial.score)[:count]
        return [Ask(point=trial.point, after=trial.number) for trial in leading]

    def tell(self, trials: Sequence[Trial]) -> None:
        super().tell(trials)
        self.running = list(trials)

    def best(self) -> Trial:
        return max(self.running, key=lambda trial: trial.score)
