"""The augmentation of SimCLR: random crop, flip, colour jitter and greyscale.

All random numbers are passed in as one table of draws, so that a batch needs few kernel launches and can be compiled.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["DRAWS", "augment"]

DRAWS = 11
"""Number of uniform random numbers for one view."""
LEAST_AREA = 0.15
"""Smallest area of a crop, relative to the image."""
STRETCH = math.log(4 / 3)
JITTERED = 0.8
"""Probability that the colours of an image are changed."""

GREYED = 0.2
"""Probability that an image becomes grey."""

JITTER = 0.4
"""Largest relative change of brightness, contrast and saturation."""

HUE = 0.1
"""Largest change of the hue, in turns of the colour circle."""

LUMINANCE = (0.299, 0.587, 0.114)


def augment(images: Tensor, draws: Tensor, side: int = 32) -> Tensor:
    """Return views in [-1, 1] of shape (rows, 3, side, side).

    `images` has shape (rows, 3, h, w) and values in [0, 1]. `draws` has shape (rows, DRAWS).
    """
    area, stretch, x, y, flip, *colour = draws.unbind(1)
    cropped = _crop(images, area, stretch, x, y, flip, side)
    return _jitter(cropped, *(draw[:, None, None, None] for draw in colour)) * 2 - 1


def _crop(images: Tensor, area: Tensor, stretch: Tensor, x: Tensor, y: Tensor, flip: Tensor, side: int) -> Tensor:
    """Return a random crop, flipped with probability one half and resized to `side`."""
    area = LEAST_AREA + (1 - LEAST_AREA) * area
    ratio = torch.exp((2 * stretch - 1) * STRETCH)
    width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    across = torch.stack([torch.where(flip < 0.5, -width, width), torch.zeros_like(x), (2 * x - 1) * (1 - width)], 1)
    down = torch.stack([torch.zeros_like(y), height, (2 * y - 1) * (1 - height)], 1)
    grid = functional.affine_grid(torch.stack([across, down], 1), [len(images), 3, side, side], align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def _jitter(
    x: Tensor, jittered: Tensor, bright: Tensor, contrast: Tensor, saturation: Tensor, hue: Tensor, greyed: Tensor
) -> Tensor:
    """Apply random brightness, contrast, saturation and hue with probability 0.8, greyscale with probability 0.2."""
    on = (jittered < JITTERED).to(x.dtype)
    light = torch.tensor(LUMINANCE, dtype=x.dtype, device=x.device)[:, None, None]
    x = x * (1 + on * JITTER * (2 * bright - 1))
    middle = x.mean((1, 2, 3), keepdim=True)
    x = middle + (1 + on * JITTER * (2 * contrast - 1)) * (x - middle)
    grey = (x * light).sum(1, keepdim=True)
    x = grey + (1 + on * JITTER * (2 * saturation - 1)) * (x - grey)
    x = _rotate_hue(x, on * HUE * 2 * math.pi * (2 * hue - 1))
    grey = (x * light).sum(1, keepdim=True)
    return torch.where(greyed < GREYED, grey, x).clamp(0, 1)


def _rotate_hue(x: Tensor, angle: Tensor) -> Tensor:
    """Rotate colours by `angle` about the grey axis (Rodrigues' formula)."""
    cos, sin = torch.cos(angle), torch.sin(angle)
    grey = x.mean(1, keepdim=True)
    orthogonal = (x.roll(1, 1) - x.roll(-1, 1)) / math.sqrt(3)
    return grey + cos * (x - grey) + sin * orthogonal
