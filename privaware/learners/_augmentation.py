"""Augmented copies of an image: each is a function of the image and of random numbers, never of another image."""

from __future__ import annotations

from typing import Any

__all__ = ["jittered", "mirrored", "shifted", "shifted_mirrored"]


def shifted(images: Any, generator: Any) -> Any:
    """Each image translated at random by up to 1/8 of its height and width; the edge is repeated."""
    import torch

    rows, _, height, width = images.shape
    indices = []
    for size in (height, width):
        reach = max(1, size // 8)
        by = torch.randint(-reach, reach + 1, (rows, 1), generator=generator, device=generator.device)
        at = torch.arange(size, device=generator.device)[None] + by
        indices.append(at.clamp(0, size - 1).to(images.device))
    down, across = indices
    images = images.gather(2, down[:, None, :, None].expand_as(images))
    return images.gather(3, across[:, None, None, :].expand_as(images))


def mirrored(images: Any, _: Any) -> Any:
    """Every second image mirrored: of two copies of a row, one is as it was.

    Rows must have an even number of copies: else a row's position would decide which are mirrored, and one more row
    would change the gradients of all that come after it.
    """
    copies = images.clone()
    copies[1::2] = images[1::2].flip(-1)
    return copies


def shifted_mirrored(images: Any, generator: Any) -> Any:
    """Shifted, and every second one mirrored."""
    return mirrored(shifted(images, generator), generator)


def jittered(rows: Any, generator: Any) -> Any:
    """Rows of numbers, each plus normal noise of a tenth of the row's root mean square."""
    import torch

    scale = 0.1 * rows.flatten(1).square().mean(1).sqrt()
    noise = torch.randn(rows.shape, generator=generator, device=rows.device)
    return rows + scale.view(-1, *[1] * (rows.ndim - 1)) * noise
