"""Rows cut into parts of random sizes in random order, as a file or other machines may hold them."""

from __future__ import annotations

import numpy as np

from privaware.data import Data, LocalParts, Streamed


def cut(data: Data, seed: int, pieces: int = 5) -> Streamed:
    """The same rows in another order, in parts of random sizes, some of them empty."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(data))
    edges = np.sort(generator.integers(0, len(data) + 1, pieces - 1))
    parts = [data.take(rows) for rows in np.split(order, edges)]
    return Streamed(schema=data.schema, parts=LocalParts(lambda: iter(parts)))


def same_tensors(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> bool:
    """Whether both have the same names and bits."""
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)
