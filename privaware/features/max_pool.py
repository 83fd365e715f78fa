"""Max pooling: the largest value of each window, so that images have fewer entries.

Paper: used to shrink inputs before private training by Bao, Bauer and Bindschaedler, section V-B.
Privacy: no privacy cost (data-independent): each row is transformed by itself.
Use when: images are large for the budget: fewer inputs mean fewer noisy weights.

>>> MaxPool(size=2)(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4))
array([[[[ 5.,  7.],
         [13., 15.]]]], dtype=float32)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privaware._validate import expect_count
from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["MaxPool"]


@dataclass(frozen=True, kw_only=True)
class MaxPool:
    """The largest value of each window of an image.

    Parameters
    ----------
    size : int
        Side of the windows, which do not overlap; remaining pixels at the bottom and the right are dropped.
    """

    size: int = 2

    def __post_init__(self) -> None:
        expect_count("max_pool", size=self.size)

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        """Pool images (N, ..., H, W) to (N, ..., H / size, W / size), rounded down; raise `WrongInput` if this is 0."""
        if x.ndim < 3 or min(x.shape[-2:]) < self.size:
            raise WrongInput(f"max_pool: expected images of at least {self.size} pixels a side, got shape {x.shape}")
        height, width = x.shape[-2] // self.size, x.shape[-1] // self.size
        cropped = x[..., : height * self.size, : width * self.size]
        windows = cropped.reshape(*x.shape[:-2], height, self.size, width, self.size)
        return np.asarray(windows.max(axis=(-3, -1)))

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a flattened row."""
        channels, height, width = schema.shape
        return channels * (height // self.size) * (width // self.size)
