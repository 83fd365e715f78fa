"""Outputs of a regression on a scale between a line and an exponential, where the target is skewed.

Prices, wages and amounts have a long tail: what columns do is more nearly a factor than a sum, clipped gradients hardly
see the tail, and steps that noise allows stay short of it. So outputs are bent upwards far from the mean, by a strength
that is public; whether it is done follows from the mean, the spread and the bounds of the target, all of them released
or declared before. The release of the rest that follows finds the mean again. It was chosen on prices of houses and
cars, wages and values of players; bending what is learnt lost less where it was not needed than learning logarithms.

Privacy: no cost of its own: a function of a row's output and of released numbers.

>>> Bend.of(mean=-0.7, spread=0.3, strength=0.3)
Bend(centre=-0.7, spread=0.3, strength=0.3)
>>> Bend.of(mean=0.0, spread=0.3, strength=0.3) is None
True
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privaware.learners._coded_rows import CodedRows
from privaware.learners._row_functions import LOG2E, exp2

__all__ = ["Bend", "is_skewed"]

NEAR = 3.0
"""Largest distance from the mean down to the lower bound of a skewed target, in spreads."""

TAIL = 4.0
"""Least distance from the mean up to the upper bound of a skewed target, in spreads."""

SKEW = 2.0
"""Least ratio of the distance above the mean to the distance below it for a skewed target."""

FAR = 8.0
"""Spreads from the mean at which outputs end."""


def is_skewed(mean: float, spread: float) -> bool:
    """Whether a target in [-1, 1] with this mean and spread has a tail above, by its bounds."""
    below, above = 1 + mean, 1 - mean
    return below <= NEAR * spread and above >= max(TAIL * spread, SKEW * below)


@dataclass(frozen=True, kw_only=True)
class Bend:
    """An output u spreads from the centre becomes (exp(strength u) - 1) / strength spreads; both in [-1, 1]."""

    centre: float
    spread: float
    strength: float

    @classmethod
    def of(cls, mean: float, spread: float, strength: float) -> Bend | None:
        """The bend of a target in [-1, 1] with this mean and spread; None where it is not skewed."""
        bends = strength > 0 and is_skewed(mean, spread)
        return cls(centre=mean, spread=spread, strength=strength) if bends else None

    def __call__(self, outputs: np.ndarray) -> np.ndarray:
        away = np.clip((outputs.astype(np.float64) - self.centre) / self.spread, -FAR, FAR)
        factors = exp2(LOG2E * self.strength * away).astype(np.float64)
        return np.asarray(self.centre + self.spread / self.strength * (factors - 1))

    def change(self, part: CodedRows) -> None:
        """Bends the outputs of the rows, each by itself."""
        part.values[0] = self(part.values[0])
