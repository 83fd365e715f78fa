"""Whether a regression has learnt anything: where its outputs lie, and how much better they are than their mean.

The mean of a target was released before the first step, and again by what outputs lack in the end. Where noise moves
both, the better estimate is between them, so the mean of outputs is released, too. It is also what outputs are compared
with: gains are clipped, which favours outputs that have only moved from the mean of a skewed target to its median.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privaware.data import ChangingParts, release
from privaware.learners._coded_rows import CodedRows
from privaware.learners._derivatives import LATTICE
from privaware.learners._leaf_sums import ArraySum
from privaware.noise import Rng

__all__ = ["GainSums", "OutputSums", "Verdict", "judge"]

MOST = 1.0
"""Where the gain of a row is clipped, in squared units."""
AWAY = 2.0
"""Where the distance of an output from the mean is clipped, in units."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is added to the mean for an estimate between the two, and to outputs; and whether those are better."""

    mean: float
    shift: float
    better: bool


def judge(
    parts: ChangingParts[CodedRows], outputs: OutputSums, *, rows: int, deviation: float, noise: float, rng: Rng
) -> Verdict:
    """Two releases of this noise. `deviation` is what noise did to the mean and to the shift of the outputs, in units.

    Weights are those with which the noise of the three releases is least.
    """
    away = float(release(outputs, parts, noise, rng)[0]) / rows
    weight = deviation**2 / (2 * deviation**2 + (AWAY * noise / rows) ** 2)
    moved = AWAY * outputs.unit * float(np.clip(away, -1, 1))
    gains = GainSums(mean=outputs.mean + moved, shift=outputs.shift, unit=outputs.unit)
    better = bool(release(gains, parts, noise, rng)[0] >= noise)  # less is no more than noise
    return Verdict(mean=weight * moved, shift=-weight * moved, better=better)


@dataclass(frozen=True, kw_only=True)
class OutputSums(ArraySum):
    """The sum of how far outputs are from the mean, over `AWAY` units and clipped to 1; a row moves it by 1.

    `shift` is added to the outputs first, `unit` is the spread of the target.
    """

    mean: float
    shift: float
    unit: float
    sensitivity: float = 1.0

    def partial(self, part: CodedRows) -> np.ndarray:
        away = (part.values[0].astype(np.float64) + self.shift - self.mean) / (AWAY * self.unit)
        return np.array([LATTICE.round(away).sum(dtype=np.float64)])


@dataclass(frozen=True, kw_only=True)
class GainSums(ArraySum):
    """The sum of how much nearer to its target a row's output is than the mean is.

    These are differences of squares, clipped to `MOST` and divided by it: a row moves the sum by 1 at most. `shift` is
    added to the outputs first, `unit` is the spread of the target.
    """

    mean: float
    shift: float
    unit: float
    sensitivity: float = 1.0

    def partial(self, part: CodedRows) -> np.ndarray:
        target = part.target.astype(np.float64)
        outputs = part.values[0].astype(np.float64) + self.shift
        gains = ((target - self.mean) ** 2 - (target - outputs) ** 2) / (MOST * self.unit**2)
        return np.array([LATTICE.round(gains).sum(dtype=np.float64)])
