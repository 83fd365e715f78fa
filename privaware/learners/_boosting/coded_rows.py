"""Rows as boosting holds them: ordinal codes of groups of columns, the target and the outputs so far.

The code of a number column with a slope (a linear term of the model) says in which of about 128 public cells the number
lies: the levels of `features.codes`, divided further by equal cells. The code gives the level and the number itself
(the middle of its cell, on a lattice of 2^-10). Several columns share one code while their combinations are few
(`TOGETHER`), because looking up or counting a pair takes hardly longer than one column. Ten million rows of thirty
columns take about 300 MB.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privaware.data import Data, Edges
from privaware.features.codes import Codes
from privaware.learners._boosting.curve_basis import CurveBasis
from privaware.model import scaled
from privaware.schema import Column, Schema

FINE = 128
"""Number of codes of a number column whose slope is learnt, or more if its levels and `LEAST` need more."""

LEAST = 64
"""Least number of evenly spaced edges that are added to the edges of the levels of a number whose slope is learnt."""

TOGETHER = 2**14
"""Largest number of combinations of codes for which columns share one code, so that sums by code stay in a cache."""

MANY = 2**15
"""Number of declared rows from which columns are coded in groups; with fewer rows each column has its own code."""

ROWS_IN_CACHE = 2**9
"""Rows of a block that stays in a processor's cache."""

NUMBER_STEPS = 2**10
"""Numbers scaled to [-1, 1] are stored as integers: multiples of `1 / NUMBER_STEPS`."""

STABLE = 16.0
"""Largest product, in a classification, of learning rate and curvature of the loss, summed over all rows."""

STABLE_OF_NUMBERS = 3.0
"""Largest product, in a regression, of learning rate and curvature of the loss, summed over all rows.

The curvature is the same at all outputs.
"""

MOST_NOISE = 1.0
"""Largest standard deviation that noise may give a logit.

It holds while `rows / noise / weights` is at most `SIGNAL_PER_WEIGHT`; above, a larger one is allowed.
"""

SIGNAL_PER_WEIGHT = 8.0
"""Value of `rows / noise / weights` above which `MOST_NOISE` grows.

It grows in proportion to the square root of this value. `noise` is a noise multiplier, and `weights` is the number of
weights of all outputs.
"""

MORE_NOISE = 2.8
"""Largest factor by which a large `rows / noise / weights` raises `MOST_NOISE`."""

MOST_NOISE_OF_NUMBERS = (0.45, 0.4)
"""Largest standard deviation that noise may give the output of a regression, in units (`Start.unit`).

The two values hold where `rows / noise` is at most `SIGNALS[0]` and at least `SIGNALS[1]`; values between are
interpolated.
"""

SKEWED = (0.5, 0.4)
"""The values of `MOST_NOISE_OF_NUMBERS` for a skewed target."""

SIGNALS = (300.0, 900.0)
"""Values of `rows / noise` between which `MOST_NOISE_OF_NUMBERS` and `SKEWED` are interpolated."""


class CodedRows:
    """Some rows of a table, as boosting holds them.

    `layout` says what codes stand for, and `data` holds the rows. `codes` has one array (rows,) for each group of
    columns. `target` (rows,) holds class codes, or numbers scaled to [-1, 1]. `values` (outputs, rows) are the outputs
    of the model so far, at first 0. `places` (rows,) are the leaves that rows reach in the last tree; for two classes a
    place is twice the leaf plus the class. `splits` are the bytes of the splits of this tree. `features` (rows,
    features) are the random Fourier features whose amplitudes are being learnt. `places` and `features` are empty at
    first.
    """

    def __init__(self, layout: CodedLayout, data: Data) -> None:
        columns = _by_column(data.x)
        self.codes = [layout.group_codes(columns, group) for group in layout.groups]
        if layout.classes:
            self.target = data.y.astype(np.min_scalar_type(layout.classes))
        else:
            self.target = scaled(np.nan_to_num(data.y.astype(float)), data.schema).astype(np.float32)
        self.values = np.zeros((layout.outputs, len(data)), np.float32)
        self.splits = b""
        self.places: np.ndarray = np.zeros(0, np.uint8)
        self.features: np.ndarray = np.zeros((0, 0))

    @classmethod
    def joined(cls, parts: list[CodedRows]) -> CodedRows:
        """Return the rows of all `parts`, in order, as one object; there must be at least one part.

        Codes, targets and outputs are joined. The result has neither places of a tree nor random Fourier features.
        """
        rows = cls.__new__(cls)
        rows.codes = [np.concatenate(codes) for codes in zip(*(part.codes for part in parts), strict=True)]
        rows.target = np.concatenate([part.target for part in parts])
        rows.values = np.concatenate([part.values for part in parts], axis=1)
        rows.splits, rows.places, rows.features = b"", parts[0].places[:0], parts[0].features[:0]
        return rows

    def __len__(self) -> int:
        return len(self.target)

    def __repr__(self) -> str:
        return "CodedRows(rows private)"


