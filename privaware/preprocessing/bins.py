"""Closer bounds, and bins of about equal numbers of rows, for numbers whose bounds are declared.

Both come from one release of noisy counts. The numbers of all columns, and the target of a regression, are counted on
public grids between their bounds. A grid has equal cells, and cells that become narrower towards zero (or towards the
bound nearest to zero), because amounts are often skewed. If the rows are many compared with the noise, ends of a grid
that hold almost no rows are cut off, because declared bounds are often far outside the rows, and numbers are clipped to
the closer bounds. Columns with declared bins keep their bins and bounds. The target gets closer bounds, but no bins.

Paper: Smith, "Privacy-preserving statistical estimation with optimal convergence rates" (2011), for private quantiles.
Privacy: (epsilon, delta) for one row added or removed, by one Gaussian release. One row changes one cell of each of c
grids by 1, so it changes the counts by at most sqrt(c) in L2 norm, or sqrt(2 c) when a row is replaced. Missing values
are not counted.
Use when: columns or the target are skewed, or their declared bounds are wide.

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
from privaware.preprocessing._ranges.column_counts import (
    MAX_CUT_FRACTION,
    MAX_TARGET_CUT_FRACTION,
    Span,
    cells,
    empty_cells,
    equal_bins,
    grid_between,
    shrunken,
)
from privaware.schema import Column, Schema

__all__ = ["Bins"]

MIN_ROWS_PER_NOISE = 50.0
"""Bounds become closer only if the declared rows are at least this multiple of the noise deviation of a count."""


@dataclass(frozen=True, kw_only=True)
class Bins(Transformation):
    """A transformation that releases the schema with closer bounds and with bins for numbers with bounds and no bins.

    The target of a regression gets closer bounds, too.

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
        return Gaussian(noise=noise) if _unbinned(schema) or _has_bounded_target(schema) else NOTHING

    @staticmethod
    def join(data: Data, schema: Schema) -> Data:
        """Return the rows with the released `schema`: numbers and targets are clipped to its bounds, row by row."""
        columns = zip(data.schema.used, schema.used, strict=True)
        closer = [at for at, (old, new) in enumerate(columns) if (old.low, old.high) != (new.low, new.high)]
        x = data.x.copy() if closer else data.x
        for at in closer:
            x[:, at] = np.clip(x[:, at].astype(float), schema.used[at].low, schema.used[at].high)
        y = np.clip(data.y, schema.low, schema.high) if _has_bounded_target(schema) else data.y
        return replace(data, x=x, y=y, schema=schema)

    def run(self, data: Rows, noise: float, rng: Rng) -> Schema:
        schema, columns = data.schema, _unbinned(data.schema)
        spans = [(float(column.low or 0.0), float(column.high or 0.0)) for column in columns]
        spans += [(float(schema.low or 0.0), float(schema.high or 0.0))] * _has_bounded_target(schema)
        if not spans:
            return schema
        positions = {column.name: at for at, column in enumerate(schema.used)}
        counts = GridCounts(
            places=tuple(positions[column.name] for column in columns),
            grids=tuple(grid_between(*span) for span in spans),
            sensitivity=math.sqrt((2 if schema.relation == "replace_one" else 1) * len(spans)),
        )
        parts, scale = release(counts, data.parts, noise, rng), noise * counts.sensitivity
        closer = {
            column.name: self._closer(column, part, grid, scale, schema.rows)
            for column, part, grid in zip(columns, parts, counts.grids, strict=False)
        }
        low, high = schema.low, schema.high
        if _has_bounded_target(schema):
            low, high = _span(parts[-1], counts.grids[-1], scale, schema.rows, MAX_TARGET_CUT_FRACTION)
        released = tuple(closer.get(column.name, column) for column in schema.columns)
        return replace(schema, columns=released, low=low, high=high)

    def _closer(self, column: Column, counts: np.ndarray, grid: np.ndarray, scale: float, rows: int) -> Column:
        """Return `column` with bins, and without the ends of its range that hold almost no rows.

        `counts` are the noisy counts of the cells of `grid`, and `scale` is the standard deviation of their noise.
        `rows` is the declared number of rows.
        """
        low, high = _span(counts, grid, scale, rows, MAX_CUT_FRACTION)
        edges = equal_bins(shrunken(counts, scale, rows)[0], grid, self.count)
        missing = column.missing if isinstance(column.missing, str) else min(max(column.missing, low), high)
        return replace(column, low=low, high=high, missing=missing, bins=tuple(at for at in edges if low < at < high))


@dataclass(frozen=True, kw_only=True)
class GridCounts(Sum[Data, list[np.ndarray], list[np.ndarray]]):
    """The number of values of each column, and of the target, in each cell of its own grid.

    `places` are the positions of the columns in a row, and `grids` the edges of their grids. One grid more than
    `places` is the grid of the target. `sensitivity` is the L2 sensitivity of all counts. Values outside a grid are not
    counted. The release is a list with one vector of noisy counts for each grid.
    """

    places: tuple[int, ...]
    grids: tuple[np.ndarray, ...]
    sensitivity: float

    def partial(self, part: Data) -> list[np.ndarray]:
        values = [part.x[:, at] for at in self.places] + [part.y] * (len(self.grids) - len(self.places))
        return [cells(each.astype(float), grid)[1:-1] for each, grid in zip(values, self.grids, strict=True)]

    def release(self, total: list[np.ndarray], noise: float, rng: Rng) -> list[np.ndarray]:
        noisy = rng.gaussian(np.concatenate(total), noise=noise, sensitivity=self.sensitivity)
        return np.split(noisy, np.cumsum([len(part) for part in total])[:-1])


def _unbinned(schema: Schema) -> list[Column]:
    """Return the numeric columns of `schema.used` with bounds and without bins.

    Columns that a date or a text is coded into are left out.
    """
    declared = {column.name for column in schema.columns if column.kind == "number" and not column.bins}
    return [column for column in schema.used if column.name in declared and column.low is not None]


def _has_bounded_target(schema: Schema) -> bool:
    """Return whether the target is a number with bounds."""
    return schema.task == "regression" and schema.low is not None


def _span(counts: np.ndarray, grid: np.ndarray, scale: float, rows: int, most: float) -> Span:
    """Return the range (low, high) of `grid` without ends that hold almost no rows.

    `counts` are the noisy counts of the cells of `grid`, and `scale` is the standard deviation of their noise. `rows`
    is the declared number of rows; if it is below `50 * scale` (`MIN_ROWS_PER_NOISE`), the whole range is returned.
    `most` is the largest fraction of rows that may be cut off at either end.
    """
    high = float(np.nextafter(grid[-1], -np.inf))
    first = empty_cells(counts, scale, rows, most)
    last = len(counts) - empty_cells(counts[::-1], scale, rows, most)
    if first >= last or rows < MIN_ROWS_PER_NOISE * scale:
        return float(grid[0]), high
    return float(grid[first]), min(float(grid[last]), high)
