"""Whether a regression has learnt anything: how much better it is than the mean, by one noisy sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privaware.learners._coded_rows import CodedRows
from privaware.learners._derivatives import LATTICE
from privaware.learners._leaf_sums import ArraySum

__all__ = ["GainSums"]

MOST = 1.0
"""Where the gain of a row is clipped, in squared units."""


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
