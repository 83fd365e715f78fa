"""Private weights of entries, by how frequent each is: for hashed words and other rows of many entries.

`features` are applied to the rows, which are clipped to norm 1. The sum over rows of the absolute value of every entry
is released. Let c be the standard deviation of its noise. An entry of noisy sum m > 0 gets the squared weight 2 m c /
(m^2 + c^2); an entry of noisy sum m <= 0 gets weight 0. This is the estimate of naive Bayes under noise: if a sum for
one class is known up to noise c, the fraction m / (m^2 + c^2) of it says how classes differ. Frequent entries get
smaller weights, as in TF-IDF, and so do entries that are too rare to be seen through the noise. The weights become a
`Weighed` feature.

Privacy: (epsilon, delta) for one row added or removed, by one Gaussian release. A row adds a vector of norm at most 1
to the sum. This holds in floating-point arithmetic: the vectors are rounded to multiples of a public power of two, so
sums have no rounding error.
Use when: the data are text; `auto` takes it there with a tenth of the budget.

>>> from privaware.features.hashed import Hashed
>>> from privaware.noise import Rng
>>> from privaware.testing import example, rows_for
>>> feature = Weigh(features=(Hashed(slots=8),)).run(rows_for(example("text", rows=500), 500), noise=1.0, rng=Rng(1))
>>> len(feature.letters)
8
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privaware.data import Data, Rows, Sum, release
from privaware.events import Event, Gaussian
from privaware.exact_sums import Total, add_column_sums, row_lattice
from privaware.features.weighed import Weighed
from privaware.noise import Rng
from privaware.preprocessing import Transformation
from privaware.preprocessing._moments import clipped, transformed
from privaware.schema import Schema

__all__ = ["Weigh"]

MAX_NUMBERS_PER_BLOCK = 2**24
"""Largest number of entries of a block of rows after their features."""


@dataclass(frozen=True, kw_only=True)
class Weigh(Transformation):
    """A transformation that releases a weight for each entry of a row.

    Parameters
    ----------
    features : tuple
        Features that are applied to the rows first; without features, tables are one-hot encoded.
    """

    in_parts: ClassVar[bool] = True

    features: tuple[Any, ...] = ()

    def cost(self, schema: Schema, noise: float) -> Event:
        return Gaussian(noise=noise)

    def run(self, data: Rows, noise: float, rng: Rng) -> Weighed:
        noisy = release(SizeSums(features=self.features), data.parts, noise, rng)
        sums, known = np.maximum(noisy, 0.0), max(noise, 1e-6)
        return Weighed.of(2 * sums * known / (sums**2 + known**2))


@dataclass(frozen=True, kw_only=True)
class SizeSums(Sum[Data, Total, np.ndarray]):
    """The sums over rows of the absolute values of each entry, after `features`; rows are clipped to L2 norm 1.

    The release is the vector of sums with Gaussian noise.
    """

    features: tuple[Any, ...]

    def partial(self, part: Data) -> Total:
        total = Total()
        for rows in transformed(self.features, part):
            width = math.prod(rows.shape[1:])
            size = max(1, MAX_NUMBERS_PER_BLOCK // max(width, 1))
            for at in range(0, max(len(rows), 1), size):
                add_column_sums(total, np.abs(clipped(rows[at : at + size], 1.0)), row_lattice(1.0, width))
        return total

    def release(self, total: Total, noise: float, rng: Rng) -> np.ndarray:
        return np.asarray(rng.gaussian(total.value, noise=noise, sensitivity=1.0))
