"""Private data normalisation: noisy mean and deviation of each channel, so that channels have one scale.

`features` are applied to the rows. A row contributes the mean of each channel over its positions, clipped to norm
`means`, and the mean of the squares, clipped to norm `squares`; both sums are released, divided by the declared
number of rows, and become a `Standardise` feature. A variance has the noise of its mean square as floor: a smaller
one is mostly noise, and its channel would be scaled up by it.

Paper: Tramer and Boneh 2021, Differentially private learning needs better features (or much more
    data), appendix B.1, arXiv:2011.11660. Their code takes the two norms from the exact medians of the
    private rows; here they are public constants.
Privacy: (epsilon, delta) for one row added or removed, two Gaussian releases. A row adds one vector of
    norm at most `means` to the first sum and one of norm at most `squares` to the second.
Use when: channels differ in scale (wavelet scattering) and rows are tens of thousands.

>>> from privaware.noise import Rng
>>> from privaware.testing import example, rows_for
>>> feature = Normalise().run(rows_for(example("image", rows=500), 500), noise=1.0, rng=Rng(seed=1))
>>> len(feature.mean), len(feature.deviation)
(1, 1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware import features as transformations
from privaware._validate import expect_between
from privaware.data import Data
from privaware.events import Event, Gaussian
from privaware.features.onehot import OneHot
from privaware.features.standardise import Standardise
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.selectors import Transformation
from privaware.selectors._moments import clipped

__all__ = ["Normalise"]

MICROBATCH = 1024
"""Rows transformed together."""


@dataclass(frozen=True, kw_only=True)
class Normalise(Transformation):
    """`means` and `squares` bound the norms of a row's two vectors; `floor` is the least variance at any noise."""

    means: float = 1.0
    squares: float = 1.0
    floor: float = 1e-5
    features: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        expect_between("normalise", 1e-9, 1e9, means=self.means, squares=self.squares, floor=self.floor)

    def cost(self, schema: Schema, noise: float) -> Event:
        return 2 * Gaussian(noise=noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Standardise:
        exact_means, exact_squares = self._sums(data)
        rows = data.schema.rows
        mean = rng.gaussian(exact_means, noise=noise, sensitivity=self.means) / rows
        square = rng.gaussian(exact_squares, noise=noise, sensitivity=self.squares) / rows
        floor = max(self.floor, noise * self.squares / rows)
        deviation = np.sqrt(np.maximum(square - mean**2, floor))
        return Standardise(mean=_plain(mean), deviation=_plain(deviation))

    def _sums(self, data: Data) -> tuple[np.ndarray, np.ndarray]:
        bare = not self.features and data.schema.form == "table"
        first = (OneHot(),) if bare else self.features
        totals: list[np.ndarray] = []
        for at in range(0, max(len(data), 1), MICROBATCH):
            channels = transformations.apply(first, data.x[at : at + MICROBATCH], data.schema)
            channels = np.nan_to_num(channels.astype(float), posinf=0.0, neginf=0.0)
            positions = channels.reshape(*channels.shape[:2], math.prod(channels.shape[2:]))
            means = clipped(positions.mean(axis=2), self.means)
            squares = clipped((positions**2).mean(axis=2), self.squares)
            sums = [means.sum(axis=0), squares.sum(axis=0)]
            totals = [a + b for a, b in zip(totals, sums, strict=True)] if totals else sums
        return totals[0], totals[1]


def _plain(values: np.ndarray) -> tuple[float, ...]:
    return tuple(values.astype(np.float32).tolist())
