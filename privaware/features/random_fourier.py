"""Random Fourier features of numeric rows: a linear model on them is a kernel machine with a Gaussian kernel.

A row x becomes cos(W x / scale + b) * norm / sqrt(count). Frequencies W and phases b are drawn once from a public seed.
The inner product of two such rows approaches norm^2 / 2 * exp(-|x - y|^2 / (2 * scale^2)) as `count` grows. The L2 norm
of a row is at most `norm`, for any values. For the columns of a table, `table_fourier` also codes categories and
missing values.

Paper: Rahimi and Recht 2007, Random Features for Large-Scale Kernel Machines.
Privacy: no privacy cost (data-independent): each row is transformed by itself, by a map drawn beforehand.
Use when: a few columns interact, which a linear model cannot express.

>>> RandomFourier(count=4)(np.zeros((2, 3), np.float32)).shape
(2, 4)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privaware._validate import expect_between, expect_count
from privaware.features._fourier import random_fourier_features
from privaware.schema import Schema

__all__ = ["RandomFourier"]


@dataclass(frozen=True, kw_only=True)
class RandomFourier:
    """Map each flattened row x to cos(W x / scale + b) * norm / sqrt(count); entries that are not finite become 0.

    The entries of W are standard normal, and the entries of b are uniform on [0, 2 pi], drawn from a public seed.

    Parameters
    ----------
    count : int
        Number of features.
    scale : float
        Width of the Gaussian kernel.
    norm : float
        Bound on the L2 norm of a row.
    draw : int
        Public seed of the frequencies and phases.
    """

    count: int = 1024
    scale: float = 1.0
    norm: float = 1.0
    draw: int = 0

    def __post_init__(self) -> None:
        expect_count("random_fourier", count=self.count)
        expect_count("random_fourier", 0, draw=self.draw)
        expect_between("random_fourier", 1e-9, 1e9, scale=self.scale, norm=self.norm)

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        rows = x.reshape(len(x), math.prod(x.shape[1:])).astype(np.float32)
        rows = np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
        rng = np.random.Generator(np.random.PCG64([self.draw, rows.shape[1], self.count]))
        frequencies = rng.standard_normal((rows.shape[1], self.count), np.float32)
        phases = rng.uniform(0, 2 * math.pi, self.count).astype(np.float32)
        angles = rows @ (frequencies / np.float32(self.scale)) + phases
        return random_fourier_features(angles, self.norm)

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a row."""
        return self.count
