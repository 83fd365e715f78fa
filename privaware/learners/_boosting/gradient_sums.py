"""What boosting sums over rows: gradients by the codes of all columns, or by the leaves of a tree, exactly.

A row's gradient is a function of its outputs and target alone, bit for bit (`derivatives.py`), on a public lattice of
2^-20, so sums of fewer than 2^32 rows have no rounding error in any order. Sums of gradients times numbers on the
lattice of 2^-10 have none either: they are computed in integers below 2^62.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privaware.data import Sum
from privaware.learners._boosting.coded_rows import NUMBER_STEPS, CodedLayout, CodedRows
from privaware.learners._boosting.derivatives import CELLS, LATTICE, derivatives, logit_cells, logit_tables
from privaware.noise import Rng

SECOND_WEIGHT = 0.125
"""Factor on second derivatives, which are released beside gradients; a power of two, so products are exact."""

COUNTED = 4
"""Largest depth of a tree for which rows of two classes are counted by leaf, class and cell of the logit."""

CHUNK = 2**15
"""Number of rows that are processed at a time, so that they stay in a processor's cache."""


def chunks(part: Sized) -> Iterator[slice]:
    """Return an iterator of slices of at most `CHUNK` positions that cover the rows of `part` in order."""
    return (slice(at, at + CHUNK) for at in range(0, len(part), CHUNK))


class Lookup:
    """Adds to each row the table entry at the row's code.

    It keeps buffers of `CHUNK` entries, which later calls use again.
    """

    def __init__(self) -> None:
        self._index = np.empty(CHUNK, np.intp)
        self._entries: dict[np.dtype, np.ndarray] = {}

    def add(self, values: np.ndarray, tables: np.ndarray, codes: np.ndarray) -> None:
        """Add `tables[output, codes[row]]` to `values[output, row]`, in place.

        `values` are (outputs, rows), `tables` (outputs, codes) and `codes` (rows,); there are at most `CHUNK` rows.
        """
        index = self._index[: len(codes)]
        index[...] = codes
        if tables.dtype not in self._entries:
            self._entries[tables.dtype] = np.empty(CHUNK, tables.dtype)
        entries = self._entries[tables.dtype][: len(codes)]
        for value, table in zip(values, tables, strict=True):
            value += table.take(index, out=entries, mode="clip")  # no buffered copy; codes are always within a table


