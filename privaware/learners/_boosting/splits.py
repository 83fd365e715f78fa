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

__all__ = ["Splits", "column_chances", "random_splits"]

ANY_COLUMN = 0.2
"""Least expected fraction of splits whose column is drawn uniformly, because some columns act only with others."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Splits:
    """Splits of trees: the `columns` (trees, depth), and whether each level goes `right` (trees, depth, levels).

    `levels` is the largest number of levels of a column. All nodes of a tree at the same depth have the same split.
    """

    columns: np.ndarray
    right: np.ndarray


def column_chances(layout: CodedLayout, weights: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Return the probability of each column to be read: larger where its effect in the additive start exceeds noise.

    `weights` are the released weights of the additive start, and `deviations` the standard deviations that noise gave
    them (`Curves`).
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
    """Return random splits, `depth` for each of `trees` trees; `levels` is the number of levels of each column.

    A level of a number goes right above a random edge, a level of a category with probability 1/2. A missing value of a
    number goes right. Columns are drawn by their probabilities `chances` (None: equal ones), perhaps more than once in
    a tree.
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
