"""Bins of about equal numbers of rows for numbers whose bounds are declared, from one release of noisy counts.

The numbers of all columns are counted on public grids between their bounds. A grid has equal cells, and cells that
become narrower towards zero (or towards the bound nearest to zero), because amounts are often skewed. Columns with
declared bins keep them.

Paper: Smith, "Privacy-preserving statistical estimation with optimal convergence rates" (2011), for private quantiles.
Privacy: (epsilon, delta) for one row added or removed, by one Gaussian release. One row changes one cell of each of c
columns by 1, so it changes the counts by at most sqrt(c) in L2 norm, or sqrt(2 c) when a row is replaced. Missing
values are not counted.
Use when: columns are skewed and a linear model follows, which treats each bin as a level of its own.

>>> from privaware.schema import Column, Schema
>>> known = Schema(columns=(Column(name="age", low=0, high=99),), classes=("no", "yes"), rows=1000)
>>> Bins().cost(known, noise=4.0)
Gaussian(noise=4.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from privaware._validate import expect_count
from privaware.data import Data, Rows, Sum, release
from privaware.events import NOTHING, Event, Gaussian
from privaware.noise import Rng
from privaware.preprocessing import Transformation
from privaware.preprocessing._grids import cells, equal_bins, grid_between
from privaware.schema import Column, Schema

__all__ = ["Bins"]


@dataclass(frozen=True, kw_only=True)
class Bins(Transformation):
    """A transformation that adds bins to each numeric column with bounds and without bins, and releases the schema.

    Parameters
    ----------
    count : int
        Largest number of bins of each column.
    """

    releases: ClassVar[Literal["schema"]] = "schema"
    prices_replacement: ClassVar[bool] = True
    in_parts: ClassVar[bool] = True

    count: int = 8

    def __post_init__(self) -> None:
        expect_count("bins", 2, count=self.count)

    def cost(self, schema: Schema, noise: float) -> Event:
        return Gaussian(noise=noise) if _unbinned(schema) else NOTHING

    @staticmethod
    def join(data: Data, schema: Schema) -> Data:
        """Return the same rows with the released `schema`."""
        return replace(data, schema=schema)

    def run(self, data: Rows, noise: float, rng: Rng) -> Schema:
        schema, columns = data.schema, _unbinned(data.schema)
        if not columns:
            return schema
        positions = {column.name: at for at, column in enumerate(schema.used)}
        counts = GridCounts(
            places=tuple(positions[column.name] for column in columns),
            grids=tuple(grid_between(float(column.low or 0.0), float(column.high or 0.0)) for column in columns),
            sensitivity=math.sqrt((2 if schema.relation == "replace_one" else 1) * len(columns)),
        )
        parts = release(counts, data.parts, noise, rng)
        edges = {
            column.name: equal_bins(part, grid, self.count)
            for column, part, grid in zip(columns, parts, counts.grids, strict=True)
        }
        released = tuple(replace(column, bins=edges.get(column.name, column.bins)) for column in schema.columns)
        return replace(schema, columns=released)


@dataclass(frozen=True, kw_only=True)
class GridCounts(Sum[Data, list[np.ndarray], list[np.ndarray]]):
    """The number of values of each column in each cell of its grid.

    `places` are the positions of the columns in a row, and `sensitivity` is the L2 sensitivity of all counts.
    """

    places: tuple[int, ...]
    grids: tuple[np.ndarray, ...]
    sensitivity: float

    def partial(self, part: Data) -> list[np.ndarray]:
        pairs = zip(self.places, self.grids, strict=True)
        return [cells(part.x[:, at].astype(float), grid)[1:-1] for at, grid in pairs]

    def merge(self, left: list[np.ndarray], right: list[np.ndarray]) -> list[np.ndarray]:
        return [one + other for one, other in zip(left, right, strict=True)]

    def release(self, total: list[np.ndarray], noise: float, rng: Rng) -> list[np.ndarray]:
        noisy = rng.gaussian(np.concatenate(total), noise=noise, sensitivity=self.sensitivity)
        return np.split(noisy, np.cumsum([len(part) for part in total])[:-1])


def _unbinned(schema: Schema) -> list[Column]:
    """Return the numeric columns with bounds and without bins; columns that a date is coded into never have bins."""
    declared = {column.name for column in schema.columns if column.kind == "number" and not column.bins}
    return [column for column in schema.used if column.name in declared and column.low is not None]
