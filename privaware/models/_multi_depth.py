"""The module of `multi_depth`: a wide residual network whose output layer reads whitened maps of several depths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Whitened(nn.Module):
    """Apply a fixed affine map to pooled feature maps of several depths, and scale each row to L2 norm 1.

    The module has buffers, but no parameters. `channels` and `pools` have one entry for each feature map: its number of
    channels c and its side p. A map (rows, c, p, p) is flattened to (rows, c, p * p), multiplied by `basis{i}` (p * p,
    p * p), centred by `mean{i}` (c, p * p) and divided by `scale{i}` (c). For each position m below the largest p * p,
    the entries at m of all maps with p * p > m are concatenated to a row and multiplied by the square `matrix{m}`. All
    matrices multiply from the right. The output (rows, sum of c * p * p) concatenates the products in the order of m.
    """

    def __init__(self, channels: Sequence[int], pools: Sequence[int]) -> None:
        super().__init__()
        self.maps, self.modes = len(channels), max(pools) ** 2
        for at, (count, pool) in enumerate(zip(channels, pools, strict=True)):
            self.register_buffer(f"basis{at}", torch.eye(pool * pool))
            self.register_buffer(f"mean{at}", torch.zeros(count, pool * pool))
            self.register_buffer(f"scale{at}", torch.ones(count))
        for mode in range(self.modes):
            size = sum(count for count, pool in zip(channels, pools, strict=True) if pool * pool > mode)
            self.register_buffer(f"matrix{mode}", torch.eye(size))

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        coefficients = []
        for at, pooled in enumerate(maps):
            basis, mean, scale = (getattr(self, f"{name}{at}") for name in ("basis", "mean", "scale"))
            coefficients.append((pooled.flatten(2) @ basis - mean) / scale[:, None])
        rows = []
        for mode in range(self.modes):
            columns = torch.cat([c[:, :, mode] for c in coefficients if c.shape[2] > mode], 1)
            rows.append(columns @ getattr(self, f"matrix{mode}"))
        return functional.normalize(torch.cat(rows, 1), dim=1)


class MultiDepthNetwork(nn.Module):
    """A wide residual network whose output layer reads pooled and whitened outputs of several blocks.

    `network` is the module that `Wrn` builds. `depths` are the numbers of the blocks that are read, from 0, in
    increasing order. For each of these blocks, `channels` has the number of channels, and `pools` an adaptive pooling
    layer. With `mirror`, outputs are the mean over an image and the image mirrored left to right.
    """

    def __init__(
        self,
        network: Any,
        channels: Sequence[int],
        depths: Sequence[int],
        pools: Sequence[nn.Module],
        outputs: int,
        mirror: bool,
    ) -> None:
        super().__init__()
        self.stem, self.blocks, self.norm = network.stem, network.blocks, network.norm
        self.activation, self.pools = network.activation, nn.ModuleList(pools)
        self.depths, self.mirror = tuple(depths), mirror
        sizes: list[int] = [pool.output_size for pool in pools]  # type: ignore[misc]
        self.whitened = Whitened(channels, sizes)
        self.output = nn.Linear(sum(c * p * p for c, p in zip(channels, sizes, strict=True)), outputs)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.output(self.features(x))
        return (outputs + self.output(self.features(x.flip(3)))) / 2 if self.mirror else outputs

    def features(self, x: Tensor) -> Tensor:
        """Return the input of the output layer for images `x` (rows, channels, height, width): rows of L2 norm 1.

        The images are not mirrored, even with `mirror`.
        """
        x = self.stem(x.contiguous(memory_format=torch.channels_last) if x.is_cuda else x)
        maps: list[Tensor] = []
        for at, block in enumerate(self.blocks):
            x = block(x)
            if at in self.depths:
                normed = self.norm(x) if at + 1 == len(self.blocks) else x
                maps.append(self.pools[len(maps)](self.activation(normed).float()))
            if len(maps) == len(self.depths):
                break
        return self.whitened(maps)
