"""Find between which of many sorted edges a number lies, several times faster than by binary search."""

from __future__ import annotations

from functools import cached_property

import numpy as np

FARTHEST = 1e13
"""Largest absolute value of a bound that is estimated from rows."""
BUCKETS = 4096
"""Number of buckets."""
CHUNK = 2**13
"""Number of values that fit a processor's cache."""
MANTISSA_BITS = 52
"""Number of bits of a float64 below its sign and exponent."""


class Edges:
    """Sorted edges, for fast lookup.

    Numbers are put into buckets by arithmetic that never changes their order. Edges in lower buckets are below a
    number, edges in higher buckets above it. So only the edges in the number's own bucket have to be compared: one
    directly, several by binary search. Buckets have equal width, or are powers of two of either sign, whichever
    separates the edges better.

    Parameters
    ----------
    edges : numpy.ndarray
        The edges in increasing order; edges may be equal.

    >>> Edges(np.array([0.0, 1.0, 10.0])).position(np.array([-1.0, 0.0, 0.5, 99.0])).tolist()
    [0, 1, 1, 3]
    """

    def __init__(self, edges: np.ndarray) -> None:
        self.edges = np.asarray(edges, dtype=np.float64)
        self._low = float(self.edges[0]) if len(self.edges) else 0.0
        with np.errstate(over="ignore"):
            width = float(self.edges[-1] - self._low) if len(self.edges) else 0.0
        self._scale = BUCKETS / width if 1e-300 < width < 1e300 else 0.0

    def __reduce__(self) -> tuple[type[Edges], tuple[np.ndarray]]:
        return Edges, (self.edges,)  # the tables are many times larger, and computed again

    @cached_property
    def _equal(self) -> bool:
        """Whether buckets have equal width; otherwise each has one sign and one power of two.

        Equal width is chosen unless powers of two leave fewer edges in the fullest bucket.
        """
        if not len(self.edges):
            return True
        return self._scale > 0 and _most(self._equal_buckets(self.edges)) <= _most(_powers(self.edges))

    @cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """For each bucket, the number of edges in lower buckets, and the edge in it: two arrays.

        The number is -1 if the bucket holds several edges. The edge is infinite unless the bucket holds exactly one.
        """
        inside = self._bucket(self.edges)
        order = np.arange(BUCKETS) if self._equal else _order_of_powers()
        rank = np.empty(BUCKETS, np.int64)
        rank[order] = np.arange(BUCKETS)
        counts = np.bincount(rank[inside], minlength=BUCKETS)
        below = (np.cumsum(counts) - counts)[rank]
        crowded = (counts > 1)[rank]
        edge = np.full(BUCKETS, np.inf)
        edge[inside] = np.where(crowded[inside], np.inf, self.edges)
        return np.where(crowded, -1, below), edge

    def position(self, values: np.ndarray) -> np.ndarray:
        """Return for each of the finite numbers `values` how many edges are at or below it, as an int64 array."""
        values = np.ascontiguousarray(values, dtype=np.float64)
        if len(values) < BUCKETS:  # the tables would take longer
            return np.searchsorted(self.edges, values, "right").astype(np.int64)
        positions = np.empty(len(values), np.int64)
        below, edge_in = self._tables
        edge = np.empty(CHUNK)
        for at in range(0, len(values), CHUNK):
            chunk, position = values[at : at + CHUNK], positions[at : at + CHUNK]
            bucket = self._bucket(chunk)
            below.take(bucket, out=position, mode="clip")
            position += chunk >= edge_in.take(bucket, out=edge[: len(chunk)], mode="clip")
            if position.min() < 0:
                crowded = position < 0
                position[crowded] = np.searchsorted(self.edges, chunk[crowded], "right")
        return positions

    def _bucket(self, values: np.ndarray) -> np.ndarray:
        return self._equal_buckets(values) if self._equal else _powers(values)

    def _equal_buckets(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            bucket = values - self._low
            bucket *= self._scale
        np.minimum(bucket, BUCKETS - 1, out=bucket)
        return np.maximum(bucket, 0, out=bucket).astype(np.intp)


def _powers(values: np.ndarray) -> np.ndarray:
    """Return the bucket of each number by its sign and power of two: the sign and exponent bits of float64, 0 to 4095.

    Both zeros are in the same bucket.
    """
    return ((values + 0.0).view(np.uint64) >> np.uint64(MANTISSA_BITS)).astype(np.intp)


def _order_of_powers() -> np.ndarray:
    """Return the buckets of `_powers` in the order of their numbers, from the most negative to the largest."""
    half = BUCKETS // 2
    return np.concatenate([np.arange(BUCKETS - 1, half - 1, -1), np.arange(half)])


def _most(buckets: np.ndarray) -> int:
    """Return the largest number of edges in one bucket; `buckets` has the bucket of each edge."""
    return int(np.bincount(buckets).max())
