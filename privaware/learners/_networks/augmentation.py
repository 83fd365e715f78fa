"""Augmented copies of an image: each copy is a function of the image and of random numbers, never of another image.

The random numbers come from an object with methods `uniform(shape)` and `normal(shape)`, whose first dimension counts
images: `privaware.descent.ExampleDraws` for private images, `GeneratorDraws` for public ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class GeneratorDraws:
    """Random float64 tensors, uniform in [0, 1) or standard normal, from the torch `generator` and on its device."""

    generator: Any

    def uniform(self, shape: Sequence[int]) -> Any:
        import torch

        return torch.rand(*shape, generator=self.generator, device=self.generator.device, dtype=torch.float64)

    def normal(self, shape: Sequence[int]) -> Any:
        import torch

        return torch.randn(*shape, generator=self.generator, device=self.generator.device, dtype=torch.float64)


def shifted(images: Any, draws: Any) -> Any:
    """Return each of `images` (images, channels, height, width) translated at random, with the edge repeated.

    `draws.uniform(shape)` returns random numbers in [0, 1), one row for each image. The shift along a side of `size`
    pixels is a whole number, at most `max(1, size // 8)` pixels in either direction.
    """
    import torch

    rows, _, height, width = images.shape
    indices = []
    for size in (height, width):
        reach = max(1, size // 8)
        by = (draws.uniform((rows, 1)) * (2 * reach + 1)).long() - reach
        at = torch.arange(size, device=by.device)[None] + by
        indices.append(at.clamp(0, size - 1).to(images.device))
    down, across = indices
    images = images.gather(2, down[:, None, :, None].expand_as(images))
    return images.gather(3, across[:, None, None, :].expand_as(images))


def mirrored(images: Any, _: Any) -> Any:
    """Return a copy of `images` with every second image mirrored left to right.

    `images` are (images, channels, height, width). Copies of a row lie next to each other, and each row must have an
    even number of copies: then half of them stay unchanged. With an odd number, a row's position would decide which
    copies are mirrored, and one more row would change the gradients of all rows after it. The second argument is
    ignored: no random number is used.
    """
    copies = images.clone()
    copies[1::2] = images[1::2].flip(-1)
    return copies


def shifted_mirrored(images: Any, draws: Any) -> Any:
    """Return the images shifted at random (`shifted`), with every second one mirrored (`mirrored`).

    `draws.uniform(shape)` returns random numbers in [0, 1). Each row must have an even number of neighbouring copies.
    """
    return mirrored(shifted(images, draws), draws)


def jittered(rows: Any, draws: Any) -> Any:
    """Return `rows` (rows, ...) plus normal noise of standard deviation 0.1 times the root mean square of each row.

    `draws.normal(shape)` returns standard normal numbers.
    """
    scale = 0.1 * rows.flatten(1).square().mean(1).sqrt()
    noise = draws.normal(rows.shape).to(rows)
    return rows + scale.view(-1, *[1] * (rows.ndim - 1)) * noise
