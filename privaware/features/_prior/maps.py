"""Feature maps of a wide residual network at several depths."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from privaware.models import build

SIDE = 32
"""Side to which images are resized, in pixels; the network was trained at this size."""


def backbone(depth: int, width: int, rng: Any = None, device: Any = None, stride: int = 1) -> nn.Sequential:
    """Return a wide residual network (`depth` layers, `width` times wider) without its output layer.

    The network ends with global average pooling and flattening. `rng` draws its initial weights, and `stride` is the
    stride of its first convolution. On the device "meta" its tensors have shapes but no values.
    """
    description = {
        "name": "wrn",
        "inputs": (3, SIDE, SIDE),
        "outputs": 1,
        "depth": depth,
        "width": width,
        "pooling": "average",
        "stride": stride,
    }
    network = build(description, rng, device)
    return nn.Sequential(OrderedDict(list(network.named_children())[:-1]))


def channels_at(depth: int, width: int) -> tuple[int, ...]:
    """Return the number of channels after each residual block of a network of `depth` layers and factor `width`."""
    per_stage = (depth - 4) // 6
    return tuple(16 * width * 2 ** (block // per_stage) for block in range(3 * per_stage))


def feature_maps(network: nn.Module, images: Tensor, depths: Sequence[int], normed: bool) -> list[Tensor]:
    """Return the rectified outputs of the residual blocks numbered `depths`, counted from 0, in the order of `depths`.

    `network` is a `backbone`, and `images` are results of `preprocess`. With `normed` an output is taken after the
    group norm of the next block; the output of the last block always passes the network's last norm. Blocks after the
    deepest of `depths` are not computed.
    """
    blocks: Any = network.blocks
    x: Tensor = network.stem(images)  # type: ignore[operator]
    outputs = {}
    for at, block in enumerate(blocks):
        x = block(x)
        if at in depths:
            last = at + 1 == len(blocks)
            if last:
                outputs[at] = functional.relu(network.norm(x))  # type: ignore[operator]
            else:
                outputs[at] = blocks[at + 1].first(x) if normed else functional.relu(x)
        if len(outputs) == len(depths):
            break
    return [outputs[depth] for depth in depths]


def preprocess(images: Tensor, side: int = SIDE) -> Tensor:
    """Return images (rows, 1 or 3, height, width) as network inputs (rows, 3, side, side) in [-1, 1].

    Pixels are first clipped to [0, 1]; NaN becomes 0.
    """
    images = torch.nan_to_num(images, nan=0.0, posinf=1.0, neginf=0.0).clamp(0, 1)
    if images.shape[-2:] != (side, side):
        images = functional.interpolate(images, size=(side, side), mode="bilinear", align_corners=False, antialias=True)
    images = (images * 2 - 1).expand(-1, 3, -1, -1)
    return images.contiguous(memory_format=torch.channels_last)


def pooled_maps(
    network: nn.Module, images: Tensor, depths: Sequence[int], pools: Sequence[int], *, mirror: bool, normed: bool
) -> list[Tensor]:
    """Return the feature map at each of `depths`, averaged to a square whose side is its entry of `pools`.

    With `mirror` each map is also averaged over the image and its mirror image. The maps are (rows, channels, side,
    side). `network`, `images` and `normed` are as in `feature_maps`.
    """
    pooled = [
        functional.adaptive_avg_pool2d(m, pool)
        for m, pool in zip(feature_maps(network, images, depths, normed), pools, strict=True)
    ]
    if not mirror:
        return pooled
    flipped = pooled_maps(network, images.flip(3), depths, pools, mirror=False, normed=normed)
    return [(a + b) / 2 for a, b in zip(pooled, flipped, strict=True)]
