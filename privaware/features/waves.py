"""Tables as random waves: cosines of random sums of a few columns, on which a linear model is a kernel machine.

A number becomes the mean of its place between its bounds and of its rank by the bins that the schema has, scaled to a
deviation of about 1; a category, and a hashed text, are unit rows times `APART`. A wave is the cosine of a random phase
and of a few columns times random frequencies, drawn once from a public seed: some waves read one column, some two,
some four, some all. Inner products of two rows then approach a mean of Gaussian kernels of width `scale` over subsets
of columns, and the L2 norm of a row is at most 1, for any values.

Paper: Rahimi and Recht 2007, Random Features for Large-Scale Kernel Machines; subsets of columns after Duvenaud,
Nickisch, Rasmussen 2011, Additive Gaussian Processes, arXiv:1112.4394.
Privacy: no privacy cost (data-independent): a function of one row and the schema.
Use when: a linear model follows, and classes of a table follow from numbers that act together.

>>> from privaware.schema import Column, Schema
>>> facts = Schema(columns=(Column(name="age", low=0, high=90, bins=(30, 60)),), classes=("n", "y"))
>>> Waves(count=4)(np.array([[45.0], [90.0]]), facts).shape
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
from privaware.schema import CodedColumn, Column, Schema

__all__ = ["Waves", "places"]

APART = 1.4
"""What a category is multiplied by: two different ones are as far apart as two numbers of deviation 1.4."""


@dataclass(frozen=True, kw_only=True)
class Waves:
    """`columns` are how many columns a wave reads, in turn (0: all of them); `draw` is the public seed of the map."""

    count: int = 1024
    scale: float = 0.8
    columns: tuple[int, ...] = (1, 2, 4, 0)
    draw: int = 0

    def __post_init__(self) -> None:
        expect_count("waves", count=self.count)
        expect_count("waves", 0, draw=self.draw)
        for each in self.columns:
            expect_count("waves", 0, columns=each)
        expect_between("waves", 1e-3, 1e3, scale=self.scale)
        if not self.columns:
            raise WrongInput("waves: expected columns as numbers such as (1, 2, 4, 0), got none")

    def __call__(self, x: np.ndarray, schema: Schema) -> np.ndarray:
        used = schema.used
        if schema.form != "table" or x.ndim != 2 or x.shape[1] != len(used):
            raise WrongInput(f"waves: expected rows of {len(used)} columns of a table, got shape {x.shape}")
        entries = np.concatenate([_entries(x[:, at], column) for at, column in enumerate(used)], axis=1)
        frequencies, phases = _frequencies(self, _sizes(schema))
        angles = np.nan_to_num(entries @ frequencies + phases)
        return np.asarray(np.cos(angles) * np.float32(1 / math.sqrt(self.count)))

    def width(self, schema: Schema) -> int:
        """The number of entries of a row."""
        return self.count


def places(values: np.ndarray, column: Column) -> np.ndarray:
    """Numbers by their place between the bounds and by their rank among the bins; 0 for missing ones."""
    low, high = column.low or 0.0, column.high or 0.0
    known = np.isfinite(values)
    inside = np.clip(np.where(known, values, low), low, high)
    edges = np.array([low, *(edge for edge in column.bins if low < edge < high), high])
    place, rank = (inside - low) / (high - low), np.interp(inside, edges, np.linspace(0, 1, len(edges)))
    return np.where(known, math.sqrt(3) * (place + rank - 1), 0.0)


def _entries(values: np.ndarray, column: Column) -> np.ndarray:
    """The entries (rows, entries) of one column: a number and whether it is missing, or one for each category."""
    values = values.astype(float)
    if column.kind == "category":
        last = _size(column) - 1
        levels = np.where(np.isfinite(values), values, last if column.missing == "category" else 0)
        return np.eye(last + 1, dtype=np.float32)[np.clip(levels, 0, last).astype(np.int64)] * np.float32(APART)
    if _text(column):
        return (APART * np.clip(np.nan_to_num(values), -1.0, 1.0)).astype(np.float32)[:, None]
    entries = [places(values, column), np.where(np.isfinite(values), 0.0, APART)]
    return np.stack(entries[: _size(column)], axis=1).astype(np.float32)


def _size(column: Column) -> int:
    """How many entries a column has."""
    if column.kind == "category":
        return len(column.categories) + (column.missing == "category" or column.unseen == "other")
    return 1 + (column.missing == "category" and not _text(column))


def _sizes(schema: Schema) -> tuple[int, ...]:
    """How many entries each column has; the slots of a text are one column."""
    sizes: list[int] = []
    for text, columns in groupby(schema.used, key=_text):
        each = [_size(column) for column in columns]
        sizes += [sum(each)] if text else each
    return tuple(sizes)


def _text(column: Column) -> str:
    """The text that a column is a slot of, if any."""
    return column.source if isinstance(column, CodedColumn) and column.of_text else ""


@lru_cache(maxsize=8)
def _frequencies(waves: Waves, sizes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies (entries, count) and phases, of columns that have so many entries."""
    rng = np.random.Generator(np.random.PCG64([waves.draw, waves.count, len(sizes), sum(sizes)]))
    order = rng.random((len(sizes), waves.count)).argsort(axis=0).argsort(axis=0)
    read = np.array([each if 0 < each < len(sizes) else len(sizes) for each in waves.columns])
    read = np.resize(read, waves.count)
    used = np.repeat(order < read, sizes, axis=0)
    frequencies = rng.standard_normal((sum(sizes), waves.count)) * used / (waves.scale * np.sqrt(read))
    return frequencies.astype(np.float32), rng.uniform(0, 2 * math.pi, waves.count).astype(np.float32)
