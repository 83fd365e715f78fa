"""Images of any size, resized to one small square.

Each output pixel is a weighted mean of the input pixels around it (bilinear; when the image shrinks, the window is
wider, so that every input pixel counts).

Privacy: no privacy cost (data-independent): each row is transformed by itself.
Use when: images are larger than a feature such as scattering needs, whose width grows with the area of an image.

>>> Resize(side=2)(np.ones((3, 1, 6, 8), np.float32)).shape
(3, 1, 2, 2)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privaware._validate import expect_count
from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["Resize"]


@dataclass(frozen=True, kw_only=True)
class Resize:
    """Images resized to a square.

    Parameters
    ----------
    side : int
        Side of the resized images, in pixels.
    """

    side: int = 32

    def __post_init__(self) -> None:
        expect_count("resize", side=self.side)

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        """Resize images (N, C, H, W) to (N, C, side, side); images of this size are returned unchanged.

        Raise `WrongInput` unless `x` has four axes, none of the last three empty.
        """
        import torch
        from torch.nn import functional

        if x.ndim != 4 or not all(x.shape[1:]):
            raise WrongInput(f"resize: expected images (rows, channels, height, width), got shape {x.shape}")
        if x.shape[2:] == (self.side, self.side):
            return x
        images = torch.from_numpy(np.ascontiguousarray(x, np.float32))
        small = functional.interpolate(
            images, size=(self.side, self.side), mode="bilinear", align_corners=False, antialias=True
        )
        return np.asarray(small.numpy())

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a flattened row."""
        return schema.shape[0] * self.side**2
