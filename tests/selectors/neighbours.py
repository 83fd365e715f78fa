"""What noise is added to on rows and on the rows without one of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privaware.data import Data
from privaware.noise import Rng
from privaware.schema import Column, Schema


class Recording(Rng):
    """Keeps what every release is computed from, with its sensitivity."""

    def __init__(self) -> None:
        super().__init__(seed=1)
        self.releases: list[tuple[np.ndarray, float]] = []

    def gaussian(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        self.releases.append((np.array(exact), float(np.max(sensitivity))))
        return super().gaussian(exact, noise=noise, sensitivity=sensitivity)

    def laplace(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        self.releases.append((np.array(exact), float(np.max(sensitivity))))
        return super().laplace(exact, noise=noise, sensitivity=sensitivity)

    def choose(self, exact: np.ndarray, *, epsilon: float, sensitivity: float) -> int:
        self.releases.append((np.array(exact), sensitivity))
        return 0


def recorded(mechanism: Any, data: Data, noise: float = 1.0) -> list[tuple[np.ndarray, float]]:
    """The exact value and the sensitivity of every release."""
    rng = Recording()
    mechanism.run(data, noise, rng)
    return rng.releases


def distance(one: np.ndarray, two: np.ndarray) -> float:
    """L2, without rounding worth speaking of."""
    apart = (one - two).ravel()
    return math.sqrt(math.fsum((apart * apart).tolist()))


def ratios(mechanism: Any, data: Data, at: int = 0) -> list[float]:
    """How far taking out row `at` moves each release, over its sensitivity."""
    fewer = data.take(np.arange(len(data)) != at)
    pairs = zip(recorded(mechanism, data), recorded(mechanism, fewer), strict=True)
    return [distance(exact, without) / sensitivity for (exact, sensitivity), (without, _) in pairs]


def losing_bits(rows: int, columns: int = 3) -> Data:
    """Rows that are nearly alike, of values without a short binary form: sums round in the same direction."""
    rng = np.random.default_rng(0)
    x = 1 - rng.random((rows, columns)) * 1e-3
    y = 1 - rng.random(rows) * 1e-3
    x[0], y[0] = 1.0, 1.0
    named = tuple(Column(name=f"c{at}", kind="number", low=-1.0, high=1.0) for at in range(columns))
    schema = Schema(columns=named, target="y", low=-1.0, high=1.0, rows=rows)
    return Data(schema=schema, x=x, y=y)
