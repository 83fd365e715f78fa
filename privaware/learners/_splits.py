"""What trees split on: random columns at random levels, or pairs of columns that a private test found to act together.

Columns that the additive start found strong come more often: where such a one acts, interactions are likelier, and
what the start learnt was released, so it costs nothing.

The test sums the gradients that are left after the additive start on a coarse grid of each pair. What is neither due to
the one column alone nor to the other is squared, and pairs stand out where that is more than noise gives.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privaware.learners._code_tables import by_code, chunks
from privaware.learners._coded_rows import NUMBER_STEPS, CodedLayout, CodedRows
from privaware.learners._derivatives import derivatives
from privaware.learners._leaf_sums import ArraySum
from privaware.schema import Schema

__all__ = ["PairSums", "Pairs", "column_chances", "found_pairs", "random_splits"]

Pairs = list[tuple[int, int]]

GROUPS = 4
"""Groups of levels of each column in the grid of a pair."""

STANDS_OUT = 2.5
"""Deviations of what noise gives by which a pair has to be above it."""

MOST_PAIRS = 12

ANY = 0.2
"""The least part of the splits on any column, whatever the additive start found: columns may act together only."""

FAVOURED = 0.75
"""The part of the trees that split on one of the pairs, where there are any."""


@dataclass(frozen=True, kw_only=True)
class PairSums(ArraySum):
    """Gradients on a grid of every pair of columns: (pairs, outputs, cells). A row is in one cell of each."""

    layout: CodedLayout
    unit: float

    @cached_property
    def pairs(self) -> Pairs:
        return list(itertools.combinations(range(len(self.layout.levels)), 2))

    @property
    def sensitivity(self) -> float:  # type: ignore[override]
        return self.layout.length * math.sqrt(len(self.pairs))

    def partial(self, part: CodedRows) -> np.ndarray:
        sums = np.zeros((len(self.pairs), self.layout.outputs, GROUPS**2))
        for rows in chunks(part):
            gradients, _ = derivatives(self.layout, part.values[:, rows], part.target[rows], self.unit, curved=False)
            gradients = gradients.astype(np.float64)
            groups = [table.take(part.codes[group][rows]) for group, table in self._groups]
            for total, (first, second) in zip(sums, self.pairs, strict=True):
                total += by_code(GROUPS * groups[first] + groups[second], gradients, GROUPS**2)
        return sums

    @cached_property
    def _groups(self) -> list[tuple[int, np.ndarray]]:
        """For each column where its codes are, and the group of levels of each: neighbours, or categories in turn."""
        layout, groups = self.layout, []
        for at, (column, size) in enumerate(zip(layout.schema.used, layout.levels, strict=True)):
            levels = np.arange(size)
            of_level = levels % GROUPS if column.kind == "category" else levels * GROUPS // size
            codes = layout.groups.index(layout.group_of(at))
            groups.append((codes, layout.by_group(at, of_level[layout.level_of[at]])))
        return groups


def found_pairs(sums: PairSums, noisy: np.ndarray, noise: float) -> Pairs:
    """The pairs that stand out of the noise, the strongest first."""
    grids = noisy.reshape(*noisy.shape[:2], GROUPS, GROUPS)
    grids = grids - grids.mean(axis=2, keepdims=True)
    grids = grids - grids.mean(axis=3, keepdims=True)
    squares = (grids**2).sum(axis=(1, 2, 3)) / (noise * sums.sensitivity) ** 2
    freedom = (GROUPS - 1) ** 2 * sums.layout.outputs
    above = (squares - freedom) / math.sqrt(2 * freedom)
    order = [int(at) for at in np.argsort(-above, kind="stable") if above[at] > STANDS_OUT]
    return [sums.pairs[at] for at in order[:MOST_PAIRS]]


def column_chances(layout: CodedLayout, weights: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """The chance of each column to be split on: larger where the additive start found more than noise gives.

    `weights` are those of the start and `deviations` what noise alone gave them: both were released.
    """
    slopes = weights[1 + sum(layout.levels) :]
    squares, noises = np.zeros(len(layout.levels)), layout.outputs * deviations[: len(layout.levels)] ** 2
    for at, (start, level_of) in enumerate(zip(layout.starts, layout.level_of, strict=True)):
        curve = weights[start + level_of]
        if at in layout.numbered:
            number = layout.numbered.index(at)
            line = (layout.number_of[number] / NUMBER_STEPS)[:, None]
            curve = curve + line * slopes[number]
            noises[at] += layout.outputs * deviations[len(layout.levels) + number] ** 2 * float(line.var())
        squares[at] = float(curve.var(axis=0).sum())
    strengths = np.sqrt(np.maximum(squares - noises, 0.0))
    strengths += max(ANY / (1 - ANY) * float(strengths.mean()), math.sqrt(float(noises.mean())))
    return np.asarray(strengths / strengths.sum())


def random_splits(
    schema: Schema,
    levels: tuple[int, ...],
    shape: tuple[int, int],
    generator: np.random.Generator,
    pairs: Pairs | None = None,
    chances: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Columns (trees, depth), and of each level whether it goes right: above a random edge, or in a random subset.

    Columns come by their `chances` (equal ones by default), perhaps more than once in a tree, and one of the `pairs`
    first if some were found. Which column and which edge depends on no row beside that.
    """
    trees, depth = shape
    columns = np.zeros(shape, np.int64)
    right = np.zeros((trees, depth, max(levels)), bool)
    for tree in range(trees):
        order = generator.choice(len(levels), depth, p=chances)
        if pairs and depth > 1 and generator.random() < FAVOURED:
            order[:2] = pairs[generator.integers(len(pairs))]
        for split, column in enumerate(order):
            size = levels[column]
            if schema.used[column].kind == "category":
                goes_right = generator.random(size) < 0.5
            else:
                goes_right = np.arange(size) >= generator.integers(1, max(size, 2))
            columns[tree, split], right[tree, split, :size] = column, goes_right
    return columns, right