def by_code(codes: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """Return, for each code below `size`, the sum of `values` over the rows that have the code.

    The result is float64 (outputs, size). `values` are (outputs, rows), and all `codes` (rows,) must be below `size`.
    """
    return np.stack([np.bincount(codes, weights=row, minlength=size) for row in values]).astype(np.float64, copy=False)


class ArraySum(Sum[CodedRows, np.ndarray, np.ndarray]):
    """A sum of arrays over rows, released with Gaussian noise of standard deviation `noise * sensitivity`."""

    @property
    def sensitivity(self) -> float:
        """The most by which adding or removing a row changes the sum, in L2 norm."""
        return 1.0

    def release(self, total: np.ndarray, noise: float, rng: Rng) -> np.ndarray:
        return np.asarray(rng.gaussian(total, noise=noise, sensitivity=self.sensitivity))


@dataclass(frozen=True, kw_only=True)
class TargetSums(ArraySum):
    """The number of rows of each class (classes,) or, if `classes` is 0, the sum of the targets (1,).

    Targets are in [-1, 1]. `release` adds Gaussian noise. Adding or removing a row changes the sums by at most 1
    in L2 norm.
    """

    classes: int

    def partial(self, part: CodedRows) -> np.ndarray:
        if self.classes:
            return np.bincount(part.target, minlength=self.classes).astype(float)
        return np.array([LATTICE.round(part.target).sum(dtype=np.float64)])


@dataclass(frozen=True, kw_only=True)
class ClassCounts(ArraySum):
    """The number of rows of each class, in all and at each level of each column: (classes, 1 + all levels).

    A row changes the counts by `sqrt(1 + columns)` in L2 norm, which is the sensitivity.
    """

    layout: CodedLayout

    @property
    def sensitivity(self) -> float:
        return math.sqrt(1 + len(self.layout.levels))

    def partial(self, part: CodedRows) -> np.ndarray:
        layout, classes = self.layout, self.layout.classes
        counts = [np.bincount(part.target, minlength=classes)[:, None]]
        places = {group: number for number, group in enumerate(layout.groups)}
        for at, (level_of, size) in enumerate(zip(layout.level_of, layout.levels, strict=True)):
            levels = layout.by_group(at, level_of).take(part.codes[places[layout.group_of(at)]])
            cells = part.target.astype(np.int64) * size + levels
            counts.append(np.bincount(cells, minlength=classes * size).reshape(classes, size))
        return np.concatenate(counts, axis=1).astype(float)


@dataclass(frozen=True, kw_only=True)
class GradientSums(ArraySum):
    """Sums of negative gradients at the outputs of an additive model, released with Gaussian noise.

    `weights` (bias, scores of levels and slopes, outputs) are those of the model. The release (`CurveBasis.width`,
    outputs) holds sums over all rows, over the rows of each level, and of gradients times each number and each cosine.
    `unit` is the residual of a regression that gives a gradient of 1. The outputs so far, which rows store, are not
    used.
    """

    layout: CodedLayout
    weights: np.ndarray
    unit: float

    @property
    def sensitivity(self) -> float:
        return self.layout.length * self.layout.basis.length

    def partial(self, part: CodedRows) -> np.ndarray:
        """Return the exact sums of gradients over the rows of each code: (codes of all groups, outputs).

        The codes of the groups of columns follow one another, group by group.
        """
        layout = self.layout
        gradients, lookup = np.empty((layout.outputs, len(part))), Lookup()
        for rows in chunks(part):
            outputs = self.outputs(part, rows, lookup)
            gradients[:, rows], _ = derivatives(layout, outputs, part.target[rows], self.unit, curved=False)
        sizes = [math.prod(layout.shape(group)) for group in layout.groups]
        sums = [by_code(codes, gradients, size) for codes, size in zip(part.codes, sizes, strict=True)]
        return np.concatenate(sums, axis=1).T

    def release(self, total: np.ndarray, noise: float, rng: Rng) -> np.ndarray:
        return super().release(self.layout.basis.released(self.by_weight(total)), noise, rng)

    def by_weight(self, total: np.ndarray) -> np.ndarray:
        """Return the exact sums for the bias, each level and each slope, from the sums by code: (weights, outputs).

        `total` is what `partial` returns, summed over all parts of the rows.
        """
        layout = self.layout
        ends = np.cumsum([math.prod(layout.shape(group)) for group in layout.groups])
        by_group = zip(layout.groups, np.split(total, ends[:-1]), strict=True)
        by_column = [column for group, sums in by_group for column in layout.by_column(group, sums)]
        sums = np.zeros((layout.width, layout.outputs))
        sums[0] = by_column[0].sum(axis=0)
        for start, level_of, each in zip(layout.starts, layout.level_of, by_column, strict=True):
            np.add.at(sums, start + level_of, each)
        for slope, (at, numbers) in enumerate(
            zip(layout.numbered, layout.number_of, strict=True), 1 + sum(layout.levels)
        ):
            steps = np.rint(by_column[at] * (1 / LATTICE.step)).astype(np.int64)
            sums[slope] = (numbers @ steps).astype(np.float64) * (LATTICE.step / NUMBER_STEPS)
        return sums

    def outputs(self, part: CodedRows, rows: slice, lookup: Lookup) -> np.ndarray:
        """Return the outputs of the additive model for the rows in the slice `rows` of `part`: float32 (outputs, rows).

        The slice holds at most `CHUNK` rows. `lookup` has buffers, which several calls may share.
        """
        values = np.repeat(self.weights[0].astype(np.float32)[:, None], len(part.target[rows]), axis=1)
        for codes, table in zip(part.codes, self._tables, strict=True):
            lookup.add(values, table, codes[rows])
        return values

    def add_outputs(self, part: CodedRows) -> None:
        """Add the outputs of the additive model to the outputs that the rows of `part` store, in place."""
        lookup = Lookup()
        for rows in chunks(part):
            part.values[:, rows] += self.outputs(part, rows, lookup)

    @cached_property
    def _tables(self) -> list[np.ndarray]:
        """Return, for each group of columns, what each of its codes adds to the outputs: float32 (outputs, codes).

        The bias is not part of it.
        """
        layout, weights = self.layout, self.weights
        tables = [weights[start + level_of] for start, level_of in zip(layout.starts, layout.level_of, strict=True)]
        slopes = weights[1 + sum(layout.levels) :]
        for at, numbers, slope in zip(layout.numbered, layout.number_of, slopes, strict=True):
            tables[at] = tables[at] + (numbers / NUMBER_STEPS)[:, None] * slope
        return [
            np.sum([layout.by_group(at, tables[at].T) for at in group], axis=0).astype(np.float32, order="C")
            for group in layout.groups
        ]


@dataclass(frozen=True, kw_only=True)
class LeafSums(ArraySum):
    """The sums over the rows in each leaf of a tree: negative gradients, then second derivatives (leaves, outputs + 1).

    Derivatives are taken at the outputs that the rows store. Second derivatives are divided by the largest one and
    multiplied by `SECOND_WEIGHT`. `columns` (depth,) and `right` (depth, levels) are the splits of the tree (see
    `Splits`). `unit` is the residual of a regression that gives a gradient of 1. Up to depth `COUNTED`, rows of two
    classes are counted by leaf, class and cell of the logit instead of summed; the sums follow from the counts.
    """

    layout: CodedLayout
    columns: np.ndarray
    right: np.ndarray
    unit: float

    @property
    def sensitivity(self) -> float:
        return math.hypot(self.layout.length, SECOND_WEIGHT)

    def partial(self, part: CodedRows) -> np.ndarray:
        sums = self._counted(part) if self._by_class and len(self.columns) <= COUNTED else self._summed(part)
        sums[-1] *= SECOND_WEIGHT
        return sums.T

    def _counted(self, part: CodedRows) -> np.ndarray:
        """Return the sums of gradients and of second derivatives for two classes: (2, leaves).

        Rows are counted by leaf, class and cell of the logit, and the counts are multiplied by the derivatives in
        `logit_tables`. Second derivatives are not yet multiplied by `SECOND_WEIGHT`.
        """
        places, cells = self._places(part), np.empty(len(part), np.intp)
        for rows in chunks(part):
            cells[rows] = logit_cells(part.values[0, rows], places[rows])
        leaves = 2 ** len(self.columns)
        counts = np.bincount(cells, minlength=2 * CELLS * leaves).reshape(leaves, 2 * CELLS)
        return np.stack(logit_tables(self.layout.length)) @ counts.T.astype(np.float64)

    def _summed(self, part: CodedRows) -> np.ndarray:
        places, sums = self._places(part), np.zeros((self.layout.outputs + 1, 2 ** len(self.columns)))
        for rows in chunks(part):
            leaf = places[rows].astype(np.intp) >> self._by_class
            gradients, seconds = derivatives(self.layout, part.values[:, rows], part.target[rows], self.unit)
            sums[:-1] += by_code(leaf, gradients, sums.shape[1])
            sums[-1] += by_code(leaf, seconds[None], sums.shape[1])[0]
        return sums

    def add_leaves(self, part: CodedRows, leaves: np.ndarray) -> None:
        """Add the released scores of each row's leaf to the outputs that the rows of `part` store, in place.

        `leaves` (leaves, outputs) are the scores.
        """
        places, lookup = self._places(part), Lookup()
        scores = np.repeat(leaves.T.astype(np.float32), 1 + self._by_class, axis=1)
        for rows in chunks(part):
            lookup.add(part.values[:, rows], scores, places[rows])

    @property
    def _by_class(self) -> bool:
        """Return whether there are two classes: a row's place is then twice its leaf plus its class, else its leaf."""
        return self.layout.classes == 2

    def _places(self, part: CodedRows) -> np.ndarray:
        """Return the place of each row of `part` (rows,): its leaf or, for two classes, twice its leaf plus its class.

        `part` stores the places of the last tree, and they are computed only if its splits are others.
        """
        splits = self.columns.tobytes() + self.right.tobytes()
        if part.splits != splits:
            tables, lookup = self._tables, Lookup()
            places: np.ndarray = np.zeros((1, len(part)), self._dtype)
            if self._by_class:
                places[0] = part.target
            for rows in chunks(part):
                for group, table in tables.items():
                    lookup.add(places[:, rows], table[None], part.codes[group][rows])
            part.splits, part.places = splits, places[0]
        return part.places

    @property
    def _dtype(self) -> type[np.unsignedinteger]:
        return np.uint8 if len(self.columns) + self._by_class <= 8 else np.uint16

    @cached_property
    def _tables(self) -> dict[int, np.ndarray]:
        """Return what each code of a group adds to the place of a row (codes,), by the number of the group.

        Groups on which the tree does not split are left out.
        """
        layout, last = self.layout, len(self.columns) - 1 + self._by_class
        tables: dict[int, np.ndarray] = {}
        for split, (column, goes_right) in enumerate(zip(self.columns.tolist(), self.right, strict=True)):
            bits = goes_right[layout.level_of[column]].astype(np.uint16) << (last - split)
            group = layout.groups.index(layout.group_of(column))
            tables[group] = tables.get(group, np.uint16(0)) + layout.by_group(column, bits)
        return {group: table.astype(self._dtype) for group, table in tables.items()}


def as_outputs(tensors: dict[str, np.ndarray], classes: int) -> dict[str, np.ndarray]:
    """Return a copy of the dictionary `tensors` with float32 arrays.

    With two classes the last axis of each array, which holds one output v, becomes two outputs: `-v / 2` and `v / 2`.
    """
    if classes == 2:
        tensors = {name: np.concatenate([-value / 2, value / 2], axis=-1) for name, value in tensors.items()}
    return {name: value.astype(np.float32) for name, value in tensors.items()}
