"""What trees split on: random columns at random levels, which depend on no row beside what was released.

Columns with a larger effect in the additive start are drawn more often, because they are likelier to interact. The
additive start was released, so this has no privacy cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privaware.learners._boosting.coded_rows import NUMBER_STEPS, CodedLayout
from privaware.schema import Schema

ANY_COLUMN = 0.2
"""Least expected fraction of splits whose column is drawn uniformly, because some columns act only with others."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Splits:
    """The splits of trees; all nodes of a tree at the same depth have the same split.

    `columns` (trees, depth) are positions of columns. `right` (trees, depth, levels) says whether a row at a level of
    the column goes right; it is padded to the largest number of levels of a column.
    """

    columns: np.ndarray
    right: np.ndarray


def column_chances(layout: CodedLayout, weights: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Return the probability with which each column is read by a tree or a feature: (columns,), summing to 1.

    It is larger for a column whose effect in the additive start exceeds what noise alone would give; every column has
    some probability. `weights` (1 + all levels + slopes, outputs) are the released weights of the additive start, and
    `deviations` (columns + slopes,) the standard deviations that noise gave them (see `Curves`).
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
    strengths += max(ANY_COLUMN / (1 - ANY_COLUMN) * float(strengths.mean()), math.sqrt(float(noises.mean())))
    return np.asarray(strengths / strengths.sum())


def random_splits(
    schema: Schema,
    levels: tuple[int, ...],
    *,
    trees: int,
    depth: int,
    generator: np.random.Generator,
    chances: np.ndarray | None = None,
) -> Splits:
    """Return random splits of `trees` trees, `depth` splits for each.

    `levels` is the number of levels of each column in `schema.used`. Columns are drawn with the probabilities `chances`
    (None: equal ones), perhaps more than once in a tree. Levels of a number above a random edge go right, and so do its
    missing values. Each level of a category goes right with probability 1/2. `generator` makes all draws.
    """
    columns = np.zeros((trees, depth), np.int64)
    right = np.zeros((trees, depth, max(levels)), bool)
    for tree in range(trees):
        for split, column in enumerate(generator.choice(len(levels), depth, p=chances)):
            size = levels[column]
            if schema.used[column].kind == "category":
                goes_right = generator.random(size) < 0.5
            else:
                goes_right = np.arange(size) >= generator.integers(1, max(size, 2))
            columns[tree, split], right[tree, split, :size] = column, goes_right
    return Splits(columns=columns, right=right)
