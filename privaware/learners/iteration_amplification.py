"""One pass of noisy gradient steps of which only the end is seen: privacy amplification by iteration.

Every row draws one of `steps` slots. A slot's rows are taken one after another, a gradient step each, and noise
closes the slot; after the last, the noise of `tail` more. A step on a convex smooth loss never moves two
points apart, so the noise of later slots hides a row as well: the row is met by more noise the earlier it came.

Paper: Feldman, Mironov, Talwar, Thakurta 2018, Privacy Amplification by Iteration, arXiv:1808.06651; compared
with DP-SGD by Tramer and Boneh 2021, arXiv:2011.11660, appendix D.3.
Privacy: rho-zCDP for one row added or removed, as their theorem 22 proves Renyi divergences alpha rho of the last
iterate. One row inserts one step into one slot, which moves any point by at most lr * slope * R; k draws of
noise follow, so rho = 1 / (2 noise^2 k). The price is that of the last slot, k = 1 + tail, because every row may
be in it; `position_rho` is what the others have. Tramer and Boneh price the 99th percentile instead
(`percentile_epsilon`): a hundredth of the rows has less than is printed.
Use when: comparing. Poisson-sampled descent needs less noise between epsilon 0.2 and 40, and under a price
that holds for every row the noise of the tail alone would do.

>>> from privaware.schema import Schema
>>> Iteration(tail=7).cost(Schema(classes=("no", "yes"), rows=1000), noise=0.5)
ZCDP(rho=0.25)
>>> [round(percentile_epsilon(z, rows=50000, batch=512, epochs=10, delta=1e-5), 2) for z in (1, 2, 4, 8)]
[12.22, 5.56, 2.64, 1.29]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import ZCDP, Event
from privaware.learners import Learner
from privaware.learners._affine import NORM, affine_model, goals, outputs, slope_bounds, slopes, with_constant
from privaware.learners._rows import feature_for, rows_of
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Iteration", "percentile_epsilon", "position_rho"]

LENGTH = 4.0
"""How long noise alone may make the weights: one constant for all data, the best mean of 0.5, 1, 2, 4 and 8 on held-out
training rows of five public data sets (`benchmarks.convex lengths`, docs/results/convex.md)."""


@dataclass(frozen=True, kw_only=True)
class Iteration(Learner):
    """`steps` slots and `tail` draws of noise after them; `lr` left out is chosen from public facts."""

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")

    steps: int = 8
    tail: int = 24
    lr: float | None = None
    reach: float = 0.5

    def __post_init__(self) -> None:
        if self.steps < 1 or self.tail < 0:
            raise WrongInput(f"iteration: expected steps >= 1 and tail >= 0, got {self.steps!r} and {self.tail!r}")
        if self.lr is not None and not 1e-9 <= self.lr <= 1e3:
            raise WrongInput(f"iteration: expected lr from 1e-9 to 1000, got {self.lr!r}")
        if not 1e-3 <= self.reach <= 1e3:
            raise WrongInput(f"iteration: expected reach from 0.001 to 1000, got {self.reach!r}")

    def cost(self, schema: Schema, noise: float) -> Event:
        self._checked_lr(schema)
        return ZCDP(rho=position_rho(noise, self.steps, self.steps, tail=self.tail))

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        schema, feature = data.schema, feature_for(data.schema)
        rows, goal = with_constant(rows_of(data, feature)), goals(data, self.reach)
        lr = self._step(schema, noise, rows.shape[1])
        slot = rng.shards(len(rows), (1.0,) * self.steps)
        maps = [
            partial(_visited, rows=rows[slot == at], goal=goal[:, slot == at], lr=lr, schema=schema)
            for at in range(self.steps)
        ]
        start = np.zeros((outputs(schema), rows.shape[1]))
        slope = slope_bounds(schema)[0]
        made = rng.iterate(start, maps, noise=noise, sensitivity=lr * slope * NORM, tail=self.tail)
        return affine_model(schema, feature, made, self.reach)

    def _checked_lr(self, schema: Schema) -> float:
        """The longest step that never moves two points apart: 2 over the largest second derivative."""
        longest = 2 / (slope_bounds(schema)[1] * NORM**2)
        if self.lr is not None and self.lr > longest:
            raise WrongInput(
                f"iteration: expected lr of at most {longest:.4g}, beyond which a step may move two points "
                f"apart and hides nothing, got {self.lr!r}"
            )
        return longest

    def _step(self, schema: Schema, noise: float, width: int) -> float:
        longest = self._checked_lr(schema)
        if self.lr is not None:
            return self.lr
        spread = noise * slope_bounds(schema)[0] * NORM * math.sqrt(width * (self.steps + self.tail))
        return min(longest, LENGTH / spread)


def _visited(weights: np.ndarray, *, rows: np.ndarray, goal: np.ndarray, lr: float, schema: Schema) -> np.ndarray:
    """The weights after one gradient step for each row, in order."""
    weights = weights.copy()
    for at in range(len(rows)):
        row = rows[at : at + 1]
        weights -= lr * slopes(schema, row @ weights.T, goal[:, at : at + 1]) * row
    return weights


def position_rho(noise: float, steps: int, position: int, *, tail: int = 0) -> float:
    """The zCDP of a row in slot `position` (from 1) of `steps`: the noise of its slot and all later ones counts."""
    if not 1 <= position <= steps:
        raise WrongInput(f"expected position from 1 to {steps}, got {position!r}")
    return 0.5 / (noise**2 * (steps - position + 1 + tail))


def percentile_epsilon(noise: float, *, rows: int, batch: int, epochs: int, delta: float, share: float = 0.99) -> float:
    """What Tramer and Boneh print: replace-one, classic conversion, met by `share` of the rows only.

    Renyi divergence alpha (2 / noise^2) ((epochs - 1) / S + 1 / (S - s + 1)) for S batches an epoch and position
    s = ceil(share S) in the last; the best alpha of r alpha + ln(1 / delta) / (alpha - 1) is explicit.
    """
    batches = rows // batch  # their loader drops the last, smaller one
    last = batches - math.ceil(share * batches) + 1
    r = 2 / noise**2 * ((epochs - 1) / batches + 1 / last)
    return r + 2 * math.sqrt(r * math.log(1 / delta))
