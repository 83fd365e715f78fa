"""Which rows take part in a step, and what that is worth.

A sampler draws the rows and wraps the price in one object, so the two cannot disagree:

>>> from privaware.events import Gaussian
>>> Poisson(rate=0.01).event(Gaussian(noise=1.1))
Sampled(event=Gaussian(noise=1.1), rate=0.01)
>>> FullBatch().event(Gaussian(noise=1.1))
Gaussian(noise=1.1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from privaware.errors import WrongInput
from privaware.events import Event
from privaware.noise import Rng

__all__ = ["FullBatch", "Poisson", "Sampler"]


class Sampler(Protocol):
    """Draws the rows of each step, and prices a step on them."""

    @property
    def rate(self) -> float: ...

    def event(self, inner: Event) -> Event: ...

    def draw(self, rng: Rng, rows: int) -> np.ndarray: ...


@dataclass(frozen=True, kw_only=True)
class Poisson:
    """Each row is in with probability `rate`, on its own and anew at each step; a batch may be empty."""

    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise WrongInput(f"Poisson: expected rate in (0, 1], got {self.rate!r}")

    def event(self, inner: Event) -> Event:
        return inner.sampled(rate=self.rate)

    def draw(self, rng: Rng, rows: int) -> np.ndarray:
        """The positions of the rows that are in."""
        return np.flatnonzero(rng.poisson(rows, self.rate))


@dataclass(frozen=True, kw_only=True)
class FullBatch:
    """Every row at every step: no randomness, and no discount for any."""

    @property
    def rate(self) -> float:
        return 1.0

    def event(self, inner: Event) -> Event:
        return inner

    def draw(self, rng: Rng, rows: int) -> np.ndarray:
        return np.arange(rows)
