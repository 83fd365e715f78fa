"""Sums over levels as `amortised` releases them: beside each level of a number, smooth waves over all its levels.

What acts smoothly on a class is in a few sums of many rows then, which the noise of many levels would hide. Weights
are multiples of 2^-10, so that sums of them are exact as long as those of levels leave ten bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privaware.exact_sums import Lattice
from privaware.schema import Schema

__all__ = ["BIN_WEIGHT", "WAVES", "WAVE_WEIGHTS", "LevelSums"]

WAVE_WEIGHTS = (0.4, 0.4, 0.15, 0.15)
"""Squared weights of the waves: cosine and sine of half a period over the levels, and of a whole one."""

BIN_WEIGHT = 0.45
"""The squared weight of a number's level beside them: together 1 for every level."""

WAVES = len(WAVE_WEIGHTS)
LATTICE = Lattice(bound=1.0, bits=10)


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelSums:
    """`matrices` (levels, levels + waves) map the sums of a column's levels to what is released.

    None of their rows is longer than 1. `ordered` and `with_missing` say whether levels are those of a number, and
    whether the last one is for missing values.
    """

    matrices: tuple[np.ndarray, ...]
    ordered: tuple[bool, ...]
    with_missing: tuple[bool, ...]

    @classmethod
    def of(cls, schema: Schema, levels: tuple[int, ...]) -> LevelSums:
        """From public facts alone."""
        ordered = tuple(column.kind == "number" for column in schema.used)
        missing = tuple(column.missing == "category" for column in schema.used)
        facts = zip(levels, ordered, missing, strict=True)
        return cls(matrices=tuple(_matrix(*each) for each in facts), ordered=ordered, with_missing=missing)

    @property
    def length(self) -> float:
        """How far one row moves the release, over the length of its residual."""
        return math.sqrt(1 + len(self.matrices))

    def of_levels(self, exact: np.ndarray) -> np.ndarray:
        """(outputs, 1 + all levels): the sums of all rows, then of levels; with waves."""
        parts, at = [exact[:, :1]], 1
        for matrix in self.matrices:
            parts.append(exact[:, at : at + len(matrix)] @ matrix)
            at += len(matrix)
        return np.concatenate(parts, axis=1)

    def split(self, noisy: np.ndarray) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
        """The total, and for each column sums of levels and of waves, unweighted; `noisy` is (..., outputs, all)."""
        levels, waves, at = [], [], 1
        for matrix, ordered in zip(self.matrices, self.ordered, strict=True):
            count, width = matrix.shape
            part, at = noisy[..., at : at + width], at + width
            levels.append(part[..., :count] / (math.sqrt(BIN_WEIGHT) if ordered else 1.0))
            none = np.zeros((*noisy.shape[:-1], WAVES))
            waves.append(part[..., count:] / np.sqrt(WAVE_WEIGHTS) if ordered else none)
        return noisy[..., 0], levels, waves


def _matrix(levels: int, ordered: bool, with_missing: bool) -> np.ndarray:
    if not ordered:
        return np.eye(levels)
    known = levels - with_missing
    turns = np.pi * np.arange(known) / max(known - 1, 1)
    waves = np.stack([np.cos(turns), np.sin(turns), np.cos(2 * turns), np.sin(2 * turns)], axis=1)
    matrix = np.zeros((levels, levels + WAVES))
    np.fill_diagonal(matrix, math.sqrt(BIN_WEIGHT))
    matrix[:known, levels:] = waves * np.sqrt(WAVE_WEIGHTS)
    return np.asarray(LATTICE.round(matrix))
