"""Random Fourier features of a table: a linear model on them is a kernel machine over small sets of columns.

A number becomes the mean of its place between its bounds and of its rank among the bins of the schema, scaled to a
standard deviation of about 1. A category becomes a one-hot vector times 1.4 (`CATEGORY_DISTANCE`), and a hashed text
its buckets, which together have an L2 norm of at most 1, times 1.4. A feature is the cosine of a random phase plus the
entries of a few columns times random frequencies. Phases and frequencies are drawn once from a public seed. Features
read one column, two columns, four columns or all columns, in turn. As `count` grows, the inner product of two rows
approaches half the mean of Gaussian kernels over random sets of columns; a kernel over k columns has width `scale` *
sqrt(k). The L2 norm of a row is at most 1, for any values. Earlier versions called this feature `waves`; models that
name it so still load.

Paper: Rahimi and Recht 2007, Random Features for Large-Scale Kernel Machines; sets of columns after Duvenaud,
Nickisch, Rasmussen 2011, Additive Gaussian Processes, arXiv:1112.4394.
Privacy: no privacy cost (data-independent): a function of one row and the schema.
Use when: a linear model follows, and classes of a table follow from numbers that act together.

>>> from privaware.schema import Column, Schema
>>> facts = Schema(columns=(Column(name="age", low=0, high=90, bins=(30, 60)),), classes=("n", "y"))
>>> TableFourier(count=4)(np.array([[45.0], [90.0]]), facts).shape
(2, 4)
>>> places(np.array([0.0, 30.0, 90.0]), facts.columns[0]).round(3).tolist()
[-1.732, -0.577, 1.732]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import numpy as np

from privaware._validate import expect_between, expect_count
from privaware.errors import WrongInput
from privaware.features._fourier import CATEGORY_DISTANCE, NUMBER_SCALE, random_fourier_features
from privaware.schema import CodedColumn, Column, Schema

__all__ = ["TableFourier", "places"]


@dataclass(frozen=True, kw_only=True)
class TableFourier:
    """Random Fourier features of the columns of a table; rows of another number of columns raise `WrongInput`.

    A number has one entry with a standard deviation of about 1, and a category a one-hot vector. A feature is the
    cosine of a random phase plus the entries of a few columns times random frequencies, divided by sqrt(count). So no
    row has an L2 norm above 1.

    Parameters
    ----------
    count : int
        Number of features.
    scale : float
        Width of the Gaussian kernel over one column.
    columns : tuple of int
        How many columns one feature reads: the features take these numbers in turn. 0, or a number above that of the
        columns, means all columns.
    draw : int
        Public seed of the frequencies and phases.
    """

    count: int = 1024
    scale: float = 0.8
    columns: tuple[int, ...] = (1, 2, 4, 0)
    draw: int = 0

    def __post_init__(self) -> None:
        expect_count("table_fourier", count=self.count)
        expect_count("table_fourier", 0, draw=self.draw)
        for each in self.columns:
            expect_count("table_fourier", 0, columns=each)
        expect_between("table_fourier", 1e-3, 1e3, scale=self.scale)
        if not self.columns:
            raise WrongInput(
                "table_fourier: expected columns as the numbers of columns that features read, such as (1, 2, 4, 0), "
                "got none"
            )

    def __call__(self, x: np.ndarray, schema: Schema) -> np.ndarray:
        used = schema.used
        if schema.form != "table" or x.ndim != 2 or x.shape[1] != len(used):
            raise WrongInput(f"table_fourier: expected rows of {len(used)} columns of a table, got shape {x.shape}")
        entries = np.concatenate([_entries(x[:, at], column) for at, column in enumerate(used)], axis=1)
        frequencies, phases = _frequencies(self, _sizes(schema))
        return random_fourier_features(entries @ frequencies + phases)

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a row."""
        return self.count


def places(values: np.ndarray, column: Column) -> np.ndarray:
    """Return NUMBER_SCALE * (place + rank - 1) for each number in `values`, and 0 for a missing number.

    `place` is the position between the bounds of `column`, from 0 to 1. `rank` is the position among its bins, from 0
    to 1, interpolated within a bin; without bins it equals `place`. A number outside the bounds is moved to the nearest
    bound.
    """
    low, high = column.low or 0.0, column.high or 0.0
    known = np.isfinite(values)
    inside = np.clip(np.where(known, values, low), low, high)
    edges = np.array([low, *(edge for edge in column.bins if low < edge < high), high])
    place, rank = (inside - low) / (high - low), np.interp(inside, edges, np.linspace(0, 1, len(edges)))
    return np.where(known, NUMBER_SCALE * (place + rank - 1), 0.0)


def _entries(values: np.ndarray, column: Column) -> np.ndarray:
    """Return the entries (rows, entries) of one column.

    A number has its `places`, and an entry for missing values if the column has them as a category. A category has one
    entry for each declared category, and one for missing and unseen values if the column has either as a category. A
    missing value counts as the first category unless the column has missing values as a category. A hash bucket of a
    text has one entry: its value times `CATEGORY_DISTANCE`. Entries for categories and for missing values are 0 or
    `CATEGORY_DISTANCE`.
    """
    values = values.astype(float)
    if column.kind == "category":
        last = _size(column) - 1
        levels = np.where(np.isfinite(values), values, last if column.missing == "category" else 0)
        codes = np.clip(levels, 0, last).astype(np.int64)
        return np.eye(last + 1, dtype=np.float32)[codes] * np.float32(CATEGORY_DISTANCE)
    if _text(column):
        return (CATEGORY_DISTANCE * np.clip(np.nan_to_num(values), -1.0, 1.0)).astype(np.float32)[:, None]
    entries = [places(values, column), np.where(np.isfinite(values), 0.0, CATEGORY_DISTANCE)]
    return np.stack(entries[: _size(column)], axis=1).astype(np.float32)


def _size(column: Column) -> int:
    """Return the number of entries of a column."""
    if column.kind == "category":
        return len(column.categories) + (column.missing == "category" or column.unseen == "other")
    return 1 + (column.missing == "category" and not _text(column))


def _sizes(schema: Schema) -> tuple[int, ...]:
    """Return the number of entries of each column; the hash buckets of one text count as one column."""
    sizes: list[int] = []
    for text, columns in groupby(schema.used, key=_text):
        each = [_size(column) for column in columns]
        sizes += [sum(each)] if text else each
    return tuple(sizes)


def _text(column: Column) -> str:
    """Return the name of the text that `column` is a hash bucket of, or "" if it is no hash bucket."""
    return column.source if isinstance(column, CodedColumn) and column.of_text else ""


@lru_cache(maxsize=8)
def _frequencies(feature: TableFourier, sizes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the frequencies (entries, count) and phases (count) of `feature`, for columns with `sizes` entries.

    They follow from the public seed `feature.draw`. A frequency is 0 at the entries of columns that it does not read.
    """
    rng = np.random.Generator(np.random.PCG64([feature.draw, feature.count, len(sizes), sum(sizes)]))
    order = rng.random((len(sizes), feature.count)).argsort(axis=0).argsort(axis=0)
    read = np.array([each if 0 < each < len(sizes) else len(sizes) for each in feature.columns])
    read = np.resize(read, feature.count)
    used = np.repeat(order < read, sizes, axis=0)
    frequencies = rng.standard_normal((sum(sizes), feature.count)) * used / (feature.scale * np.sqrt(read))
    return frequencies.astype(np.float32), rng.uniform(0, 2 * math.pi, feature.count).astype(np.float32)
