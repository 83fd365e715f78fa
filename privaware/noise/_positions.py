"""Draw uniform numbers for rows, as a keyed function of a row's position.

A key is drawn for each sample or split. So a number depends on the row's position and the step, but not on the row's
values; otherwise equal rows would always be sampled together. Any process that holds the key can compute the number of
a row. The numbers do not depend on how the rows are divided among processes.

>>> draws = PositionDraws(key=(1, 2))
>>> bool((draws.uniforms(0, 9)[5:] == draws.uniforms(5, 4)).all())
True
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["ExampleNumbers", "PositionDraws"]

NUMBERS_PER_COUNTER = 4
"""Number of random numbers that one value of Philox's counter gives."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ExampleNumbers:
    """The key of the random numbers that a training draws for each example, and the numbers of the examples.

    Parameters
    ----------
    key : tuple of int
        Two words of 64 bits.
    numbers : ndarray
        The number of each example; key and number determine the draws of the example.
    """

    key: tuple[int, int] = field(repr=False)
    numbers: np.ndarray = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class PositionDraws:
    """Draws for rows by position: Philox 4x64 with 10 rounds (Salmon et al. 2011) in counter mode.

    Parameters
    ----------
    key : tuple of int
        Two words of 64 bits.
    """

    key: tuple[int, int] = field(repr=False)

    def uniforms(self, begin: int, rows: int) -> np.ndarray:
        """Return uniform numbers of 53 bits in [0, 1) for `rows` rows from position `begin` on."""
        block, before = divmod(begin, NUMBERS_PER_COUNTER)
        philox = np.random.Philox(key=np.array(self.key, np.uint64), counter=block)
        return np.random.Generator(philox).random(before + rows)[before:]

    def sample(self, begin: int, rows: int, rate: float) -> np.ndarray:
        """Return a mask of `rows` rows from position `begin` on; each is True with probability `rate`."""
        return self.uniforms(begin, rows) < rate

    def shards(self, begin: int, rows: int, shares: tuple[float, ...]) -> np.ndarray:
        """Return the number of the part, from 0, of each of the `rows` rows from position `begin` on.

        A row is in part i with probability `shares[i] / sum(shares)`.
        """
        edges = np.cumsum(np.asarray(shares, dtype=float) / sum(shares))[:-1]
        return np.searchsorted(edges, self.uniforms(begin, rows), side="right")
