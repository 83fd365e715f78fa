"""Models that rise or fall along columns: released weights are changed until they do, which is post-processing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from privaware.errors import WrongInput
from privaware.schema import Schema


@dataclass(frozen=True)
class Monotone:
    """The wanted directions of columns: 1 rises, -1 falls, 0 is free.

    `directions` has one for each column, and `slopes` one for each number column. `missing` says of each column whether
    its last level is for missing values.
    """

    directions: tuple[int, ...]
    slopes: tuple[int, ...]
    missing: tuple[bool, ...]

    @staticmethod
    def expect(schema: Schema, wanted: Mapping[str, int], name: str) -> None:
        """Check the directions in `wanted`, a mapping from column names to 1 or -1.

        Columns that are not in `wanted` are free. Raise `WrongInput` if a name in `wanted` is not that of a number
        column of `schema`, if a direction is neither 1 nor -1, or if there are directions and more than two classes.
        `name` is the learner's name in an error.
        """
        numbers = {column.name for column in schema.used if column.kind == "number"}
        for column, direction in wanted.items():
            if column not in numbers or direction not in (1, -1):
                raise WrongInput(
                    f"{name}: expected monotone to give number columns the direction 1 (rises) or -1 (falls), such as "
                    f"{{'age': 1}}, got {column!r:.80}: {direction!r:.20}"
                )
        if wanted and len(schema.classes) > 2:
            raise WrongInput(
                f"{name}: expected two classes or a regression with monotone, got {len(schema.classes)} classes; leave "
                "monotone out"
            )

    @classmethod
    def of(cls, schema: Schema, wanted: Mapping[str, int]) -> Monotone:
        """Return the directions of the columns in `schema.used` from `wanted`, a mapping from column names to 1 or -1.

        `expect` has accepted `wanted` for the columns before a selection. A column that was not selected has no
        direction: a model that does not read a column is constant along it.
        """
        used = schema.used
        wanted = {
            column.name: wanted[column.name] for column in used if column.kind == "number" and column.name in wanted
        }
        directions = tuple(wanted.get(column.name, 0) for column in used)
        slopes = tuple(wanted.get(column.name, 0) for column in used if column.kind == "number")
        return cls(directions, slopes, tuple(column.missing == "category" for column in used))

    def scores(self, weights: np.ndarray, starts: np.ndarray, levels: tuple[int, ...]) -> np.ndarray:
        """Return a copy of `weights` that rises or falls along each column with a direction.

        `weights` (1 + all levels + slopes, outputs) are those of an additive model with a slope for each number column.
        The scores of a column become the nearest monotone sequence, and slopes of the wrong sign become 0. Scores of
        missing values stay. `starts` are the positions of the first scores of the columns, and `levels` their numbers
        of levels.
        """
        weights = weights.copy()
        for direction, start, size, missing in zip(self.directions, starts, levels, self.missing, strict=True):
            if direction:
                part = slice(start, start + size - missing)
                weights[part] = direction * _rising(direction * weights[part])
        slopes = np.array(self.slopes)[:, None]
        last = len(weights) - len(self.slopes)
        weights[last:] = np.where((slopes != 0) & (slopes * weights[last:] < 0), 0.0, weights[last:])
        return weights

    def leaves(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return a copy of the scores `values` of a tree's leaves, changed to fit the directions of columns.

        `values` is (2**depth, outputs), and `columns` (depth,) are the positions of the columns on which the tree
        splits. Two leaves that differ in one split on a column with a direction both become their mean if they are in
        the wrong order. This keeps the order along the other splits. The first split is the highest bit of a leaf's
        number.
        """
        shaped = values.reshape(*[2] * len(columns), -1).copy()
        for split, column in enumerate(columns):
            if direction := self.directions[column]:
                left, right = np.moveaxis(shaped, split, 0)
                middle, wrong = (left + right) / 2, direction * (right - left) < 0
                left[wrong], right[wrong] = middle[wrong], middle[wrong]
        return np.asarray(shaped.reshape(values.shape))


def _rising(values: np.ndarray) -> np.ndarray:
    """Return, for each output, the nearest sequence (in squared distance) that never falls: (levels, outputs).

    Neighbouring `values` (levels, outputs) that fall are replaced by their mean.

    >>> _rising(np.array([[1.0], [3.0], [2.0]])).ravel().tolist()
    [1.0, 2.5, 2.5]
    """
    columns = []
    for sequence in values.T:
        pools: list[tuple[float, int]] = []
        for value in sequence.tolist():
            pools.append((value, 1))
            while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
                (second, more), (first, count) = pools.pop(), pools.pop()
                pools.append(((first * count + second * more) / (count + more), count + more))
        columns.append(np.repeat([mean for mean, _ in pools], [count for _, count in pools]))
    return np.stack(columns, axis=1)
