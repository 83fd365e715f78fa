"""Principal components of bounded rows from a noisy second-moment matrix (Analyze Gauss).

`features` are applied to the rows, which are flattened and clipped to L2 norm `norm`. Symmetric Gaussian noise is added
to the matrix A, the sum of the outer products a a' of all rows a. The first eigenvectors of the noisy matrix become a
`Project` feature. Rows are not centred, because the mean would be one more release.

Paper: Dwork, Talwar, Thakurta and Zhang 2014, Analyze Gauss: optimal bounds for privacy-preserving principal component
analysis.
Privacy: (epsilon, delta) for one row added or removed, by one Gaussian release. A row changes A by a a', whose
Frobenius norm is |a|^2 <= norm^2. This holds in floating-point arithmetic: rows are rounded to multiples of a public
power of two, so the sum has no rounding error (see `_moments`). Noise is drawn for the vector of the diagonal entries
and of sqrt(2) times the upper entries, which has the same norm as A. A diagonal entry gets noise of standard deviation
noise * norm^2, any other entry gets 1 / sqrt(2) of that. This costs as much as equal noise on the upper triangle and
has a smaller error. Plain components (`private=False`) have no guarantee: their cost is Unproven, and every accountant
and ledger refuses it.
Use when: rows are many and a few directions carry most of their variance. Directions whose eigenvalue is below about
noise * norm^2 * sqrt(2 * width) are lost in the noise.

>>> from privaware.noise import Rng
>>> from privaware.testing import example, rows_for
>>> projection = Pca(components=2).run(rows_for(example("image"), 500), noise=1.0, rng=Rng(seed=1))
>>> projection(np.ones((3, 1, 8, 8), np.float32)).shape
(3, 2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privaware._validate import expect_between, expect_count
from privaware.data import Data, Rows, Sum
from privaware.data import release as release_sum
from privaware.events import Event, Gaussian, Unproven
from privaware.exact_sums import Total
from privaware.features.project import Project
from privaware.noise import Rng
from privaware.preprocessing import Transformation
from privaware.preprocessing._moments import add_second_moments, clipped, release, transformed
from privaware.schema import Schema

__all__ = ["Pca"]


@dataclass(frozen=True, kw_only=True)
class Pca(Transformation):
    """A transformation that releases principal components.

    Parameters
    ----------
    components : int
        Number of components; all components if a row has fewer entries.
    norm : float
        L2 norm to which rows are clipped.
    private : bool
        Whether noise is added; without noise there is no guarantee.
    features : tuple
        Features that are applied to the rows first; without features, tables are one-hot encoded.
    """

    in_parts: ClassVar[bool] = True

    components: int = 64
    norm: float = 1.0
    private: bool = True
    features: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        expect_count("pca", components=self.components)
        expect_between("pca", 1e-9, 1e9, norm=self.norm)

    def cost(self, schema: Schema, noise: float) -> Event:
        if not self.private:
            return Unproven(reason="plain principal components are exact statistics of the rows")
        return Gaussian(noise=noise)

    def run(self, data: Rows, noise: float, rng: Rng) -> Project:
        moments = Moments(norm=self.norm, private=self.private, features=self.features)
        noisy = release_sum(moments, data.parts, noise, rng)
        values, vectors = np.linalg.eigh(noisy)
        order = np.argsort(-values, kind="stable")[: self.components]
        return Project(matrix=_plain(vectors[:, order]), norm=self.norm)


@dataclass(frozen=True, kw_only=True)
class Moments(Sum[Data, Total, np.ndarray]):
    """The second-moment matrix `rows.T @ rows` of all rows after `features`, flattened and clipped to L2 norm `norm`.

    The release is the matrix with symmetric Gaussian noise if `private`, and the exact matrix otherwise.
    """

    norm: float
    private: bool
    features: tuple[Any, ...]

    def partial(self, part: Data) -> Total:
        total = Total()
        for block in transformed(self.features, part):
            add_second_moments(total, clipped(block, self.norm), self.norm)
        return total

    def release(self, total: Total, noise: float, rng: Rng) -> np.ndarray:
        exact = np.asarray(total.value)
        return release(exact, noise, self.norm**2, rng) if self.private else exact


def _plain(vectors: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """Return the matrix `vectors` as a tuple of its rows, in float32; some columns are multiplied by -1.

    The entry of largest absolute value in each column becomes positive, because the sign of an eigenvector is
    arbitrary.
    """
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return tuple(map(tuple, vectors.astype(np.float32).tolist()))
