"""Augmented copies of an image: each is a function of the image and of random numbers, never of another image.

The random numbers come from draws with `uniform(shape)` and `normal(shape)`, whose first dimension is the images:
`privaware.descent.ExampleDraws` for private images, `GeneratorDraws` for public ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["GeneratorDraws", "jittered", "mirrored", "shifted", "shifted_mirrored"]


@dataclass(frozen=True)
class GeneratorDraws:
    """Draws from a torch generator, for batches whose shape is public: an image's numbers depend on its slot."""

    generator: Any

    def uniform(self, shape: Sequence[int]) -> Any:
        import torch

        return torch.rand(*shape, generator=self.generator, device=self.generator.device, dtype=torch.float64)

    def normal(self, shape: Sequence[int]) -> Any:
        import torch

        return torch.randn(*shape, generator=self.generator, device=self.generator.device, dtype=torch.float64)


def shifted(images: Any, draws: Any) -> Any:
    """Each image translated at random by up to 1/8 of its height and width; the edge is repeated."""
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
    """Every second image mirrored: of two copies of a row, one is as it was.

    Rows must have an even number of copies: else a row's position would decide which are mirrored, and one more row
    would change the gradients of all that come after it.
    """
    copies = images.clone()
    copies[1::2] = images[1::2].flip(-1)
    return copies


def shifted_mirrored(images: Any, draws: Any) -> Any:
    """Shifted, and every second one mirrored."""
    return mirrored(shifted(images, draws), draws)


def jittered(rows: Any, draws: Any) -> Any:
    """Rows of numbers, each plus normal noise of a tenth of the row's root mean square."""
    scale = 0.1 * rows.flatten(1).square().mean(1).sqrt()
    noise = draws.normal(rows.shape).to(rows)
    return rows + scale.view(-1, *[1] * (rows.ndim - 1)) * noise
