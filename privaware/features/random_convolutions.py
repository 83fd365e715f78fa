"""Frozen random convolutions: a public random layer, ReLU and averaging over a coarse grid.

Filters are drawn once from a public seed, each with mean 0 and norm 1. The positive and the negative parts of their
outputs are averaged over the cells of a `grid` x `grid` grid of the image.

Paper: Saxe et al. 2011, On Random Weights and Unsupervised Feature Learning; as private features,
the random-weights training of Bao, Bauer and Bindschaedler, section VIII.
Privacy: no privacy cost (data-independent): each row is transformed by itself, and nothing is learned.
Use when: a cheap comparison with scattering is wanted.

>>> RandomConvolutions(count=4, grid=2)(np.ones((3, 1, 8, 8), np.float32)).shape
(3, 8, 2, 2)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privaware._validate import expect_count
from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["RandomConvolutions"]

MICROBATCH = 256
"""Number of images transformed at a time."""


@dataclass(frozen=True, kw_only=True)
class RandomConvolutions:
    """Apply random filters to images, and average the positive and the negative parts of the outputs over a grid.

    Filters are drawn once from a public seed, each with mean 0 and norm 1.

    Parameters
    ----------
    count : int
        Number of filters.
    size : int
        Side of the filters, in pixels.
    grid : int
        Side of the grid over which outputs are averaged.
    draw : int
        Public seed of the filters.
    """

    count: int = 128
    size: int = 5
    grid: int = 4
    draw: int = 0

    def __post_init__(self) -> None:
        for name, least in (("count", 1), ("size", 2), ("grid", 1), ("draw", 0)):
            expect_count("random_convolutions", least, **{name: getattr(self, name)})

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        """Transform images (N, C, H, W) to (N, 2 * count, grid, grid).

        The positive parts of all filters come first, then their negative parts. Raise `WrongInput` for images of fewer
        than `size + grid - 1` pixels a side.
        """
        import torch
        from torch.nn import functional

        if x.ndim != 4 or min(x.shape[2:]) < self.size + self.grid - 1:
            raise WrongInput(
                f"random_convolutions: expected images of at least {self.size + self.grid - 1} pixels "
                f"a side, got shape {x.shape}; use a smaller size or grid"
            )
        filters = torch.from_numpy(self._filters(x.shape[1]))
        means = np.empty((len(x), 2 * self.count, self.grid, self.grid), np.float32)
        with torch.no_grad():
            for at in range(0, len(x), MICROBATCH):
                images = torch.from_numpy(x[at : at + MICROBATCH].astype(np.float32))
                images = torch.nan_to_num(images, posinf=1.0, neginf=0.0)
                outputs = functional.conv2d(images, filters)
                both = torch.cat([outputs.relu(), (-outputs).relu()], dim=1)
                means[at : at + MICROBATCH] = functional.adaptive_avg_pool2d(both, self.grid)
        return means

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a flattened row."""
        return 2 * self.count * self.grid**2

    def _filters(self, channels: int) -> np.ndarray:
        rng = np.random.Generator(np.random.PCG64([self.draw, self.count, self.size, channels]))
        filters = rng.standard_normal((self.count, channels, self.size, self.size))
        filters -= filters.mean(axis=(1, 2, 3), keepdims=True)
        filters /= np.sqrt(np.square(filters).sum(axis=(1, 2, 3), keepdims=True))
        return np.asarray(filters, np.float32)
