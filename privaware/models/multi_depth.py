"""Wide residual network whose output layer reads feature maps of several depths, pooled and whitened.

The outputs of the blocks numbered `depths` are rectified, averaged to `pools` x `pools` points each and whitened by
fixed matrices, which are part of the tensors. Rows are then scaled to norm 1. This is the network of the `prior`
features with an output layer, which the learner `finetune` trains.

Paper: Zagoruyko and Komodakis, Wide residual networks, for the network; the head on several depths is this package's.
Privacy: no cost of its own; no layer mixes rows, and the whitening is fixed.
Use when: training continues from a network pretrained on public or synthetic images.

>>> from privaware.models import count
>>> count(MultiDepth(inputs=(3, 32, 32), outputs=10, depth=10, width=1, depths=(0, 2), pools=(4, 2)))
82666

The module of `multi_depth`: a wide residual network whose output layer reads whitened maps of several depths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from privaware.models._description import Description, ImageDescription

__all__ = ["MultiDepthNetwork", "Whitened"]


class Whitened(nn.Module):
    """A fixed affine map from pooled maps of several depths to one row of norm 1; it has buffers and no parameters.

    Map number i (channels, p * p) is multiplied by `basis{i}` (p * p, p * p), centred by `mean{i}` and divided by
    `scale{i}`. Entry m of all channels of all depths is then multiplied by `matrix{m}`.
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
    """A wide residual network whose output layer reads whitened maps of several depths.

    `network` has the parts stem, blocks and norm of a wide residual network; `depths` are numbers of its blocks, from
    0. With `mirror`, outputs are the mean over an image and its mirror image.
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
        """Return whitened rows of norm 1."""
        x = self.stem(x.contiguous(memory_format=torch.channels_last) if x.is_cuda else x)
        maps: list[Tensor] = []
        for at, block in enumerate(self.blocks):
            x = block(x)
            if at in self.depths:
                normed = self.norm(x) if at + 1 == len(self.blocks) else x
                maps.append(self.pools[len(maps)](self.activation(normed).float()))
            if len(maps) == len(self.depths):
                break
        rows: Tensor = self.whitened(maps)
        return rows


if TYPE_CHECKING:
    from torch import nn

__all__ = ["MultiDepth"]


@dataclass(frozen=True, kw_only=True)
class MultiDepth(ImageDescription):
    """The description of a wide residual network with a head on several depths.

    Parameters
    ----------
    inputs : tuple of int
        Channels, height and width of an image.
    outputs : int
        Number of outputs.
    depth, width, groups, stride
        As for `wrn`.
    depths : tuple of int
        Numbers of the blocks, from 0, whose outputs are read; the last must be the last block.
    pools : tuple of int
        For each of `depths`, the side of the grid to which its output is pooled.
    mirror : bool
        Whether outputs are the mean over an image and its mirror image.
    activation, tempered, pooling
        The activation, the parameters of a tempered sigmoid, and the kind of pools.
    """

    name: ClassVar[str] = "multi_depth"

    depth: int = 16
    width: int = 4
    groups: int = 16
    stride: int = 1
    depths: tuple[int, ...] = (1, 3, 4, 5)
    pools: tuple[int, ...] = (4, 4, 2, 2)
    mirror: bool = False
    pooling: str = "average"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._wrn()
        self._check_counts("depths", least=0)
        last = (self.depth - 4) // 2 - 1
        if not self.depths or sorted(set(self.depths)) != list(self.depths) or self.depths[-1] != last:
            raise self._error("depths", f"rising whole numbers of which the last is {last}")
        self._check_counts("pools", size=len(self.depths))
        self._check_flag("mirror")

    def _wrn(self) -> Description:
        """Return the wide residual network; raise if its settings are wrong."""
        from privaware.models import parse

        shared = ("inputs", "depth", "width", "groups", "stride", "activation", "tempered")
        return parse({"name": "wrn", "outputs": 1} | {field: getattr(self, field) for field in shared})

    def _module(self) -> nn.Module:
        from torch import nn

        from privaware.models.multi_depth import MultiDepthNetwork

        pool = nn.AdaptiveAvgPool2d if self.pooling == "average" else nn.AdaptiveMaxPool2d
        pools = [pool(size) for size in self.pools]
        per_stage = (self.depth - 4) // 6
        channels = [16 * self.width * 2 ** (at // per_stage) for at in self.depths]
        return MultiDepthNetwork(self._wrn()._module(), channels, self.depths, pools, self.outputs, self.mirror)
