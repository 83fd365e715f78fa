"""The private constant of a regression: the noisy mean of the target.

Paper: Dwork, McSherry, Nissim, Smith 2006, Calibrating Noise to Sensitivity.
Privacy: epsilon-DP for one row added or removed, with epsilon = 1 / noise. Targets are scaled to [-1, 1], so a row
changes their sum by at most 1. Targets are rounded to multiples of 2^-30, so their sum is exact in any order. The noisy
sum is divided by the declared number of rows, which is public.
Use when: rows are too few for anything else, or a baseline is wanted that a model must beat.

>>> from privaware.schema import Schema
>>> Mean().cost(Schema(low=0, high=10, rows=100), noise=2.0)
Laplace(noise=2.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaware.data import Data, Rows, Sum, release
from privaware.events import Event, Laplace
from privaware.exact_sums import MARGIN, Lattice, Total, add_column_sums
from privaware.learners import Learner
from privaware.learners._fixed_features import constant_model
from privaware.model import Model, scaled
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Mean"]

TARGETS = Lattice(bound=1 - MARGIN, bits=30)
"""Targets are clipped to [-1 + MARGIN, 1 - MARGIN] and rounded towards zero to multiples of 2^-30."""


@dataclass(frozen=True, kw_only=True)
class Mean(Learner):
    """A constant prediction from one noisy sum of the target; it has no settings."""

    uses_columns: ClassVar[bool] = False
    tasks: ClassVar[tuple[str, ...]] = ("regression",)
    guarantee: ClassVar[str] = "epsilon"
    sums: ClassVar[str] = "exact"
    in_parts: ClassVar[bool] = True

    def cost(self, schema: Schema, noise: float) -> Event:
        return Laplace(noise=noise)

    def run(self, data: Rows, noise: float, rng: Rng) -> Model:
        mean = release(TargetSum(), data.parts, noise, rng) / data.schema.rows
        return constant_model(data.schema, np.clip([mean], -1, 1))


@dataclass(frozen=True, kw_only=True)
class TargetSum(Sum[Data, Total, float]):
    """The sum of the targets, scaled to [-1, 1]; a missing target counts as 0, the middle of the declared range.

    `release` returns this sum plus Laplace noise of scale `noise`.
    """

    def partial(self, part: Data) -> Total:
        total = Total()
        add_column_sums(total, TARGETS.round(np.nan_to_num(scaled(part.y, part.schema))), TARGETS)
        return total

    def release(self, total: Total, noise: float, rng: Rng) -> float:
        return float(rng.laplace(float(total.value), noise=noise, sensitivity=1.0))
