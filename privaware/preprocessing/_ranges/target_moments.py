"""A private range of the target of a regression: its mean plus or minus a few standard deviations.

The mean and the mean square of the target, scaled by its declared bounds, are one noisy release. The new bounds lie
`reach` standard deviations on either side of the mean. If noise hides the variance, a quarter of the standard deviation
of the noise stands in for the variance. A model that has learned nothing then predicts the mean, and noise that is
proportional to the range is small. Targets outside the new bounds are clipped. The declared bounds stay if both lie
inside the new bounds; otherwise the new bounds replace both.

Paper: Dwork, McSherry, Nissim, Smith 2006, Calibrating Noise to Sensitivity, for noisy sums; this use of them is this
package's.
Privacy: (epsilon, delta) for one row added or removed, by one Gaussian release. A target y in [-1, 1] changes the two
sums by (y, y^2), of norm at most sqrt(2). This holds in floating-point arithmetic: both are multiples of 2^-30, whose
sums are exact in any order. The sums are divided by the declared number of rows, which is public.
Use when: the task is regression, declared bounds are wide, and the middle between them is not the mean.

>>> from privaware.noise import Rng
>>> from privaware.schema import Schema
>>> data = Data(schema=Schema(low=0, high=100, rows=4), x=np.zeros((4, 0)), y=np.array([9.0, 11.0, 9.0, 11.0]))
>>> released = TargetMomentsRange().run(data, noise=1e-9, rng=Rng(seed=1))
>>> round(released.low, 3), round(released.high, 3)
(7.0, 13.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from privaware._validate import expect_between
from privaware.data import Data, Rows, Sum, release
from privaware.events import Event, Gaussian
from privaware.exact_sums import MARGIN, Lattice, Total, add_column_sums
from privaware.model import scaled
from privaware.noise import Rng
from privaware.preprocessing import Transformation
from privaware.schema import Schema

TARGETS = Lattice(bound=1 - MARGIN, bits=30)
"""Multiples of 2^-30 in (-1, 1), to which scaled targets and their squares are rounded."""
MIN_DEVIATION = 1e-4
"""Smallest standard deviation, as a fraction of half the declared range; rounding would hide a smaller one."""


@dataclass(frozen=True, kw_only=True)
class TargetMomentsRange(Transformation):
    """A transformation that narrows the bounds of the target to `reach` standard deviations around its mean."""

    releases: ClassVar[Literal["schema"]] = "schema"
    in_parts: ClassVar[bool] = True

    reach: float = 3.0

    def __post_init__(self) -> None:
        expect_between("target_range", 0.5, 100, reach=self.reach)

    def cost(self, schema: Schema, noise: float) -> Event:
        return Gaussian(noise=noise)

    def outline(self, schema: Schema) -> Schema:
        """Return `schema` itself: its declared bounds stand in for the released bounds, which are not known yet."""
        return schema

    def run(self, data: Rows, noise: float, rng: Rng) -> Schema:
        """Return the schema with the new bounds of the target.

        The schema must declare bounds of the target. It is returned unchanged if both of them lie inside the new
        bounds; otherwise the new bounds replace both.
        """
        schema = data.schema
        mean, square = release(TargetMoments(), data.parts, noise, rng) / schema.rows
        mean = float(np.clip(mean, -1, 1))
        least = noise * math.sqrt(2) / schema.rows  # the standard deviation of the noise in the mean square
        variance = float(square) - mean**2
        deviation = math.sqrt(min(variance if variance >= least else least / 4, 1.0))
        deviation = max(deviation, MIN_DEVIATION)
        reach = self.reach * deviation
        if reach >= 1 + abs(mean):
            return schema  # the declared bounds are narrower
        assert schema.low is not None  # `scaled` raises without bounds
        assert schema.high is not None
        middle, half = (schema.low + schema.high) / 2, (schema.high - schema.low) / 2
        return replace(schema, low=middle + half * (mean - reach), high=middle + half * (mean + reach))

    @staticmethod
    def clip(data: Data, schema: Schema) -> Data:
        """Return the rows with targets clipped to the bounds of `schema`, which their own schema then has too."""
        clipped = np.clip(data.y, schema.low, schema.high)
        return replace(data, y=clipped, schema=replace(data.schema, low=schema.low, high=schema.high))


@dataclass(frozen=True, kw_only=True)
class TargetMoments(Sum[Data, Total, np.ndarray]):
    """The sum of the targets and the sum of their squares, after scaling from the declared bounds to [-1, 1].

    A missing target counts as 0 on this scale. The release is the two noisy sums, not divided by the number of rows.
    """

    def partial(self, part: Data) -> Total:
        targets, total = TARGETS.round(np.nan_to_num(scaled(part.y, part.schema))), Total()
        add_column_sums(total, np.stack([targets, TARGETS.round(targets**2)], axis=1), TARGETS)
        return total

    def release(self, total: Total, noise: float, rng: Rng) -> np.ndarray:
        return np.asarray(rng.gaussian(np.asarray(total.value), noise=noise, sensitivity=math.sqrt(2)))
