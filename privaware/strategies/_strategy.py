"""What a strategy is: rounds of trials that are public in number or secret, and a searcher that asks and is told.

A strategy is a frozen dataclass of public settings. `rounds` says, from public facts, how many trials each round has;
`Search` prices the rounds, so that a strategy cannot be cheaper than what it does. `start` gives a searcher: `ask`
for at most so many candidates, `tell` what became of them, `best` at the end. The class attribute `adaptive` says
whether what is asked depends on what was told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from privaware import accounting
from privaware.errors import WrongInput
from privaware.events import Event, Pure, Selected
from privaware.models.spaces import Point, Space
from privaware.noise import Rng

__all__ = ["Ask", "Keeping", "Law", "Round", "Searcher", "Trial"]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A candidate to try; `after` is the number of an earlier trial whose model it goes on from."""

    point: Point
    after: int | None = None


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a strategy is told of a candidate: its noisy score, a share of 1, and the number it has."""

    number: int
    point: Point
    score: float


@dataclass(frozen=True, kw_only=True)
class Law:
    """How many trials there are is a secret: truncated negative binomial of shape `eta` (0: logarithmic).

    >>> law = Law.finding(chance=0.9, top=0.1, eta=1.0)
    >>> round(law.mean), round(law.chance(0.1), 6)
    (81, 0.9)
    """

    mean: float
    eta: float = 0.0

    def __post_init__(self) -> None:
        if not 1 < self.mean < 1e9 or self.eta < 0:
            raise WrongInput(f"expected a law of a mean number of trials above 1 and eta >= 0, got {self}")

    def event(self, once: Event) -> Event:
        """The price of showing only the best of so many."""
        name = "negative_binomial" if self.eta else "logarithmic"
        return Selected(event=once, law=name, mean=self.mean, shape=self.eta or None)

    def draw(self, rng: Rng) -> int:
        eta, gamma = self._parameters()
        return rng.runs(eta=eta, gamma=gamma)

    def chance(self, top: float) -> float:
        """That at least one of the trials is among the best `top` of all candidates."""
        eta, gamma = self._parameters()
        return 1 - _generating(1 - top, eta, gamma)

    @classmethod
    def finding(cls, *, chance: float, top: float, eta: float) -> Law:
        """The law with the fewest trials that finds one of the best `top` with this `chance`."""
        low, high = 1 + 1e-9, 1e8
        if cls(mean=high, eta=eta).chance(top) < chance:
            raise WrongInput(f"no law of shape {eta:g} finds one of the best {top:g} with chance {chance:g}")
        while high / low > 1 + 1e-9:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if cls(mean=middle, eta=eta).chance(top) >= chance else (middle, high)
        return cls(mean=high, eta=eta)

    def _parameters(self) -> tuple[float, float]:
        event = self.event(Pure(epsilon=1.0))
        assert isinstance(event, Selected)
        return accounting.law_parameters(event)


def _generating(x: float, eta: float, gamma: float) -> float:
    """E[x^K] of the truncated negative binomial law."""
    inside = 1 - (1 - gamma) * x
    if eta == 0:
        return math.log(inside) / math.log(gamma)
    return math.expm1(-eta * math.log(inside)) / math.expm1(-eta * math.log(gamma))


@dataclass(frozen=True, kw_only=True)
class Round:
    """`count` trials that the strategy is told of, or a secret number by `law` of which it is told the best.

    Each gets a `share` of the steps of a whole training.
    """

    count: int | None = None
    law: Law | None = None
    share: float = 1.0

    def __post_init__(self) -> None:
        if (self.count is None) == (self.law is None) or not 0 < self.share <= 1:
            raise WrongInput(f"expected a round of a count or a law, and a share in (0, 1], got {self}")

    @property
    def expected(self) -> float:
        return self.law.mean if self.law is not None else float(self.count or 0)


class Searcher(Protocol):
    def ask(self, count: int) -> list[Ask]: ...

    def tell(self, trials: Sequence[Trial]) -> None: ...

    def best(self) -> Trial: ...


@dataclass(kw_only=True)
class Keeping:
    """A searcher that remembers what it was told; the best is the highest score."""

    space: Space
    rng: np.random.Generator
    told: list[Trial] = field(default_factory=list)

    def tell(self, trials: Sequence[Trial]) -> None:
        self.told.extend(trials)

    def best(self) -> Trial:
        return max(self.told, key=lambda trial: trial.score)
