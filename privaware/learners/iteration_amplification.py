"""Privacy amplification by iteration: one pass of noisy gradient steps, then release of the last iterate only.

Every row is assigned to one of `steps` slots at random. A slot takes one gradient step for each of its rows and then
adds noise. After the last slot, noise is added `tail` more times. A gradient step on a convex smooth loss is
non-expansive, so the noise of later slots protects a row as well. The earlier the slot of a row, the more noise
protects the row.

Paper: Feldman, Mironov, Talwar, Thakurta 2018, Privacy Amplification by Iteration, arXiv:1808.06651; compared with
DP-SGD by Tramer and Boneh 2021, arXiv:2011.11660, appendix D.3.
Privacy: rho-zCDP for one row added or removed. Theorem 22 of Feldman et al. bounds the Renyi divergence of order alpha
of the last iterate by alpha rho. One row inserts one step into one slot. This step moves any point by at most lr *
slope * R, where slope bounds the derivative of the loss and R the norm of a row. Rounding adds at most 1/128 of that
distance (`ROUNDING`). If k draws of noise follow the step, then rho = 1 / (2 noise^2 k). The cost is computed for the
last slot, k = 1 + tail, because every row may be in it; `position_rho` returns rho for the other slots. Tramer and
Boneh report the 99th percentile over slots instead (`percentile_epsilon`): one row in a hundred is then protected less
than the printed epsilon says.
Use when: comparing. Poisson-sampled descent needs less noise between epsilon 0.2 and 40. The cost, which holds for
every row, counts only the noise of the last slot and the tail, so the noise of earlier slots does not lower it.

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
from privaware.learners._convex.bounded_rows import NORM, affine_model, encoded, outputs, slope_bounds, slopes
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["IterationAmplification", "percentile_epsilon", "position_rho"]

MAX_NOISE_NORM = 4.0
"""The default learning rate is so small that the noise alone gives the weights a norm of about this at most.

docs/results/convex.md compares other values.
"""

ROUNDING = 2.0**-7
"""Bound on the rounding error of float64, as a fraction of the largest distance that one step moves the weights.

After n steps the weights have moved at most n such distances. Each step rounds by at most 2**-52 of the total, so n
steps round by at most n**2 * 2**-52 distances, for n up to `MOST_ROWS` rows.
"""

MOST_ROWS = 2**22
"""Largest declared number of rows for which `ROUNDING` is proven."""


@dataclass(frozen=True, kw_only=True)
class IterationAmplification(Learner):
    """A linear model trained by one pass of noisy gradient steps, whose last iterate is released.

    Parameters
    ----------
    steps : int
        Number of slots into which the rows are divided at random. The training goes through the slots in order: each
        row of a slot takes one gradient step, one row after another, and then noise is added once.
    tail : int
        Number of times that noise is added after the last slot.
    lr : float, optional
        Learning rate of the step of a row; by default it is chosen from public facts. A rate at which a step may move
        two points apart raises `WrongInput`.
    reach : float
        Scale of residuals: the loss of a regression is log cosh(residual / reach), for targets scaled to [-1, 1]. Not
        used for classes.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")

    steps: int = 8
    tail: int = 24
    lr: float | None = None
    reach: float = 0.5

    def __post_init__(self) -> None:
        expect_count("iteration_amplification", steps=self.steps)
        expect_count("iteration_amplification", 0, tail=self.tail)
        expect_between("iteration_amplification", 1e-9, 1e3, optional=True, lr=self.lr)
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
        schema = data.schema
        feature, rows, goal = encoded(data, self.reach)
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
        """Return the largest learning rate whose steps are non-expansive: `2 / (curvature * NORM**2)`.

        Here `curvature` bounds the second derivative of the loss, and `NORM` the norm of a row. Raise `WrongInput` if
        the setting `lr` is larger.
        """
        longest = 2 / (slope_bounds(schema)[1] * NORM**2)
        if self.lr is not None and self.lr > longest:
            raise WrongInput(
                f"iteration_amplification: expected lr of at most {longest:.4g}, beyond which a step may move two "
                f"points apart, so that later noise does not protect a row, got {self.lr!r}"
            )
        return longest

    def _learning_rate(self, schema: Schema, noise: float, width: int) -> float:
        longest = self._longest_step(schema)
        if self.lr is not None:
            return self.lr
        spread = noise * slope_bounds(schema)[0] * NORM * math.sqrt(width * (self.steps + self.tail))
        return min(longest, MAX_NOISE_NORM / spread)


def _steps(weights: np.ndarray, *, rows: np.ndarray, goal: np.ndarray, lr: float, schema: Schema) -> np.ndarray:
    """Return the weights (problems, width) after one gradient step with learning rate `lr` for each row, in order.

    `weights` are not changed. `rows` (rows, width) have a constant as last column, and `goal` (problems, rows) holds
    their targets, as `bounded_rows.targets` returns them.
    """
    weights = weights.copy()
    for at in range(len(rows)):
        row = rows[at : at + 1]
        weights -= lr * slopes(schema, row @ weights.T, goal[:, at : at + 1]) * row
    return weights


def position_rho(noise: float, steps: int, position: int, *, tail: int = 0) -> float:
    """Return rho of zero-concentrated differential privacy (zCDP) for a row whose gradient step is taken in one slot.

    The rows are divided into `steps` slots. After each slot noise is added once, and after the last slot `tail` more
    times. A row in slot `position` is protected by the noise of this slot and of all later ones:
    `rho = 1 / (2 * noise**2 * (steps - position + 1 + tail))`.

    Parameters
    ----------
    noise : float
        The noise multiplier.
    steps : int
        The number of slots.
    position : int
        The slot of the row, from 1 to `steps`; another number raises `WrongInput`.
    tail : int
        The number of times that noise is added after the last slot.

    Returns
    -------
    float
        rho.
    """
    if not 1 <= position <= steps:
        raise WrongInput(f"expected position from 1 to {steps}, got {position!r}")
    return 0.5 / (noise**2 * (steps - position + 1 + tail))


def percentile_epsilon(noise: float, *, rows: int, batch: int, epochs: int, delta: float, share: float = 0.99) -> float:
    """Return the epsilon that Tramer and Boneh print for amplification by iteration.

    It holds for a fraction `share` of the rows only, for one row replaced, and uses the classic conversion from Renyi
    divergence. With `S = rows // batch` batches in an epoch and a row in batch `s = ceil(share * S)`, the Renyi
    divergence of order `alpha` is `r * alpha`, where `r = 2 / noise**2 * ((epochs - 1) / S + 1 / (S - s + 1))`. The
    result is the minimum over `alpha` of `r * alpha + ln(1 / delta) / (alpha - 1)`, which is
    `r + 2 * sqrt(r * ln(1 / delta))`.

    Parameters
    ----------
    noise : float
        The noise multiplier.
    rows, batch, epochs : int
        The number of rows, the batch size and the number of epochs.
    delta : float
        The delta at which epsilon is computed.
    share : float
        The fraction of rows for which the result holds.

    Returns
    -------
    float
        epsilon.
    """
    batches = rows // batch  # the authors' loader drops the last, smaller batch
    last = batches - math.ceil(share * batches) + 1
    r = 2 / noise**2 * ((epochs - 1) / batches + 1 / last)
    return r + 2 * math.sqrt(r * math.log(1 / delta))
