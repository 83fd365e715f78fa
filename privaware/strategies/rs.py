"""Random search: a secret number of candidates drawn alike, of which only the best is shown.

Paper: Bao, Bauer and Bindschaedler, RS (their Algorithm 2), who try exactly 400 and price them by a formula with its
argument upside down; a fixed number of hidden runs has no such price. Private selection: Papernot and Steinke 2022,
arXiv:2110.03620; Koskela, Redberg and Wang 2024, arXiv:2402.06701.
Privacy: (epsilon, delta) for one row added or removed. The number of trials comes from a truncated negative binomial
law and stays secret, every trial draws its candidate on its own, and nothing is remembered between trials; then the
best of them costs about two to three trials, whatever their mean number. The training rows and the rows that score
are disjoint, and the score has noise.
Use when: the search has to see private rows. It is the cheapest way to look at many candidates.

>>> from privaware.events import Gaussian
>>> from privaware.models.spaces import Space
>>> space = Space.load("fcn")
>>> [round] = Rs(chance=0.9, top=0.1).rounds(space, Gaussian(noise=4.0))
>>> round.law.chance(0.1) > 0.899
True
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from privaware import accounting
from privaware._validate import expect_count, expect_fraction
from privaware.events import Event
from privaware.models.spaces import Space
from privaware.strategies._strategy import Ask, Keeping, Law, Round

__all__ = ["Rs"]

SHAPES = (0.5, 1.0, 2.0)
"""Of the laws compared; below 0.5 a chance of 0.9 takes thousands of trials."""
DELTA = 1e-5


@dataclass(frozen=True, kw_only=True)
class Rs:
    """`trials` on average by the logarithmic law; left out, the cheapest law that finds one of the best `top`
    candidates with this `chance`."""

    adaptive: ClassVar[bool] = False

    trials: int | None = None
    chance: float = 0.9
    top: float = 0.1

    def __post_init__(self) -> None:
        expect_count("rs", optional=True, trials=self.trials)
        expect_fraction("rs", chance=self.chance, top=self.top)

    def rounds(self, space: Space, once: Event) -> tuple[Round, ...]:
        if self.trials is not None:
            return (Round(law=Law(mean=max(float(self.trials), 1.01))),)
        return (Round(law=cheapest(once, self.chance, self.top)),)

    def start(self, space: Space, rng: np.random.Generator) -> Random:
        return Random(space=space, rng=rng)


class Random(Keeping):
    """Asks for points at random."""

    def ask(self, count: int) -> list[Ask]:
        return [Ask(point=self.space.draw(self.rng)) for _ in range(count)]


@lru_cache(maxsize=64)
def cheapest(once: Event, chance: float, top: float) -> Law:
    """Of the laws with that chance, the one whose price is least; it depends on public facts only."""
    laws = [Law.finding(chance=chance, top=top, eta=eta) for eta in SHAPES]
    return min(laws, key=lambda law: accounting.epsilon(law.event(once), DELTA))
