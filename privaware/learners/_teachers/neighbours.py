"""Exact votes of the nearest private rows: a distance is a function of two rows alone, on any device.

Rows are centred, projected on the principal directions of public rows, and rounded to integers. Each operation works
entry by entry or sums without rounding error, and squared distances of integers are exact. So neither the order of the
rows nor adding or removing a row changes which of two other rows is nearer.

Rows at the distance of the last neighbour share the remaining votes equally. This is the mean over all ways to break
ties. In each of them one more row replaces at most one neighbour. One row therefore changes the mean votes by at most
sqrt(2) in L2 norm, and the largest number of votes by at most 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware.exact_sums import MANTISSA, Lattice

__all__ = ["Embedding", "Neighbours"]

WIDTH = 128
"""Largest number of entries of a row after projection; shorter rows keep their length."""

BITS = 20
"""Bits of each entry; squared distances stay below 2^53, also for two embeddings side by side."""

RANGE_FACTOR = 2.0
"""Private rows are clipped to this many times the range of the public rows."""

MEMORY = 2**23
"""Largest number of distances, or of entries of projected rows, in memory at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedding:
    """A map from rows (rows, width) to integers, computed from public rows only.

    Rows are moved by `centre`, divided by `unit`, clipped to [-1, 1], projected on `directions` (width, entries),
    divided by `reach`, clipped to [-1, 1] and rounded to multiples of `2**-BITS`.
    """

    centre: np.ndarray
    unit: float
    directions: np.ndarray
    reach: float

    @classmethod
    def of(cls, pool: np.ndarray, generator: np.random.Generator) -> Embedding:
        """Return the embedding on the principal directions of the public rows `pool`.

        `generator` draws the vectors from which the search for these directions starts.
        """
        rows = np.nan_to_num(pool.astype(float), posinf=0.0, neginf=0.0)
        centre = rows.mean(axis=0)
        rows -= centre
        unit = max(RANGE_FACTOR * float(np.abs(rows).max(initial=0.0)), 1e-30)
        directions = _lattice(rows.shape[1]).nearest(_directions(rows / unit, generator))
        first = cls(centre=centre, unit=unit, directions=directions, reach=1.0)
        reach = max(RANGE_FACTOR * float(np.abs(first._projected(pool)).max(initial=0.0)), 1e-30)
        return cls(centre=centre, unit=unit, directions=directions, reach=reach)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return integers (rows, at most WIDTH) as float64."""
        lattice = Lattice(bound=1.0, bits=BITS)
        return np.asarray(lattice.nearest(self._projected(rows) / self.reach) / lattice.step)

    def _projected(self, rows: np.ndarray) -> np.ndarray:
        """Return exact products of rows and directions, both on a lattice."""
        finite = np.nan_to_num(rows.astype(float), posinf=0.0, neginf=0.0)
        return np.asarray(_lattice(rows.shape[1]).nearest((finite - self.centre) / self.unit) @ self.directions)


def _lattice(width: int) -> Lattice:
    """Return a lattice on which sums of `width` products of two values are exact in float64."""
    return Lattice(bound=1.0, bits=(MANTISSA - math.ceil(math.log2(max(width, 1)))) // 2)


def _directions(rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return orthonormal principal directions (width, WIDTH) of centred `rows`, by subspace iteration.

    If `width` is at most `WIDTH`, the result is the identity matrix.
    """
    width = rows.shape[1]
    if width <= WIDTH:
        return np.eye(width)
    basis = generator.standard_normal((width, WIDTH))
    for _ in range(4):
        basis = np.linalg.qr(rows.T @ (rows @ np.linalg.qr(basis)[0]))[0]
    return basis


class Neighbours:
    """Private rows, as `Embedding` returns them, and their class codes, on a device."""

    def __init__(self, rows: np.ndarray, labels: np.ndarray, classes: int, device: str) -> None:
        import torch

        self.rows = torch.from_numpy(rows).to(device)
        self.squares = (self.rows**2).sum(1)
        self.one_hot = torch.eye(classes, dtype=torch.float64)[torch.from_numpy(labels)].to(device)

    def __len__(self) -> int:
        return len(self.rows)

    def votes(self, queries: np.ndarray, samples: np.ndarray, count: int) -> np.ndarray:
        """Return, for each query (embedded as the rows are), the number of votes for each class (queries, classes).

        The `count` nearest rows of a query's sample vote; `samples` (queries, rows) is the mask of each sample. If a
        sample has fewer rows than `count`, all of them vote. Rows at the distance of the last neighbour share the
        remaining votes equally.
        """
        import torch

        if not len(self.rows):
            return np.zeros((len(queries), self.one_hot.shape[1]))
        sampled = torch.from_numpy(samples).to(self.rows.device)
        asked: Any = torch.from_numpy(queries).to(self.rows.device)
        distances = torch.addmm(self.squares[None], asked, self.rows.T, alpha=-2.0)  # without the query's squared norm
        distances.masked_fill_(~sampled, math.inf)
        last = distances.kthvalue(min(count, len(self.rows)), dim=1, keepdim=True).values
        nearer = (distances < last).double() @ self.one_hot
        tied = ((distances == last) & sampled).double() @ self.one_hot
        left = count - nearer.sum(1, keepdim=True)
        shares = (left / tied.sum(1, keepdim=True).clamp(min=1.0)).clamp(max=1.0)
        return np.asarray((nearer + tied * shares).cpu().numpy())
