"""Each channel less its released mean, over its released deviation.

Channels are the second axis of what comes in: images (rows, channels, height, width), or rows of
numbers.

Privacy: free. Mean and deviation were paid for when they were released.
Use when: `select.normalise` released them.

>>> Standardise(mean=(1.0, 0.0), deviation=(2.0, 1.0))(np.array([[3.0, 0.5]]))
array([[1. , 0.5]], dtype=float32)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["Standardise"]


@dataclass(frozen=True, kw_only=True)
class Standardise:
    """One number a channel in `mean` and in `deviation`."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        if x.ndim < 2 or x.shape[1] != len(self.mean):
            raise WrongInput(f"expected {len(self.mean)} channels, got rows of shape {x.shape[1:]}")
        shape = (1, -1, *(1 for _ in x.shape[2:]))
        mean, deviation = (np.array(v, dtype=np.float32).reshape(shape) for v in (self.mean, self.deviation))
        return np.asarray((x.astype(np.float32) - mean) / deviation)

    def width(self, schema: Schema) -> int:
        """How many entries a row has, for images as they are and for rows of numbers."""
        return math.prod(schema.shape) if schema.form == "image" else len(self.mean)
