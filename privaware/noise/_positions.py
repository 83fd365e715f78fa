"""Draw uniform numbers for rows, as a keyed function of a row's position.

A key is drawn for each sample of rows and for each split. A number is a function of this key and of the row's position,
not of the row's values; otherwise equal rows would always be sampled together. Any process that holds the key can
compute the number of a row. The numbers do not depend on how the rows are divided among processes.

>>> draws = PositionDraws(key=(1, 2))
>>> bool((draws.uniforms(0, 9)[5:] == draws.uniforms(5, 4)).all())
True
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

NUMBERS_PER_COUNTER = 4
"""Number of random numbers that one value of Philox's counter gives."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ExampleNumbers:
    """What determines the random draws of each training example, such as dropout and augmentation.

    Parameters
    ----------
    key : tuple of int
        The key of the generator: two integers of 64 bits.
    numbers : ndarray
        One integer for each example, such as its position; `key` and this integer determine all draws of the example.
    """

    key: tuple[int, int] = field(repr=False)
    numbers: np.ndarray = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class PositionDraws:
    """Random draws for rows, each a function of `key` and of the row's position alone.

    The generator is Philox 4x64 with 10 rounds (Salmon et al. 2011) in counter mode.

    Parameters
    ----------
    key : tuple of int
        The key of the generator: two integers of 64 bits.
    """

    key: tuple[int, int] = field(repr=False)

    def uniforms(self, begin: int, rows: int) -> np.ndarray:
        """Return uniform float64 numbers in [0, 1), one for each of the positions `begin` to `begin + rows - 1`."""
        block, before = divmod(begin, NUMBERS_PER_COUNTER)
        philox = np.random.Philox(key=np.array(self.key, np.uint64), counter=block)
        return np.random.Generator(philox).random(before + rows)[before:]

    def sample(self, begin: int, rows: int, rate: float) -> np.ndarray:
        """Return a boolean mask for the positions `begin` to `begin + rows - 1`, each True with probability `rate`.

        It is True where the numbers of `uniforms` are below `rate`.
        """
        return self.uniforms(begin, rows) < rate

    def shards(self, begin: int, rows: int, shares: tuple[float, ...]) -> np.ndarray:
        """Return a random part number, from 0, for each of the positions `begin` to `begin + rows - 1`.

        The number is i with probability `shares[i] / sum(shares)`, independently for each row.
        """
        edges = np.cumsum(np.asarray(shares, dtype=float) / sum(shares))[:-1]
        return np.searchsorted(edges, self.uniforms(begin, rows), side="right")
