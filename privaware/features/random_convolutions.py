"""Frozen random convolutions: a public random layer, a rectifier and averaging over a coarse grid.

Filters are drawn once from a public seed, each with mean 0 and length 1; both signs of their answers
are kept, and the image is divided into `grid` x `grid` cells whose means are the features.

Paper: Saxe et al. 2011, On Random Weights and Unsupervised Feature Learning; as private features,
the random-weights training of Bao, Bauer and Bindschaedler, section VIII.
Privacy: free. It uses one row at a time and nothing that was learned.
Use when: a cheap comparison with scattering is wanted.

>>> RandomConvolutions(count=4, grid=2)(np.ones((3, 1, 8, 8), np.float32)).shape
(3, 8, 2, 2)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["RandomConvolutions"]

IMAGES_AT_ONCE = 256


@dataclass(frozen=True, kw_only=True)
class RandomConvolutions:
    """`count` filters of `size` x `size` pixels; `draw` names the public random layer."""

    count: int = 128
    size: int = 5
    grid: int = 4
    draw: int = 0

    def __post_init__(self) -> None:
        for name, least in (("count", 1), ("size", 2), ("grid", 1), ("draw", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise WrongInput(f"random_convolutions: expected {name} >= {least} as a whole number, got {value!r}")

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        """(N, C, H, W) becomes (N, 2 count, grid, grid)."""
        import torch
        from torch.nn import functional

        if x.ndim != 4 or min(x.shape[2:]) < self.size + self.grid - 1:
            raise WrongInput(
                f"random_convolutions: expected images of at least {self.size + self.grid - 1} pixels "
                f"a side, got shape {x.shape}; use a smaller size or grid"
            )
        filters = torch.from_numpy(self._filters(x.shape[1]))
        made = np.empty((len(x), 2 * self.count, self.grid, self.grid), np.float32)
        with torch.no_grad():
            for at in range(0, len(x), IMAGES_AT_ONCE):
                images = torch.from_numpy(x[at : at + IMAGES_AT_ONCE].astype(np.float32))
                images = torch.nan_to_num(images, posinf=1.0, neginf=0.0)
                answers = functional.conv2d(images, filters)
                both = torch.cat([answers.relu(), (-answers).relu()], dim=1)
                made[at : at + IMAGES_AT_ONCE] = functional.adaptive_avg_pool2d(both, self.grid)
        return made

    def width(self, schema: Schema) -> int:
        """How many entries a row has, laid flat."""
        return 2 * self.count * self.grid**2

    def _filters(self, channels: int) -> np.ndarray:
        source = np.random.Generator(np.random.PCG64([self.draw, self.count, self.size, channels]))
        drawn = source.standard_normal((self.count, channels, self.size, self.size))
        drawn -= drawn.mean(axis=(1, 2, 3), keepdims=True)
        drawn /= np.sqrt(np.square(drawn).sum(axis=(1, 2, 3), keepdims=True))
        return np.asarray(drawn, np.float32)
