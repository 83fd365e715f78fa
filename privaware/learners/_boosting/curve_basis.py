"""The basis of an additive model: a bias, scores of levels, slopes of numbers, and cosines over the levels of numbers.

The effect of a number is usually smooth. A cosine over the levels of a number gathers the gradients of many rows, where
a single level holds few rows, so noise hides less of the effect (`features/_fourier.py`). Cosines are functions of
public levels: sums over cosines are linear in sums over levels, and the coefficients of the cosines are added to the
scores of the levels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from privaware.features._fourier import SMOOTH_BITS, smooth_cosines

SLOPE = 0.75
"""Weight of the slope of a number, relative to its cosines; a sum of few powers of two, so that products are exact."""

LEVEL = 0.25
"""Weight of a level of a number, relative to its cosines; a power of two, so that products are exact."""

GRADIENT_BITS = 20
"""Sums over levels are multiples of `2**-GRADIENT_BITS`."""


@dataclass(frozen=True, kw_only=True)
class CurveBasis:
    """The basis in which sums of gradients are released.

    `levels` is the number of levels of each column. `numbers` has, for each column with a slope, its position among the
    columns and whether its last level is for missing values. Sums and weights have the order bias, levels, slopes.
    Released sums have the cosines of each number after these.
    """

    levels: tuple[int, ...]
    numbers: tuple[tuple[int, bool], ...]

    @cached_property
    def tables(self) -> list[np.ndarray]:
        """Return the cosines (levels, cosines) of each column with a slope; no row of an array has norm above 1."""
        return [smooth_cosines(self.levels[at], missing) for at, missing in self.numbers]

    @cached_property
    def level_weights(self) -> np.ndarray:
        """Return the weight of the levels of each column (columns,): `LEVEL` for a column with a slope, else 1."""
        weights = np.ones(len(self.levels))
        weights[[at for at, _ in self.numbers]] = LEVEL
        return weights

    @cached_property
    def terms(self) -> np.ndarray:
        """Return the fixed factors of the sums, as a column vector (1 + all levels + slopes, 1).

        They are 1 for the bias, `level_weights` for the levels of each column, and `SLOPE` for each slope.
        """
        levels = np.repeat(self.level_weights, self.levels)
        return np.concatenate([[1.0], levels, np.full(len(self.numbers), SLOPE)])[:, None]

    @cached_property
    def width(self) -> int:
        """Return the number of sums that are released for one output: for the bias, levels, slopes and cosines."""
        return len(self.terms) + sum(table.shape[1] for table in self.tables)

    @cached_property
    def length(self) -> float:
        """Return the largest L2 norm of what one row adds to the released sums, divided by the norm of its gradient.

        The row adds its gradient, times fixed factors, to the sums of the bias, of one level of each column, and of the
        slope and the cosines of each column with a slope.
        """
        cosines = sum(float((table**2).sum(axis=1).max(initial=0.0)) for table in self.tables)
        levels = float((self.level_weights**2).sum())
        return math.sqrt(1 + levels + SLOPE**2 * len(self.numbers) + cosines)

    def released(self, sums: np.ndarray) -> np.ndarray:
        """Return the sums that are released (width, outputs): `sums` times `terms`, then the sums over cosines.

        `sums` (1 + all levels + slopes, outputs) are exact sums of gradients for the bias, each level and each slope.
        The sums over cosines are computed in integers, so they have no rounding error.
        """
        parts = [sums * self.terms]
        for (at, _), table in zip(self.numbers, self.tables, strict=True):
            steps = (sums[self._part(at)] * 2.0**GRADIENT_BITS).astype(np.int64)
            cosines = (table * 2.0**SMOOTH_BITS).astype(np.int64)
            parts.append((cosines.T @ steps) * 2.0 ** -(GRADIENT_BITS + SMOOTH_BITS))
        return np.concatenate(parts)

    def weights(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the weights of bias, levels and slopes (1 + all levels + slopes, outputs) from `coefficients`.

        `coefficients` (width, outputs) has one number for each released sum. Those of bias, levels and slopes are
        multiplied by `terms`, and what the cosines give at a level is added to the level's score.
        """
        weights, used = coefficients[: len(self.terms)] * self.terms, len(self.terms)
        for (at, _), table in zip(self.numbers, self.tables, strict=True):
            weights[self._part(at)] += table @ coefficients[used : used + table.shape[1]]
            used += table.shape[1]
        return weights

    @property
    def deviations(self) -> np.ndarray:
        """Return the standard deviations that noise gives the scores of each column, then each slope.

        The result is (columns + slopes,). The noise has standard deviation 1 in each coefficient. The variance of a
        score is averaged over the levels of its column.
        """
        squares = self.level_weights**2
        for (at, _), table in zip(self.numbers, self.tables, strict=True):
            squares[at] += float((table**2).sum(axis=1).mean())
        return np.concatenate([np.sqrt(squares), np.full(len(self.numbers), SLOPE)])

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        return tuple(accumulate(self.levels, initial=1))

    def _part(self, at: int) -> slice:
        return slice(self._ends[at], self._ends[at + 1])