@dataclass(frozen=True, kw_only=True)
class CodedLayout:
    """The public facts of rows of ordinal codes: what the codes stand for, and bounds on derivatives of the loss.

    `feature` gives the levels of each column. Gradients of classes are clipped to a fraction `clip` of their largest
    norm. `length` is the largest norm of a row's gradient after clipping. `curvature` is the largest second derivative
    of a row's loss. `stable` is the largest product of the learning rate and the largest curvature of all rows
    together. `outputs` is 1 for a regression and for two classes, else the number of classes (`classes`, 0 in a
    regression). `levels` is the number of levels of each used column, in the order of the schema, by which columns are
    numbered.
    """

    schema: Schema
    feature: Codes
    clip: float = 1.0

    @property
    def classes(self) -> int:
        return len(self.schema.classes)

    @property
    def outputs(self) -> int:
        return self.classes if self.classes > 2 else 1

    @property
    def length(self) -> float:
        return (self.clip * math.sqrt(2.0) if self.classes > 2 else self.clip) if self.classes else 1.0

    @property
    def stable(self) -> float:
        return STABLE if self.classes else STABLE_OF_NUMBERS

    @property
    def curvature(self) -> float:
        return (0.25 if self.classes == 2 else 0.5) if self.classes else 1.0

    @cached_property
    def levels(self) -> tuple[int, ...]:
        return self.feature.levels(self.schema)

    @cached_property
    def starts(self) -> np.ndarray:
        """Return, for each column, the index of its first score among the weights: int64 (columns,)."""
        return 1 + np.cumsum((0, *self.levels[:-1])).astype(np.int64)

    @cached_property
    def numbered(self) -> list[int]:
        """Positions in `schema.used` of the columns with a slope: all numbers if `feature.numbers`, else none."""
        used = self.schema.used
        return [at for at, column in enumerate(used) if column.kind == "number"] if self.feature.numbers else []

    @property
    def width(self) -> int:
        """Return the number of weights of an additive model for one output: bias, scores of all levels, slopes."""
        return 1 + sum(self.levels) + len(self.numbered)

    @cached_property
    def basis(self) -> CurveBasis:
        """Return the basis in which a step releases sums of gradients: over levels, slopes and cosines."""
        used = self.schema.used
        numbers = tuple((at, used[at].missing == "category") for at in self.numbered)
        return CurveBasis(levels=self.levels, numbers=numbers)

    def most_noise(self, noise: float, skewed: bool = False) -> float:
        """Return the largest standard deviation that noise may give an output, as a multiple of `Start.unit`.

        `noise` is the noise multiplier of the one Gaussian release that costs as much as all releases. For classes the
        result is `MOST_NOISE`, times up to `MORE_NOISE` where there are many rows for the number of weights, because
        logits are larger then. In a regression it follows from `rows / noise` and from whether the target is `skewed`.
        """
        if self.classes:
            signal = self.schema.rows / noise / (self.width * self.outputs)
            return MOST_NOISE * min(max(1.0, math.sqrt(signal / SIGNAL_PER_WEIGHT)), MORE_NOISE)
        most = SKEWED if skewed else MOST_NOISE_OF_NUMBERS
        return float(np.interp(self.schema.rows / noise, SIGNALS, most))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of different codes of each column, in the order of `schema.used`."""
        return tuple(len(levels) for levels in self.level_of)

    @cached_property
    def level_of(self) -> list[np.ndarray]:
        """Return, for each column, an array (codes,) with the level to which each of its codes belongs."""
        return [self._level_of(at) for at in range(len(self.levels))]

    @cached_property
    def number_of(self) -> list[np.ndarray]:
        """Return, for each column with a slope, an int64 array (codes,) with the number that each code stands for.

        It is the middle of the code's cell, scaled to [-1, 1], in multiples of `1 / NUMBER_STEPS`; 0 for missing
        values.
        """
        return [self._number_of(at) for at in self.numbered]

    @cached_property
    def groups(self) -> list[tuple[int, ...]]:
        """Return groups of neighbouring columns, by position; the columns of a group share one code.

        Columns join a group while their codes have at most `TOGETHER` combinations. With fewer than `MANY` declared
        rows each column is a group of its own.
        """
        most = TOGETHER if self.schema.rows >= MANY else 1
        groups: list[tuple[int, ...]] = []
        for at, size in enumerate(self.sizes):
            if groups and math.prod(self.sizes[other] for other in groups[-1]) * size <= most:
                groups[-1] += (at,)
            else:
                groups.append((at,))
        return groups

    def shape(self, group: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of codes of each column of a group; the code of the last column changes fastest."""
        return tuple(self.sizes[at] for at in group)

    def by_group(self, at: int, values: np.ndarray) -> np.ndarray:
        """Return `values` (..., codes of one column) as (..., codes of the column's group).

        `at` is the position of the column. A value is repeated for all codes of the group that contain the column's
        code.
        """
        group = self.group_of(at)
        axes = tuple(self.sizes[at] if other == at else 1 for other in group)
        shape = (*values.shape[:-1], *self.shape(group))
        return np.broadcast_to(values.reshape(*values.shape[:-1], *axes), shape).reshape(*values.shape[:-1], -1)

    def by_column(self, group: tuple[int, ...], sums: np.ndarray) -> list[np.ndarray]:
        """Return, for each column of `group`, the sums by the column's own codes: (codes of the column, outputs).

        `sums` (codes of the group, outputs) are sums over the rows of each code of the group.
        """
        shaped, axes = sums.reshape(*self.shape(group), -1), range(len(group))
        return [shaped.sum(axis=tuple(axis for axis in axes if axis != own)) for own in axes]

    def group_of(self, at: int) -> tuple[int, ...]:
        """Return the group, a tuple of positions of columns, that contains the column at position `at`."""
        return self._group_of[at]

    @cached_property
    def _group_of(self) -> dict[int, tuple[int, ...]]:
        return {at: group for group in self.groups for at in group}

    def group_codes(self, columns: np.ndarray, group: tuple[int, ...]) -> np.ndarray:
        """Return the code of each row for `group`, in the smallest unsigned integer type that holds it: (rows,).

        `columns` (columns, rows) are the values of all columns, `Data.x` transposed. The code of the group's last
        column changes fastest.
        """
        codes = np.zeros(columns.shape[1], np.int64)
        for at in group:
            codes *= self.sizes[at]
            codes += self.codes(columns[at], at)
        return codes.astype(np.min_scalar_type(math.prod(self.shape(group)) - 1))

    def codes(self, values: np.ndarray, at: int) -> np.ndarray:
        """Return the int64 codes (rows,) of `values` (rows,), one column of `Data.x`, for the column at position `at`.

        The code of a category is its level, and the code of a number is its cell. A missing value has the last code if
        the column keeps missing values as a category. Otherwise it has the code of the number 0 or of the first
        category.
        """
        column = self.schema.used[at]
        if column.kind == "category":
            return self.feature.codes(values, column).astype(np.int64)
        known = np.isfinite(values)
        if known.all():
            return self._edges[at].position(values)
        codes = self._edges[at].position(np.where(known, values, 0.0))
        return np.where(known | (column.missing != "category"), codes, self.sizes[at] - 1)

    @cached_property
    def _edges(self) -> dict[int, Edges]:
        """Return, by the position of a number column, the inner edges between the cells of its codes."""
        numbers = (at for at, column in enumerate(self.schema.used) if column.kind != "category")
        return {at: Edges(self._cells(self.schema.used[at], at in self.numbered)) for at in numbers}

    def _cells(self, column: Column, fine: bool) -> np.ndarray:
        levels = self.feature.edges(column)
        if not fine:
            return levels
        equal = max(FINE - 1 - (column.missing == "category") - len(levels), LEAST)
        low, high = column.low or 0.0, column.high or 0.0
        inside = np.linspace(low, high, equal + 2)[1:-1]
        return np.unique(np.concatenate([levels, inside[(inside > low) & (inside < high)]]))

    def _level_of(self, at: int) -> np.ndarray:
        column = self.schema.used[at]
        if column.kind == "category":
            return np.arange(self.levels[at])
        cells = self._edges[at].edges
        levels = np.searchsorted(self.feature.edges(column), np.concatenate([[-np.inf], cells]), "right")
        return np.append(levels, self.levels[at] - 1) if column.missing == "category" else levels

    def _number_of(self, at: int) -> np.ndarray:
        column = self.schema.used[at]
        low, high = column.low or 0.0, column.high or 0.0
        edges = np.clip(np.concatenate([[low], self._edges[at].edges, [high]]), low, high)
        middles = ((edges[1:] + edges[:-1]) / 2 - (low + high) / 2) / ((high - low) / 2)
        steps = np.trunc(np.clip(middles, -1, 1) * NUMBER_STEPS).astype(np.int64)
        return np.append(steps, 0) if column.missing == "category" else steps


def _by_column(x: np.ndarray) -> np.ndarray:
    """Return `x` transposed, as a contiguous array (columns, rows).

    Copying `ROWS_IN_CACHE` rows at a time is faster than copying all at once.
    """
    columns: np.ndarray = np.empty(x.shape[::-1], x.dtype)
    for at in range(0, len(x), ROWS_IN_CACHE):
        columns[:, at : at + ROWS_IN_CACHE] = x[at : at + ROWS_IN_CACHE].T
    return columns
