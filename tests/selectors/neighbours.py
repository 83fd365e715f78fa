"""What noise is added to on rows and on the rows without one of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from privaware.data import Data
from privaware.noise import Rng
from privaware.schema import Column, Schema


def l1(apart: np.ndarray) -> float:
    return math.fsum(np.abs(apart).tolist())


def l2(apart: np.ndarray) -> float:
    """Without rounding worth speaking of."""
    return math.sqrt(math.fsum((apart * apart).tolist()))


def largest(apart: np.ndarray) -> float:
    return float(np.abs(apart).max())


class Release(NamedTuple):
    """What noise is added to, its sensitivity, and the norm in which that is meant."""

    exact: np.ndarray
    sensitivity: float
    length: Callable[[np.ndarray], float]


class Recording(Rng):
    """Keeps what every release is computed from, with its sensitivity."""

    def __init__(self) -> None:
        super().__init__(seed=1)
        self.releases: list[Release] = []

    def gaussian(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        self.releases.append(Release(np.array(exact), float(np.max(sensitivity)), l2))
        return super().gaussian(exact, noise=noise, sensitivity=sensitivity)

    def laplace(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        self.releases.append(Release(np.array(exact), float(np.max(sensitivity)), l1))
        return super().laplace(exact, noise=noise, sensitivity=sensitivity)

    def choose(self, exact: np.ndarray, *, epsilon: float, sensitivity: float) -> int:
        self.releases.append(Release(np.array(exact), sensitivity, largest))
        return 0


def recorded(mechanism: Any, data: Data, noise: float = 1.0) -> list[Release]:
    """All releases of a run."""
    rng = Recording()
    mechanism.run(data, noise, rng)
    return rng.releases


def ratios(mechanism: Any, data: Data, at: int = 0) -> list[float]:
    """How far taking out row `at` moves each release, over its sensitivity."""
    fewer = data.take(np.arange(len(data)) != at)
    pairs = zip(recorded(mechanism, data), recorded(mechanism, fewer), strict=True)
    return [one.length((one.exact - two.exact).ravel()) / one.sensitivity for one, two in pairs]


def losing_bits(rows: int, columns: int = 3) -> Data:
    """Rows that are nearly alike, of values without a short binary form: sums round in the same direction."""
    rng = np.random.default_rng(0)
    x = 1 - rng.random((rows, columns)) * 1e-3
    y = 1 - rng.random(rows) * 1e-3
    x[0], y[0] = 1.0, 1.0
    named = tuple(Column(name=f"c{at}", kind="number", low=-1.0, high=1.0) for at in range(columns))
    schema = Schema(columns=named, target="y", low=-1.0, high=1.0, rows=rows)
    return Data(schema=schema, x=x, y=y)
