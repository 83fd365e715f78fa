"""Votes of the nearest private rows, exact: a distance is a function of two rows alone, on any device.

Rows are centred and projected on the main directions of public rows, and rounded to whole numbers, in steps of which
each is done entry by entry or by sums without rounding error. Squared distances of whole numbers are exact too. So
neither the order of the rows nor a row that comes or goes changes which of two others is nearer.

Rows at the distance of the last neighbour share the votes that are left in equal parts. That is the mean over all
ways to break ties; in each of them a row more takes the place of one neighbour at most, so it moves the mean by at
most the root of 2, and the largest number of votes by at most 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware.exact_sums import MANTISSA, Lattice

__all__ = ["Embedding", "Neighbours"]

WIDTH = 128
"""Numbers of a row after projection."""

BITS = 20
"""Of each of them: squared distances stay below 2^53, also of two maps side by side."""

REACH = 2.0
"""Private rows may lie this many times as far out as the farthest public one; what lies beyond is moved there."""

MEMORY = 2**23
"""Distances in work at once, and numbers of rows that are projected at once."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedding:
    """The map from rows (rows, width) to whole numbers, from public rows only."""

    centre: np.ndarray
    unit: float
    directions: np.ndarray
    reach: float

    @classmethod
    def of(cls, pool: np.ndarray, generator: np.random.Generator) -> Embedding:
        """The main directions of the rows of a pool."""
        rows = np.nan_to_num(pool.astype(float), posinf=0.0, neginf=0.0)
        centre = rows.mean(axis=0)
        rows -= centre
        unit = max(REACH * float(np.abs(rows).max(initial=0.0)), 1e-30)
        directions = _lattice(rows.shape[1]).nearest(_directions(rows / unit, generator))
        first = cls(centre=centre, unit=unit, directions=directions, reach=1.0)
        reach = max(REACH * float(np.abs(first._projected(pool)).max(initial=0.0)), 1e-30)
        return cls(centre=centre, unit=unit, directions=directions, reach=reach)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Whole numbers (rows, WIDTH at most) as float64."""
        lattice = Lattice(bound=1.0, bits=BITS)
        return np.asarray(lattice.nearest(self._projected(rows) / self.reach) / lattice.step)

    def _projected(self, rows: np.ndarray) -> np.ndarray:
        """Exact products of rows and directions, both on a lattice."""
        finite = np.nan_to_num(rows.astype(float), posinf=0.0, neginf=0.0)
        return np.asarray(_lattice(rows.shape[1]).nearest((finite - self.centre) / self.unit) @ self.directions)


def _lattice(width: int) -> Lattice:
    """One on which sums of `width` products of two values are exact in float64."""
    return Lattice(bound=1.0, bits=(MANTISSA - math.ceil(math.log2(max(width, 1)))) // 2)


def _directions(rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Orthonormal main directions (width, WIDTH) of centred rows, by subspace iteration; all of them where few."""
    width = rows.shape[1]
    if width <= WIDTH:
        return np.eye(width)
    basis = generator.standard_normal((width, WIDTH))
    for _ in range(4):
        basis = np.linalg.qr(rows.T @ (rows @ np.linalg.qr(basis)[0]))[0]
    return basis


class Neighbours:
    """Embedded private rows and their labels, on a device."""

    def __init__(self, rows: np.ndarray, labels: np.ndarray, classes: int, device: str) -> None:
        import torch

        self.rows = torch.from_numpy(rows).to(device)
        self.squares = (self.rows**2).sum(1)
        self.one_hot = torch.eye(classes, dtype=torch.float64)[torch.from_numpy(labels)].to(device)

    def __len__(self) -> int:
        return len(self.rows)

    def votes(self, queries: np.ndarray, samples: np.ndarray, count: int) -> np.ndarray:
        """The labels (queries, classes) of the `count` nearest rows of each query's sample (queries, rows).

        Fewer where a sample has fewer.
        """
        import torch

        if not len(self.rows):
            return np.zeros((len(queries), self.one_hot.shape[1]))
        sampled = torch.from_numpy(samples).to(self.rows.device)
        asked: Any = torch.from_numpy(queries).to(self.rows.device)
        distances = torch.addmm(self.squares[None], asked, self.rows.T, alpha=-2.0)  # less the query's own square
        distances.masked_fill_(~sampled, math.inf)
        last = distances.kthvalue(min(count, len(self.rows)), dim=1, keepdim=True).values
        nearer = (distances < last).double() @ self.one_hot
        tied = ((distances == last) & sampled).double() @ self.one_hot
        left = count - nearer.sum(1, keepdim=True)
        shares = (left / tied.sum(1, keepdim=True).clamp(min=1.0)).clamp(max=1.0)
        return np.asarray((nearer + tied * shares).cpu().numpy())
