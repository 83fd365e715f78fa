"""The private constant of a regression with the least absolute error: the median of the target.

The candidates are 4,097 points of a public grid over the target's bounds. The score of a candidate is minus its
distance, in rows, from a median, which has at most half of the targets below it and at most half above it. The
candidate with the largest noisy score is released.

Paper: McSherry, Talwar 2007, Mechanism Design via Differential Privacy; Smith 2011, Privacy-Preserving Statistical
Estimation with Optimal Convergence Rates, for quantiles; noise as Ding et al. 2021, The Permute-and-Flip Mechanism Is
Identical to Report-Noisy-Max with Exponential Noise, arXiv:2105.07260.
Privacy: epsilon-DP for one row added or removed, with epsilon = 1 / noise. Of n targets let b be below a candidate and
a above it. The score of the candidate is -max(b - n/2, a - n/2, 0). One row changes n by 1 and each of a and b by 0 or
1. It therefore changes each difference, and the score, by at most 1/2. Counts are integers.
Use when: the absolute error matters, as with skewed amounts, and rows are too few for a model.

>>> from privaware.schema import Schema
>>> Median().cost(Schema(low=0, high=10, rows=100), noise=2.0)
Pure(epsilon=0.5)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaware.data import Data, Rows, Sum, release
from privaware.events import Event, Pure
from privaware.learners import Learner
from privaware.learners._fixed_features import constant_model
from privaware.model import Model, scaled
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Median"]

GRID = np.linspace(-1, 1, 4097)
"""Candidates for the median of a target that is scaled to [-1, 1]."""


@dataclass(frozen=True, kw_only=True)
class Median(Learner):
    """A constant prediction by one private selection from `GRID`; it has no settings."""

    uses_columns: ClassVar[bool] = False
    tasks: ClassVar[tuple[str, ...]] = ("regression",)
    guarantee: ClassVar[str] = "epsilon"
    sums: ClassVar[str] = "exact"
    in_parts: ClassVar[bool] = True

    def cost(self, schema: Schema, noise: float) -> Event:
        return Pure(epsilon=1 / noise)

    def run(self, data: Rows, noise: float, rng: Rng) -> Model:
        return constant_model(data.schema, np.array([release(GridCounts(), data.parts, noise, rng)]))


@dataclass(frozen=True, kw_only=True)
class GridCounts(Sum[Data, np.ndarray, float]):
    """The number of targets at each candidate of `GRID` and between neighbouring candidates.

    The counts are an int64 array of `2 * len(GRID)` entries. Entry `2 * i` counts the targets equal to `GRID[i]`, and
    entry `2 * i + 1` the targets between `GRID[i]` and `GRID[i + 1]`; the last entry is always 0. Targets are scaled to
    [-1, 1]; a target outside the range counts at its end, and a missing target is not counted. `release` returns a
    private median, one of `GRID`, at `epsilon = 1 / noise`.
    """

    def partial(self, part: Data) -> np.ndarray:
        targets = scaled(part.y, part.schema)
        targets = np.clip(targets[~np.isnan(targets)], -1, 1)
        cells = 2 * np.searchsorted(GRID, targets, side="right") - 1
        cells -= GRID[cells // 2] == targets  # even cells hold the targets that equal a candidate
        return np.bincount(cells, minlength=2 * len(GRID)).astype(np.int64)

    def release(self, total: np.ndarray, noise: float, rng: Rng) -> float:
        upto = total.cumsum()
        below, above = np.concatenate([[0], upto[1:-1:2]]), upto[-1] - upto[::2]
        exact_scores = -np.maximum(np.maximum(below, above) - upto[-1] / 2, 0.0)
        return float(GRID[rng.choose(exact_scores, epsilon=1 / noise, sensitivity=0.5)])
