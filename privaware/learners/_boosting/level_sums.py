"""Sums over levels as `amortised` releases them: beside each level of a number, four harmonics over all its levels.

A smooth effect of a number shows in a few sums of many rows, which have less noise than many sums of few rows
(`features/_fourier.py`). Weights are multiples of 2^-10, so that sums of them are exact as long as sums of levels leave
ten bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privaware.exact_sums import Lattice
from privaware.features._fourier import HARMONIC_WEIGHTS, LEVEL_WEIGHT, harmonics
from privaware.schema import Schema

__all__ = ["LevelSums"]

LATTICE = Lattice(bound=1.0, bits=10)
"""Lattice of the weights of levels and harmonics."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelSums:
    """The map from sums over levels to the sums that are released.

    For each column, a matrix (levels, levels + harmonics) in `matrices` maps the sums of its levels to released sums;
    a category has no harmonics. No row of a matrix has norm above 1. `ordered` and `with_missing` say of each column
    whether it is a number, and whether its last level is for missing values.
    """

    matrices: tuple[np.ndarray, ...]
    ordered: tuple[bool, ...]
    with_missing: tuple[bool, ...]

    @classmethod
    def of(cls, schema: Schema, levels: tuple[int, ...]) -> LevelSums:
        """Return the map for the columns of `schema`, which have these numbers of `levels`."""
        ordered = tuple(column.kind == "number" for column in schema.used)
        missing = tuple(column.missing == "category" for column in schema.used)
        facts = zip(levels, ordered, missing, strict=True)
        return cls(matrices=tuple(_matrix(*each) for each in facts), ordered=ordered, with_missing=missing)

    @property
    def length(self) -> float:
        """Return the largest L2 change of the release by one row, divided by the norm of the row's residual."""
        return math.sqrt(1 + len(self.matrices))

    def of_levels(self, exact: np.ndarray) -> np.ndarray:
        """Return the exact sums (outputs, released sums) to which the caller adds noise.

        `exact` (outputs, 1 + all levels) has the sum of all rows, then the sums of the levels of each column. The sum
        of all rows is kept. The sums of the levels of a column are multiplied by its matrix in `matrices`. So a
        category keeps its sums, and a number gets weighted sums of its levels, then of its harmonics.
        """
        parts, at = [exact[:, :1]], 1
        for matrix in self.matrices:
            parts.append(exact[:, at : at + len(matrix)] @ matrix)
            at += len(matrix)
        return np.concatenate(parts, axis=1)

    def split(self, noisy: np.ndarray) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
        """Return the total and, for each column, the sums of levels and of harmonics, divided by their factors.

        `noisy` (..., outputs, released sums) is a release. The factors are the square roots of `LEVEL_WEIGHT` and
        `HARMONIC_WEIGHTS`. For a category the factor of a level is 1, and the harmonics are zeros.
        """
        levels, smooth, at = [], [], 1
        for matrix, ordered in zip(self.matrices, self.ordered, strict=True):
            count, width = matrix.shape
            part, at = noisy[..., at : at + width], at + width
            levels.append(part[..., :count] / (math.sqrt(LEVEL_WEIGHT) if ordered else 1.0))
            none = np.zeros((*noisy.shape[:-1], len(HARMONIC_WEIGHTS)))
            smooth.append(part[..., count:] / np.sqrt(HARMONIC_WEIGHTS) if ordered else none)
        return noisy[..., 0], levels, smooth


def _matrix(levels: int, ordered: bool, with_missing: bool) -> np.ndarray:
    if not ordered:
        return np.eye(levels)
    known = levels - with_missing
    angles = np.pi * np.arange(known) / max(known - 1, 1)
    smooth = np.stack(harmonics(angles, np.cos, np.sin), axis=1)
    matrix = np.zeros((levels, levels + len(HARMONIC_WEIGHTS)))
    np.fill_diagonal(matrix, math.sqrt(LEVEL_WEIGHT))
    matrix[:known, levels:] = smooth * np.sqrt(HARMONIC_WEIGHTS)
    return np.asarray(LATTICE.round(matrix))
