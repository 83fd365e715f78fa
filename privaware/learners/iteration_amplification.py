"""Privacy amplification by iteration: one pass of noisy gradient steps of which only the last iterate is released.

Every row draws one of `steps` slots. A slot takes a gradient step for each of its rows and then adds noise; after the
last slot, noise is added `tail` more times. A gradient step on a convex smooth loss is non-expansive, so the noise of
later slots covers a row as well: the earlier a row comes, the more noise covers it.

Paper: Feldman, Mironov, Talwar, Thakurta 2018, Privacy Amplification by Iteration, arXiv:1808.06651; compared
with DP-SGD by Tramer and Boneh 2021, arXiv:2011.11660, appendix D.3.
Privacy: rho-zCDP for one row added or removed, as their theorem 22 proves Renyi divergences alpha rho of the last
iterate. One row inserts one step into one slot, which moves any point by at most lr * slope * R, and by a 128th of
that more through rounding (`ROUNDING`); k draws of noise follow, so rho = 1 / (2 noise^2 k). The cost is that of the
last slot, k = 1 + tail, because every row may be in it; `position_rho` is that of the other slots. Tramer and Boneh
report the 99th percentile instead (`percentile_epsilon`): a hundredth of the rows is protected less than is printed.
Use when: comparing. Poisson-sampled descent needs less noise between epsilon 0.2 and 40, and for a guarantee
that holds for every row the noise of the tail alone would suffice.

>>> from privaware.schema import Schema
>>> IterationAmplification(tail=7).cost(Schema(classes=("no", "yes"), rows=1000), noise=0.5)
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

from privaware._validate import expect_between, expect_count
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import ZCDP, Event
from privaware.learners import Learner
from privaware.learners._convex.bounded_rows import (
    NORM,
    affine_model,
    outputs,
    slope_bounds,
    slopes,
    targets,
    with_constant,
)
from privaware.learners._fixed_features import feature_for, rows_of
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["IterationAmplification", "percentile_epsilon", "position_rho"]

LENGTH = 4.0
"""The norm that noise alone may give the weights: one constant for all data, the best of 0.5, 1, 2, 4 and 8 on
held-out training rows of five public data sets (`privaware reproduce ours/convex/lengths`, docs/results/convex.md)."""

ROUNDING = 2.0**-7
"""What float64 adds to the way of a step, over its longest way: n steps are at most n ways long, and each rounds by
2^-52 of that, so together by n^2 2^-52 ways, for up to `MOST_ROWS` rows."""

MOST_ROWS = 2**22


@dataclass(frozen=True, kw_only=True)
class IterationAmplification(Learner):
    """`steps` slots and `tail` draws of noise after them; `lr` left out is chosen from public facts."""

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")

    steps: int = 8
    tail: int = 24
    lr: float | None = None
    reach: float = 0.5

    def __post_init__(self) -> None:
        expect_count("iteration_amplification", steps=self.steps)
        expect_count("iteration_amplification", 0, tail=self.tail)
        if self.lr is not None:
            expect_between("iteration_amplification", 1e-9, 1e3, lr=self.lr)
        expect_between("iteration_amplification", 1e-3, 1e3, reach=self.reach)

    def cost(self, schema: Schema, noise: float) -> Event:
        self._longest_step(schema)
        if schema.rows > MOST_ROWS:
            raise WrongInput(
                f"iteration_amplification: expected at most {MOST_ROWS} declared rows, for which rounding is bounded, "
                f"got {schema.rows}; take linear"
            )
        return ZCDP(rho=position_rho(noise, self.steps, self.steps, tail=self.tail))

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        schema, feature = data.schema, feature_for(data.schema)
        rows, goal = with_constant(rows_of(data, feature)), targets(data, self.reach)
        lr = self._learning_rate(schema, noise, rows.shape[1])
        slot = rng.shards(len(rows), (1.0,) * self.steps)
        maps = [
            partial(_steps, rows=rows[slot == at], goal=goal[:, slot == at], lr=lr, schema=schema)
            for at in range(self.steps)
        ]
        initial = np.zeros((outputs(schema), rows.shape[1]))
        slope = slope_bounds(schema)[0]
        sensitivity = lr * slope * NORM * (1 + ROUNDING)
        weights = rng.iterate(initial, maps, noise=noise, sensitivity=sensitivity, tail=self.tail)
        return affine_model(schema, feature, weights, self.reach)

    def _longest_step(self, schema: Schema) -> float:
        """The largest learning rate whose steps are non-expansive: 2 over the largest second derivative."""
        longest = 2 / (slope_bounds(schema)[1] * NORM**2)
        if self.lr is not None and self.lr > longest:
            raise WrongInput(
                f"iteration_amplification: expected lr of at most {longest:.4g}, beyond which a step may move two "
                f"points apart and later noise covers nothing, got {self.lr!r}"
            )
        return longest

    def _learning_rate(self, schema: Schema, noise: float, width: int) -> float:
        longest = self._longest_step(schema)
        if self.lr is not None:
            return self.lr
        spread = noise * slope_bounds(schema)[0] * NORM * math.sqrt(width * (self.steps + self.tail))
        return min(longest, LENGTH / spread)


def _steps(weights: np.ndarray, *, rows: np.ndarray, goal: np.ndarray, lr: float, schema: Schema) -> np.ndarray:
    """The weights after one gradient step for each row, in order."""
    weights = weights.copy()
    for at in range(len(rows)):
        row = rows[at : at + 1]
        weights -= lr * slopes(schema, row @ weights.T, goal[:, at : at + 1]) * row
    return weights


def position_rho(noise: float, steps: int, position: int, *, tail: int = 0) -> float:
    """The zCDP of a row in slot `position` (from 1) of `steps`: the noise of its slot and of all later ones counts."""
    if not 1 <= position <= steps:
        raise WrongInput(f"expected position from 1 to {steps}, got {position!r}")
    return 0.5 / (noise**2 * (steps - position + 1 + tail))


def percentile_epsilon(noise: float, *, rows: int, batch: int, epochs: int, delta: float, share: float = 0.99) -> float:
    """What Tramer and Boneh print: replace-one, classic conversion, valid for a `share` of the rows only.

    Renyi divergence alpha (2 / noise^2) ((epochs - 1) / S + 1 / (S - s + 1)) for S batches an epoch and position
    s = ceil(share S) in the last; the best alpha of r alpha + ln(1 / delta) / (alpha - 1) is explicit.
    """
    batches = rows // batch  # their loader drops the last, smaller one
    last = batches - math.ceil(share * batches) + 1
    r = 2 / noise**2 * ((epochs - 1) / batches + 1 / last)
    return r + 2 * math.sqrt(r * math.log(1 / delta))
