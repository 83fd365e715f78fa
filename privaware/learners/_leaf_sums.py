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

__all__ = ["INSIDE", "SECOND_WEIGHT", "SPREADS", "Gradients", "random_splits"]

SECOND_WEIGHT = 0.25
"""The weight of a second derivative beside a gradient: a power of two."""

LATTICE = Lattice(bound=1 - MARGIN, bits=20)

STABLE, STABLE_OF_NUMBERS = 16.0, 3.0
"""Squares have the same curvature everywhere, so momentum bounds their step; logits have less of it where it counts."""

MOST_NOISE = 0.7
"""The deviation that noise may give a logit before later steps correct it."""

MOST_NOISE_OF_NUMBERS = (0.2, 0.4)
"""The same for numbers, over the spread of the target: the least and the most, by rows over noise."""

CLEAR = 500
"""Rows over noise from which the most is allowed."""

BINNED = 0.5
"""Weight of the score of a number's level beside its slope: a slope has all rows to learn from."""

SPREADS = 2.0 ** np.arange(-8, 1)
"""Distances from the mean, over half the target's range, of which one is the spread."""

INSIDE = 0.85
"""The share of rows within the spread."""


class Gradients:
    """The rows' outputs so far, and their gradients.

    `length` bounds a gradient, `unit` is what a gradient of 1 means for an output, `curvature` the largest second
    derivative: those that are summed are divided by it. `stable` is the largest step over the inverse of the largest
    curvature that all rows together can have.
    """

    def __init__(self, data: Data, rows: np.ndarray, levels: tuple[int, ...]) -> None:
        """`rows` are level codes, then numbers from -1 to 1."""
        self.schema, self.levels = data.schema, levels
        self.codes, self.numbers = (
            rows[:, : len(levels)].astype(np.int64),
            LATTICE.round(rows[:, len(levels) :].astype(float)),
        )
        self.classes = len(data.schema.classes)
        self.outputs = self.classes if self.classes > 2 else 1
        self.length = math.sqrt(2.0) if self.classes > 2 else 1.0
        self.stable = STABLE if self.classes else STABLE_OF_NUMBERS
        self.unit, self.curvature = 1.0, (0.25 if self.classes == 2 else 0.5) if self.classes else 1.0
        self.target = data.y if self.classes else scaled(np.nan_to_num(data.y.astype(float)), data.schema)
        self.values = np.zeros((self.outputs, len(rows)))
        self.starts = 1 + np.cumsum((0, *levels[:-1])).astype(np.int64)

    @property
    def width(self) -> int:
        """Weights of an additive model for one output: the bias, scores of all levels, slopes of the numbers."""
        return 1 + sum(self.levels) + self.numbers.shape[1]

    @property
    def numbered(self) -> list[int]:
        """The columns whose numbers follow the codes."""
        used = self.schema.used
        return [at for at, column in enumerate(used) if column.kind == "number"] if self.numbers.shape[1] else []

    @property
    def level_weights(self) -> np.ndarray:
        """How much the level of each column counts in a step: powers of two, so that products are exact."""
        weights = np.ones(len(self.levels))
        weights[self.numbered] = BINNED
        return weights

    @property
    def row_length(self) -> float:
        """What bounds the length of a row's terms in `level_sums`, over that of its gradient."""
        return math.sqrt(1 + float((self.level_weights**2).sum()) + self.numbers.shape[1])

    @property
    def terms(self) -> np.ndarray:
        """How much each weight counts in a step: the bias, the levels, the numbers."""
        levels = np.repeat(self.level_weights, self.levels)
        return np.concatenate([[1.0], levels, np.ones(self.numbers.shape[1])])[:, None]

    def most_noise(self, noise: float) -> float:
        """What noise alone may do to an output, in units, by the noise multiplier of all releases together."""
        if self.classes:
            return MOST_NOISE
        least, most = MOST_NOISE_OF_NUMBERS
        return min(max(most * self.schema.rows / noise / CLEAR, least), most)

    def target_sums(self) -> np.ndarray:
        """The exact number of rows of each class, or the sum of a target that lies in [-1, 1]; a row moves it by 1."""
        if self.classes:
            return np.bincount(self.target, minlength=self.classes).astype(float)
        return np.array([LATTICE.round(self.target).sum()])

    def spread_counts(self, centre: float) -> np.ndarray:
        """The exact number of targets whose distance from the centre is up to each of `SPREADS`, and no smaller one."""
        cells = np.searchsorted(SPREADS, np.abs(self.target - centre))
        return np.bincount(cells, minlength=len(SPREADS) + 1)[: len(SPREADS)].astype(float)

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
        """The exact sums of gradients at an additive model: of all rows, of each level, and times each number.

        Each is multiplied by its term, a power of two.
        """
        gradients, _ = self._derivatives(self._additive(weights))
        sums = np.zeros_like(weights)
        sums[0] = gradients.sum(axis=1)
        for at, (start, size) in enumerate(zip(self.starts, self.levels, strict=True)):
            sums[start : start + size] = self._by_code(self.codes[:, at], gradients, size)
        if self.numbers.shape[1]:
            sums[-self.numbers.shape[1] :] = outer_sum(self.numbers, gradients.T, LATTICE, LATTICE)
        return np.asarray(sums * self.terms)

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
