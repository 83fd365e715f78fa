"""How an additive model is summed and moved: a bias, scores of levels, slopes of numbers, and waves over their levels.

A number acts smoothly as a rule. Its waves are cosines over its levels whose weights fall with their frequency: each
gathers the gradients of many rows, where single levels hold few, so that noise hides less. They are functions of public
levels: sums over waves are linear in sums over levels, and what they learn is added to the scores of levels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

__all__ = ["CurveBasis"]

SLOPE = 0.75
"""Weight of a number's slope beside its cosines; a sum of few powers of two, so that products are exact."""

BINNED = 0.25
"""Weight of a number's level beside its cosines; a power of two, so that products are exact."""

WAVES = 8
"""Most cosines of a number."""

SMOOTHNESS = 0.3
"""Length scale of a number's curve, as a fraction of its range."""

BITS = 8
"""Weights of waves are multiples of 2^-8: products with exact sums fit an int64 for 2^32 rows."""

GRADIENT_BITS = 20
"""Sums over levels are multiples of 2^-20."""


@dataclass(frozen=True, kw_only=True)
class CurveBasis:
    """`levels` are those of each column, `numbers` the columns with a slope, and whether the last level means missing.

    Sums and weights of levels have the order bias, levels, slopes; what is released has the waves of each number after
    them.
    """

    levels: tuple[int, ...]
    numbers: tuple[tuple[int, bool], ...]

    @cached_property
    def tables(self) -> list[np.ndarray]:
        """(levels, waves) of each number; a row's length is at most 1."""
        return [_waves(self.levels[at], missing) for at, missing in self.numbers]

    @cached_property
    def level_weights(self) -> np.ndarray:
        """The weight of the level of each column."""
        weights = np.ones(len(self.levels))
        weights[[at for at, _ in self.numbers]] = BINNED
        return weights

    @cached_property
    def terms(self) -> np.ndarray:
        """The weight of the bias, of each level and of each slope."""
        levels = np.repeat(self.level_weights, self.levels)
        return np.concatenate([[1.0], levels, np.full(len(self.numbers), SLOPE)])[:, None]

    @cached_property
    def width(self) -> int:
        """How many sums are released for one output."""
        return len(self.terms) + sum(table.shape[1] for table in self.tables)

    @cached_property
    def length(self) -> float:
        """How far one row moves the released sums, over the length of its gradient."""
        waves = sum(float((table**2).sum(axis=1).max(initial=0.0)) for table in self.tables)
        levels = float((self.level_weights**2).sum())
        return math.sqrt(1 + levels + SLOPE**2 * len(self.numbers) + waves)

    def released(self, sums: np.ndarray) -> np.ndarray:
        """Exact sums with weights, and those over waves: whole multiples of 2^-28, added without rounding error."""
        parts = [sums * self.terms]
        for (at, _), table in zip(self.numbers, self.tables, strict=True):
            steps = (sums[self._part(at)] * 2.0**GRADIENT_BITS).astype(np.int64)
            waves = (table * 2.0**BITS).astype(np.int64)
            parts.append((waves.T @ steps) * 2.0 ** -(GRADIENT_BITS + BITS))
        return np.concatenate(parts)

    def weights(self, coefficients: np.ndarray) -> np.ndarray:
        """Weights of the bias, levels and slopes from coefficients of what is released."""
        weights, used = coefficients[: len(self.terms)] * self.terms, len(self.terms)
        for (at, _), table in zip(self.numbers, self.tables, strict=True):
            weights[self._part(at)] += table @ coefficients[used : used + table.shape[1]]
            used += table.shape[1]
        return weights

    @property
    def deviations(self) -> np.ndarray:
        """The typical length of what moves the score of a level of each column, then each slope."""
        squares = self.level_weights**2
        for (at, _), table in zip(self.numbers, self.tables, strict=True):
            squares[at] += float((table**2).sum(axis=1).mean())
        return np.concatenate([np.sqrt(squares), np.full(len(self.numbers), SLOPE)])

    def _part(self, at: int) -> slice:
        start = 1 + sum(self.levels[:at])
        return slice(start, start + self.levels[at])


def _waves(levels: int, missing: bool) -> np.ndarray:
    """Cosines over the levels that are not for missing values."""
    known = levels - missing
    count = min(WAVES, known - 1) if known > 2 else 0
    frequencies = math.pi * np.arange(1, count + 1)
    waves = np.cos(frequencies * ((np.arange(known) + 0.5) / max(known, 1))[:, None])
    waves = waves / np.sqrt(1 + (frequencies * SMOOTHNESS) ** 2)
    longest = np.sqrt((waves**2).sum(axis=1).max(initial=1e-12)) if count else 1.0
    table = np.zeros((levels, count))
    table[:known] = np.trunc(waves / longest * 2**BITS) / 2**BITS
    return table
