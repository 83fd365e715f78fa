"""Random search: a secret number of independent random candidates, of which only the best is released.

Paper: Bao, Bauer and Bindschaedler, RS (section VIII-A, in words; no algorithm is printed), who try exactly 400 and
price them by a formula with its argument inverted; a fixed number of trials has no such price. Private selection:
Papernot and Steinke 2022, arXiv:2110.03620; Koskela, Redberg and Wang 2024, arXiv:2402.06701.
Privacy: (epsilon, delta) for one row added or removed. The number of trials has a truncated negative binomial
distribution and stays secret, every trial samples its candidate independently, and nothing is remembered between
trials; then the best of them costs about two to three trials, whatever their mean number. Training and validation rows
are disjoint, and the score has noise.
Use when: the search has to see private rows. It is the cheapest way to try many candidates.

>>> from privaware.events import Gaussian
>>> from privaware.models.spaces import Space
>>> space = Space.load("fcn")
>>> [round] = Rs(chance=0.9, top=0.1).rounds(space, Gaussian(noise=4.0))
>>> round.distribution.chance(0.1) > 0.899
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
from privaware.strategies._price import REFERENCE_DELTA
from privaware.strategies._strategy import Ask, Round, RoundStrategy, TrialCount, TrialHistory

__all__ = ["Rs"]

SHAPES = (0.5, 1.0, 2.0)
"""Of the trial-count distributions compared; below 0.5 a chance of 0.9 takes thousands of trials."""


@dataclass(frozen=True, kw_only=True)
class Rs(RoundStrategy):
    """`trials` on average by the logarithmic distribution; left out, by the cheapest distribution that tries one of the
    best `top` candidates with this `chance`."""

    adaptive: ClassVar[bool] = False

    trials: int | None = None
    chance: float = 0.9
    top: float = 0.1

    def __post_init__(self) -> None:
        expect_count("rs", optional=True, trials=self.trials)
        expect_fraction("rs", chance=self.chance, top=self.top)

    def rounds(self, space: Space, once: Event) -> tuple[Round, ...]:
        if self.trials is not None:
            return (Round(distribution=TrialCount(mean=max(float(self.trials), 1.01))),)
        return (Round(distribution=cheapest(once, self.chance, self.top)),)

    def start(self, space: Space, rng: np.random.Generator) -> Random:
        return Random(space=space, rng=rng)


class Random(TrialHistory):
    """Asks for random points."""

    def ask(self, count: int) -> list[Ask]:
        return [Ask(point=self.space.draw(self.rng)) for _ in range(count)]


@lru_cache(maxsize=64)
def cheapest(once: Event, chance: float, top: float) -> TrialCount:
    """Of the distributions with that chance, the one that costs least; it depends on public facts only."""
    counts = [TrialCount.with_chance(chance=chance, top=top, eta=eta) for eta in SHAPES]
    return min(counts, key=lambda count: accounting.epsilon(count.selected(once), REFERENCE_DELTA))
