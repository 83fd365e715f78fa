"""Which examples take part in a step, and what the sampling is worth.

A sampler draws the batch and prices a step on it in one object, so the two cannot disagree:

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
    """Draws the batch of each step, and prices a step on it."""

    @property
    def rate(self) -> float: ...

    def event(self, inner: Event) -> Event: ...

    def draw(self, rng: Rng, examples: int, /) -> np.ndarray: ...


@dataclass(frozen=True, kw_only=True)
class Poisson:
    """Each example is in the batch with probability `rate`, independently at each step; a batch may be empty."""

    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise WrongInput(f"Poisson: expected rate in (0, 1], got {self.rate!r}")

    def event(self, inner: Event) -> Event:
        return inner.sampled(rate=self.rate)

    def draw(self, rng: Rng, examples: int) -> np.ndarray:
        """The indices of the examples in the batch."""
        return np.flatnonzero(rng.poisson(examples, self.rate))


@dataclass(frozen=True, kw_only=True)
class FullBatch:
    """Every example at every step: no randomness, no amplification."""

    @property
    def rate(self) -> float:
        return 1.0

    def event(self, inner: Event) -> Event:
        return inner

    def draw(self, rng: Rng, examples: int) -> np.ndarray:
        return np.arange(examples)
