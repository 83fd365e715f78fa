"""Uniform numbers by position: a keyed function of where a row stands, which whoever holds the row can compute.

A key is drawn for each sample or split, so that a number is a function of position and step, never of what the row
holds: equal rows would be drawn together otherwise. Neither how rows are cut into parts nor who reads them changes it.

>>> draws = PositionDraws(key=(1, 2))
>>> bool((draws.uniforms(0, 9)[5:] == draws.uniforms(5, 4)).all())
True
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["ExampleNumbers", "PositionDraws"]

TOGETHER = 4
"""Numbers that one value of Philox's counter gives."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ExampleNumbers:
    """A `key` of 128 bits for what is drawn for each example, and the number that each example has in it."""

    key: tuple[int, int] = field(repr=False)
    numbers: np.ndarray = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class PositionDraws:
    """Philox 4x64 with 10 rounds (Salmon et al. 2011) in counter mode, under a `key` of 128 bits."""

    key: tuple[int, int] = field(repr=False)

    def uniforms(self, begin: int, rows: int) -> np.ndarray:
        """Numbers in [0, 1) of 53 bits for so many rows from position `begin` on."""
        block, before = divmod(begin, TOGETHER)
        philox = np.random.Philox(key=np.array(self.key, np.uint64), counter=block)
        return np.random.Generator(philox).random(before + rows)[before:]

    def sample(self, begin: int, rows: int, rate: float) -> np.ndarray:
        """A mask of these rows: each is in with probability `rate`, at rate 1 every one."""
        return self.uniforms(begin, rows) < rate

    def shards(self, begin: int, rows: int, shares: tuple[float, ...]) -> np.ndarray:
        """The part of each of these rows, where a share of all rows is in each part."""
        edges = np.cumsum(np.asarray(shares, dtype=float) / sum(shares))[:-1]
        return np.searchsorted(edges, self.uniforms(begin, rows), side="right")
