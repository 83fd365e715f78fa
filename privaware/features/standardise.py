"""Channels standardised by means and standard deviations that were released, or fixed without reading a row.

Channels are the second axis of the input: images (rows, channels, height, width), or rows of numbers.

Privacy: no further cost (post-processing): a mean and a deviation computed from rows were charged when they were
released.
Use when: the transformation `normalise` released them.

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
    """Replace each value x of a channel (second axis of the input) by `(x - mean) / deviation`, as float32.

    Another number of channels than means raises `WrongInput`.

    Parameters
    ----------
    mean, deviation : tuple of float
        Mean and standard deviation of each channel.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        if x.ndim < 2 or x.shape[1] != len(self.mean):
            raise WrongInput(f"expected {len(self.mean)} channels, got rows of shape {x.shape[1:]}")
        shape = (1, -1, *(1 for _ in x.shape[2:]))
        mean, deviation = (np.array(v, dtype=np.float32).reshape(shape) for v in (self.mean, self.deviation))
        return np.asarray((x.astype(np.float32) - mean) / deviation)

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a row of numbers, or of a flattened image."""
        return math.prod(schema.shape) if schema.form == "image" else len(self.mean)
