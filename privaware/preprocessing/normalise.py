"""Private data normalisation: noisy mean and standard deviation of each channel, so that channels have one scale.

`features` are applied to the rows. A row contributes two vectors: the mean of each channel over its positions, clipped
to L2 norm `means`, and the mean of the squares, clipped to L2 norm `squares`. The sums of both vectors are released and
divided by the declared number of rows. They become a `Standardise` feature. A variance is at least the noise of its
mean square: a smaller variance is mostly noise, and would scale its channel up.

Paper: Tramer and Boneh 2021, Differentially private learning needs better features (or much more data), appendix B.1,
arXiv:2011.11660. Their code takes the two norms from the exact medians of the private rows; here they are public
constants.
Privacy: (epsilon, delta) for one row added or removed, by two Gaussian releases. A row adds a vector of norm at most
`means` to the sum of channel means, and one of norm at most `squares` to the sum of mean squares. This holds in
floating-point arithmetic: the vectors are rounded to multiples of public powers of two, so sums have no rounding error
(see `_moments`).
Use when: channels differ in scale (wavelet scattering) and there are tens of thousands of rows.

>>> from privaware.noise import Rng
>>> from privaware.testing import example, rows_for
>>> feature = Normalise().run(rows_for(example("image", rows=500), 500), noise=1.0, rng=Rng(seed=1))
>>> len(feature.mean), len(feature.deviation)
(1, 1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privaware._validate import expect_between
from privaware.data import Data, Rows, Sum, release
from privaware.events import Event, Gaussian
from privaware.exact_sums import Total, add_column_sums, row_lattice
from privaware.features.standardise import Standardise
from privaware.noise import Rng
from privaware.preprocessing import Transformation
from privaware.preprocessing._moments import clipped, transformed
from privaware.schema import Schema

__all__ = ["Normalise"]


@dataclass(frozen=True, kw_only=True)
class Normalise(Transformation):
    """A transformation that releases the mean and standard deviation of each channel.

    Parameters
    ----------
    means, squares : float
        Clipping norms of the vector of a row's channel means, and of the vector of its mean squares.
    floor : float
        Lower bound on the variance of a channel. The noise of the mean square is a lower bound too.
    features : tuple
        Features that are applied to the rows first; without features, tables are one-hot encoded.
    """

    in_parts: ClassVar[bool] = True

    means: float = 1.0
    squares: float = 1.0
    floor: float = 1e-5
    features: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        expect_between("normalise", 1e-9, 1e9, means=self.means, squares=self.squares, floor=self.floor)

    def cost(self, schema: Schema, noise: float) -> Event:
        return 2 * Gaussian(noise=noise)

    def run(self, data: Rows, noise: float, rng: Rng) -> Standardise:
        rows, sums = data.schema.rows, ChannelSums(norms=(self.means, self.squares), features=self.features)
        mean, square = (noisy / rows for noisy in release(sums, data.parts, noise, rng))
        floor = max(self.floor, noise * self.squares / rows)
        deviation = np.sqrt(np.maximum(square - mean**2, floor))
        return Standardise(mean=_plain(mean), deviation=_plain(deviation))


@dataclass(frozen=True, kw_only=True)
class ChannelSums(Sum[Data, tuple[Total, Total], tuple[np.ndarray, np.ndarray]]):
    """The sums over rows of two vectors of a row: the mean of each channel, and the mean of its squared values.

    The means are over the positions of the channel in the row. The first vector is clipped to norm `norms[0]`, and the
    second to norm `norms[1]`. `features`, a tuple of feature maps, are applied to the rows first. The release is both
    sums with Gaussian noise, not divided by the number of rows. The standard deviation of the noise is the noise
    multiplier times the clipping norm of the vector, so the release costs two Gaussian releases.
    """

    norms: tuple[float, float]
    features: tuple[Any, ...]

    def partial(self, part: Data) -> tuple[Total, Total]:
        totals = (Total(), Total())
        for channels in transformed(self.features, part):
            finite = np.nan_to_num(channels.astype(float), posinf=0.0, neginf=0.0)
            positions = finite.reshape(*finite.shape[:2], math.prod(finite.shape[2:]))
            with np.errstate(over="ignore"):
                moments = (positions.mean(axis=2), (positions**2).mean(axis=2))
            for total, norm, rows in zip(totals, self.norms, moments, strict=True):
                add_column_sums(total, clipped(rows, norm), row_lattice(norm, rows.shape[1]))
        return totals

    def release(self, total: tuple[Total, Total], noise: float, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
        means, squares = (
            np.asarray(rng.gaussian(each.value, noise=noise, sensitivity=norm))
            for each, norm in zip(total, self.norms, strict=True)
        )
        return means, squares


def _plain(values: np.ndarray) -> tuple[float, ...]:
    return tuple(values.astype(np.float32).tolist())
