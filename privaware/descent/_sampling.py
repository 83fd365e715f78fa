"""Choose the examples of a step.

A sampler both draws the batch and gives the privacy cost of a step on that batch, so the two cannot disagree:

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

from privaware._validate import expect_in
from privaware.events import Event
from privaware.noise import Rng


class Sampler(Protocol):
    """The interface of a sampler.

    `rate` is the sampling rate. `draw(rng, examples)` returns the indices, from 0 to `examples - 1`, of the examples in
    a batch. `event(inner)` returns the cost of a step whose mechanism costs `inner` on the batch.
    """

    @property
    def rate(self) -> float: ...

    def event(self, inner: Event) -> Event: ...

    def draw(self, rng: Rng, examples: int, /) -> np.ndarray: ...


@dataclass(frozen=True, kw_only=True)
class Poisson:
    """Poisson sampling: each example is in the batch independently with probability `rate`. A batch may be empty.

    Parameters
    ----------
    rate : float
        The sampling rate, in (0, 1].
    """

    rate: float

    def __post_init__(self) -> None:
        expect_in("Poisson", "(0, 1]", rate=self.rate)

    def event(self, inner: Event) -> Event:
        return inner.sampled(rate=self.rate)

    def draw(self, rng: Rng, examples: int) -> np.ndarray:
        """Return the indices of the examples in the batch, in ascending order."""
        return np.flatnonzero(rng.poisson(examples, self.rate))


@dataclass(frozen=True, kw_only=True)
class FullBatch:
    """Use every example in every step: no random sampling, and no privacy amplification."""

    @property
    def rate(self) -> float:
        return 1.0

    def event(self, inner: Event) -> Event:
        return inner

    def draw(self, rng: Rng, examples: int) -> np.ndarray:
        return np.arange(examples)
