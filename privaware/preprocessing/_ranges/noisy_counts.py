"""What noisy counts on a grid say of a column: its span, its empty ends, and how many rows each cell holds.

All of it is a function of what was released, so it costs nothing. Where noise drowns the counts, rows are taken to lie
evenly between the bounds: a bound that is too wide loses little, one that cuts off half of the rows much.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["DECADES", "FARTHEST", "MOST_CUT", "MOST_CUT_OF_TARGET", "Span", "empty_cells", "shrunken", "span"]

Span = tuple[float, float]

STANDS_OUT = 4.0
"""Deviations of noise above which any cell is taken to hold rows."""

INSIDE = 3.0
"""Deviations of noise above which a cell is taken to hold rows if one farther from zero does."""

BEYOND = 2.0
"""Deviations of noise above which the next cell away from zero is added to a span."""

TOWARDS_ZERO = 1.0
"""Deviations of noise above which the next cell towards zero is added to a span."""

NOTHING_THERE = 2.0
"""Deviations of noise below which the rows at an end are taken for none."""

TAIL = 0.005
"""Share of rows that may be cut off at either end, beside the rows that noise may hide."""

MOST_CUT = 0.05
"""Largest share of rows that may be cut off at either end, with the rows that noise may hide."""

MOST_CUT_OF_TARGET = 0.01
"""Value of `MOST_CUT` for a target, whose mean should change little."""

DECADES = 10.0 ** (np.arange(-12, 25) / 2)
"""Edges of the first grid on the positive side, from a millionth to a million millions; what is smaller is zero."""

FARTHEST = 1e13
"""Where the outermost cells end."""


def span(counts: np.ndarray, edges: np.ndarray, scale: float) -> Span:
    """The bounds of the cells that stand out of the noise and of their neighbours; of the likeliest one without any.

    Decades far from 1 are less likely a priori.
    """
    limits = np.concatenate([[-FARTHEST], edges, [FARTHEST]])
    distances = np.maximum(np.abs(limits[:-1]), np.abs(limits[1:]))
    outstanding = np.flatnonzero(counts > STANDS_OUT * scale)
    if not len(outstanding):
        outstanding = np.array([int(np.argmax(counts / scale - math.log(2) * np.abs(np.log10(distances))))])
    farthest = distances[outstanding].max()
    inside = np.flatnonzero((counts > INSIDE * scale) & (distances <= farthest))
    real = np.union1d(outstanding, inside)
    first = _grown(counts / scale, distances, int(real[0]), -1)
    last = _grown(counts / scale, distances, int(real[-1]), 1)
    low, high = float(limits[first]), float(limits[last + 1])
    least = float(DECADES[0])
    return 0.0 if abs(low) <= least else low, (least if low >= -least else 0.0) if abs(high) <= least else high


def _grown(deviations: np.ndarray, distances: np.ndarray, at: int, step: int) -> int:
    """The last cell, from one on in a direction, before one that holds nothing."""
    while 0 <= at + step < len(deviations):
        threshold = BEYOND if distances[at + step] > distances[at] else TOWARDS_ZERO
        if deviations[at + step] <= threshold:
            break
        at += step
    return at


def shrunken(counts: np.ndarray, scale: float, rows: int) -> tuple[np.ndarray, float]:
    """Counts moved towards equal ones as far as noise explains that they differ, and what is left of a difference.

    >>> shrunken(np.array([40.0, 60.0]), scale=0.0, rows=100)
    (array([40., 60.]), 1.0)
    >>> shrunken(np.array([40.0, 60.0]), scale=20.0, rows=100)
    (array([50., 50.]), 0.0)
    """
    mean = float(np.clip(counts.sum(), rows / 2, rows)) / len(counts)
    differences = counts - counts.mean()
    kept = max(0.0, 1 - (len(counts) - 1) * scale**2 / max(float(differences @ differences), 1e-12))
    return mean + kept * differences, kept


def empty_cells(counts: np.ndarray, scale: float, rows: int, most: float = MOST_CUT) -> int:
    """How many cells from the first one on hold together no more rows than a tail and what noise may hide.

    `most` is the largest share of rows that they may hold.
    """
    likely, kept = shrunken(counts, scale, rows)
    hidden = NOTHING_THERE * kept * scale * np.sqrt(np.arange(1, len(counts) + 1))
    full = np.flatnonzero(np.cumsum(likely) > np.minimum(TAIL * rows + hidden, most * rows))
    return int(full[0]) if len(full) else 0
