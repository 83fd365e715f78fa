"""Counts of numbers on public grids, and bin edges from such counts."""

from __future__ import annotations

import numpy as np

from privaware.data import Edges

__all__ = ["cells", "equal_bins", "grid_between"]

CELLS = 16
"""Number of equal cells of a grid, which narrower cells near zero divide further."""


def cells(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return how many `values` lie below the first edge, between neighbouring edges, and above the last edge.

    A value equal to an edge counts in the cell above the edge. Values that are not finite are not counted.
    The result has one float for each cell: `len(edges) + 1`.
    """
    known = np.isfinite(values)
    positions = Edges(edges).position(values if known.all() else values[known])
    return np.bincount(positions, minlength=len(edges) + 1).astype(float)


def grid_between(low: float, high: float) -> np.ndarray:
    """Return edges from `low` to just above `high`: equal cells, and cells that become narrower towards zero.

    If zero is not between `low` and `high`, they become narrower towards the bound nearest to zero.
    """
    anchor, reach = min(max(0.0, low), high), high - low
    sizes = reach * np.geomspace(1e-3, 0.5, CELLS // 2)[:-1]
    edges = np.concatenate([np.linspace(low, high, CELLS + 1), anchor + sizes, anchor - sizes])
    inside = np.unique(edges[(edges >= low) & (edges < high)])
    return np.append(inside, np.nextafter(high, np.inf))


def equal_bins(counts: np.ndarray, grid: np.ndarray, bins: int) -> tuple[float, ...]:
    """Return the inner edges of at most `bins` bins with about equal numbers of rows.

    `counts` are the (noisy) numbers of rows in the cells between the edges `grid`; bin edges are among `grid`. There
    are no edges if `bins` is below 2.
    """
    if bins < 2:
        return ()
    so_far = np.cumsum(counts)
    rising = (np.maximum.accumulate(so_far) + np.minimum.accumulate(so_far[::-1])[::-1]) / 2
    shares = rising / max(float(rising[-1]), 1.0)
    nearest = {int(np.argmin(np.abs(shares - part / bins))) + 1 for part in range(1, bins)}
    return tuple(float(grid[at]) for at in sorted(nearest) if at < len(grid) - 1)
