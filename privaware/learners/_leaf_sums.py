"""What boosting sums over rows: gradients by the levels of all columns, or by the leaves of a tree, exactly.

A row's gradient is a function of its outputs and target alone, bit for bit (`_row_functions`), on a public lattice of
2^-20: sums of fewer than 2^32 rows have no rounding error in any order.
"""

from __future__ import annotations

import math

import numpy as np

from privaware.data import Data
from privaware.exact_sums import MARGIN, Lattice, outer_sum
from privaware.learners._row_functions import LOG2E, softmax_numerators, tanh
from privaware.model import scaled
from privaware.schema import Schema

__all__ = ["SECOND_WEIGHT", "Gradients", "random_splits"]

SECOND_WEIGHT = 0.25
"""The weight of a second derivative beside a gradient: a power of two."""

LATTICE = Lattice(bound=1 - MARGIN, bits=20)

STABLE, STABLE_OF_NUMBERS = 16.0, 3.0
"""Squares have the same curvature everywhere, so momentum bounds their step; logits have less of it where it counts."""

MOST_NOISE, MOST_NOISE_OF_NUMBERS = 0.7, 0.1
"""The deviation that noise may give a logit, and a number whose range is [-1, 1], before later steps correct it."""


class Gradients:
    """The rows' outputs so far, and their gradients.

    `length` bounds a gradient, `unit` is what a gradient of 1 means for an output, `curvature` the largest second
    derivative: those that are summed are divided by it. `most_noise`, in units, is what noise alone may do to an
    output, `stable` the largest step over the inverse of the largest curvature that all rows together can have.
    """

    def __init__(self, data: Data, rows: np.ndarray, levels: tuple[int, ...], reach: float) -> None:
        """`rows` are level codes, then numbers from -1 to 1."""
        self.schema, self.levels = data.schema, levels
        self.codes, self.numbers = (
            rows[:, : len(levels)].astype(np.int64),
            LATTICE.round(rows[:, len(levels) :].astype(float)),
        )
        classes = len(data.schema.classes)
        self.outputs = classes if classes > 2 else 1
        self.length = math.sqrt(2.0) if classes > 2 else 1.0
        self.stable = STABLE if classes else STABLE_OF_NUMBERS
        self.most_noise = MOST_NOISE if classes else MOST_NOISE_OF_NUMBERS / reach
        self.unit, self.curvature = (1.0, 0.25 if classes == 2 else 0.5) if classes else (reach, 1.0)
        self.target = data.y if classes else scaled(np.nan_to_num(data.y.astype(float)), data.schema)
        self.values = np.zeros((self.outputs, len(rows)))
        self.starts = 1 + np.cumsum((0, *levels[:-1])).astype(np.int64)

    @property
    def width(self) -> int:
        """Weights of an additive model for one output: the bias, scores of all levels, slopes of the numbers."""
        return 1 + sum(self.levels) + self.numbers.shape[1]

    @property
    def row_length(self) -> float:
        """What bounds the length of a row's terms in `level_sums`, over that of its gradient."""
        return math.sqrt(1 + len(self.levels) + self.numbers.shape[1])

    def add_scores(self, weights: np.ndarray) -> None:
        """Adds an additive model to the outputs."""
        self.values = self.values + self._additive(weights)

    def add_leaves(self, leaves: np.ndarray, leaf: np.ndarray) -> None:
        """Adds a tree to the outputs."""
        self.values += leaves.T[:, leaf]

    def leaf(self, columns: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The leaf that each row reaches by the splits of a tree."""
        leaf = np.zeros(len(self.codes), np.int64)
        for column, goes_right in zip(columns, right, strict=True):
            leaf = 2 * leaf + goes_right[self.codes[:, column]]
        return leaf

    def level_sums(self, weights: np.ndarray) -> np.ndarray:
        """The exact sums of gradients at an additive model: of all rows, of each level, and times each number."""
        gradients, _ = self._derivatives(self._additive(weights))
        sums = np.zeros_like(weights)
        sums[0] = gradients.sum(axis=1)
        for at, (start, size) in enumerate(zip(self.starts, self.levels, strict=True)):
            sums[start : start + size] = self._by_code(self.codes[:, at], gradients, size)
        if self.numbers.shape[1]:
            sums[-self.numbers.shape[1] :] = outer_sum(self.numbers, gradients.T, LATTICE, LATTICE)
        return sums

    def leaf_sums(self, leaf: np.ndarray, size: int) -> np.ndarray:
        """The exact sums of gradients in each leaf, and last of weighted second derivatives over `curvature`."""
        gradients, seconds = self._derivatives(self.values)
        return self._by_code(leaf, np.concatenate([gradients, SECOND_WEIGHT * seconds[None]]), size)

    def as_outputs(self, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Tensors of one output as those of two classes, in float32."""
        if len(self.schema.classes) == 2:
            tensors = {name: np.concatenate([-value / 2, value / 2], axis=-1) for name, value in tensors.items()}
        return {name: value.astype(np.float32) for name, value in tensors.items()}

    def _additive(self, weights: np.ndarray) -> np.ndarray:
        values = np.repeat(weights[0][:, None], len(self.codes), axis=1)
        for at, start in enumerate(self.starts):
            values += weights[start + self.codes[:, at]].T
        for number, slopes in zip(self.numbers.T, weights[1 + sum(self.levels) :], strict=True):
            values += slopes[:, None] * number
        return values

    def _derivatives(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Negative gradients (outputs, rows) and second derivatives (rows,) over `curvature`, on the lattice."""
        if not self.schema.classes:
            residuals = (self.target - values) / self.unit
            return LATTICE.round(residuals), np.ones(values.shape[1])
        if self.outputs == 1:
            chance = 0.5 + 0.5 * tanh(0.5 * values[0])
            return LATTICE.round((self.target - chance)[None]), LATTICE.round(4 * chance * (1 - chance))
        numerators = softmax_numerators(LOG2E * values).astype(np.float64)
        chances = numerators / numerators.sum(axis=0)
        gradients = (np.arange(self.outputs)[:, None] == self.target) - chances
        spread = 1 - _column_sum(chances * chances)
        return LATTICE.round(gradients), LATTICE.round(spread)

    @staticmethod
    def _by_code(codes: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
        return np.stack([np.bincount(codes, weights=row, minlength=size) for row in values], axis=1)


def _column_sum(values: np.ndarray) -> np.ndarray:
    """Sums over the first axis, one row after another: the same bits for any number of columns."""
    total = np.zeros(values.shape[1])
    for row in values:
        total += row
    return total


def random_splits(
    schema: Schema, levels: tuple[int, ...], shape: tuple[int, int], generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Columns (trees, depth), and of each level whether it goes right: above a random edge, or in a random subset.

    A tree splits on different columns while there are any. Which column and which edge depends on no row.
    """
    trees, depth = shape
    columns = np.zeros(shape, np.int64)
    right = np.zeros((trees, depth, max(levels)), bool)
    for tree in range(trees):
        order = np.concatenate([generator.permutation(len(levels)) for _ in range(math.ceil(depth / len(levels)))])
        for split, column in enumerate(order[:depth]):
            size = levels[column]
            if schema.used[column].kind == "category":
                goes_right = generator.random(size) < 0.5
            else:
                goes_right = np.arange(size) >= generator.integers(1, max(size, 2))
            columns[tree, split], right[tree, split, :size] = column, goes_right
    return columns, right
