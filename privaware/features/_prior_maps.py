"""What a wide residual network shows at its depths, without its last linear layer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from privaware.models import build

__all__ = ["channels_at", "maps", "pooled", "prepared", "trunk"]

SIDE = 32
"""Images are brought to this size: the one the network was trained at."""


def trunk(depth: int, width: int, rng: Any = None, device: Any = None) -> nn.Sequential:
    """The network up to its global pool; on the device "meta" it has shapes only."""
    described = {
        "name": "wrn",
        "inputs": (3, SIDE, SIDE),
        "outputs": 1,
        "depth": depth,
        "width": width,
        "pooling": "average",
    }
    network = build(described, rng, device)
    return nn.Sequential(OrderedDict(list(network.named_children())[:-1]))


def channels_at(depth: int, width: int) -> tuple[int, ...]:
    """How many channels the map behind each block has."""
    each = (depth - 4) // 6
    return tuple(16 * width * 2 ** (block // each) for block in range(3 * each))


def maps(network: nn.Module, images: Tensor, depths: Sequence[int], normed: bool) -> list[Tensor]:
    """The maps behind the blocks numbered `depths`, rectified; `normed` ones as the next layer sees them.

    The last map always passes the network's own last norm. Blocks behind the deepest one asked for are not run.
    """
    blocks: Any = network.blocks
    x: Tensor = network.stem(images)  # type: ignore[operator]
    found = {}
    for at, block in enumerate(blocks):
        x = block(x)
        if at in depths:
            last = at + 1 == len(blocks)
            if last:
                found[at] = functional.relu(network.norm(x))  # type: ignore[operator]
            else:
                found[at] = blocks[at + 1].first(x) if normed else functional.relu(x)
        if len(found) == len(depths):
            break
    return [found[depth] for depth in depths]


def prepared(images: Tensor, side: int = SIDE) -> Tensor:
    """Images in [0, 1] of any size, grey or in colour, as the network takes them: 3 x side x side in [-1, 1]."""
    images = torch.nan_to_num(images, nan=0.0, posinf=1.0, neginf=0.0).clamp(0, 1)
    if images.shape[-2:] != (side, side):
        images = functional.interpolate(images, size=(side, side), mode="bilinear", align_corners=False, antialias=True)
    images = (images * 2 - 1).expand(-1, 3, -1, -1)
    return images.contiguous(memory_format=torch.channels_last)


def pooled(
    network: nn.Module, images: Tensor, depths: Sequence[int], pools: Sequence[int], *, mirror: bool, normed: bool
) -> list[Tensor]:
    """Each map of prepared images averaged down to pool x pool, with `mirror` also over the image and its mirror."""
    made = [
        functional.adaptive_avg_pool2d(m, pool)
        for m, pool in zip(maps(network, images, depths, normed), pools, strict=True)
    ]
    if not mirror:
        return made
    other = pooled(network, images.flip(3), depths, pools, mirror=False, normed=normed)
    return [(a + b) / 2 for a, b in zip(made, other, strict=True)]
