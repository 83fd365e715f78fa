"""Random search: it tries a secret number of independent random candidates and releases only the best.

Paper: Bao, Bauer and Bindschaedler, RS (section VIII-A, in words; no algorithm is printed). The paper tries exactly 400
candidates and computes their cost by a formula with its argument inverted; the formula does not hold for a fixed number
of trials. Private selection: Papernot and Steinke 2022, arXiv:2110.03620; Koskela, Redberg and Wang 2024,
arXiv:2402.06701.
Privacy: (epsilon, delta) for one row added or removed. The number of trials has a truncated negative binomial
distribution and stays secret. Every trial samples its candidate independently, and nothing is remembered between
trials. Then the best trial costs about two to three trials, whatever their expected number. Training and validation
rows are disjoint, and the score has noise.
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
"""Shapes `eta` of the compared trial-count distributions; below 0.5, a chance of 0.9 needs thousands of trials."""


@dataclass(frozen=True, kw_only=True)
class Rs(RoundStrategy):
    """Random search with a random number of trials.

    Parameters
    ----------
    trials : int, optional
        Expected number of trials, from the logarithmic distribution; 1 counts as 1.01. By default the cheapest
        distribution is used that tries one of the best candidates with probability `chance`.
    chance : float
        Without `trials`, the probability that at least one of the best candidates is tried.
    top : float
        Without `trials`, the fraction of all candidates that counts as best.
    """

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
    """A searcher that asks for independent random candidates."""

    def ask(self, count: int) -> list[Ask]:
        return [Ask(point=self.space.draw(self.rng)) for _ in range(count)]


@lru_cache(maxsize=64)
def cheapest(once: Event, chance: float, top: float) -> TrialCount:
    """Return the cheapest trial-count distribution that tries one of the best fraction `top` with probability `chance`.

    One distribution for each of `SHAPES` is compared. `once` is the cost of one trial, and the cheapest distribution
    has the smallest epsilon at `REFERENCE_DELTA`. The choice depends on public facts only.
    """
    counts = [TrialCount.with_chance(chance=chance, top=top, eta=eta) for eta in SHAPES]
    return min(counts, key=lambda count: accounting.epsilon(count.selected(once), REFERENCE_DELTA))
