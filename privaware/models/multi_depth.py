"""Wide residual network whose output layer reads feature maps of several depths, pooled and whitened.

The outputs of the blocks numbered `depths` pass the activation (the last block's pass a group norm first), are pooled
to pool x pool points, one of `pools` for each block, and are whitened by fixed matrices, which are part of the tensors.
Rows are then scaled to L2 norm 1. This is the network of the `prior` features with an output layer, which the learner
`finetune` trains.

Paper: Zagoruyko and Komodakis, Wide residual networks, for the network; the head on several depths is this package's.
Privacy: no cost of its own; no layer mixes rows, and the whitening is fixed.
Use when: training continues from a network pretrained on public or synthetic images.

>>> from privaware.models import count
>>> count(MultiDepth(inputs=(3, 32, 32), outputs=10, depth=10, width=1, depths=(0, 2), pools=(4, 2)))
82666
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privaware.models._description import Description, ImageDescription

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
    depth : int
        Number of layers of the network, 6 n + 4; it has 3 n blocks.
    width : int
        Factor on the filters of the three stages, which are 16, 32 and 64 for a factor of 1.
    groups : int
        Groups of the group norms.
    stride : int
        Stride of the first convolution.
    depths : tuple of int
        Numbers of the blocks, from 0 and increasing, whose outputs are read; the last must be the last block.
    pools : tuple of int
        For each of `depths`, the side of the grid to which its output is pooled.
    mirror : bool
        Whether outputs are the mean over an image and the image mirrored left to right.
    activation, tempered, pooling
        Name of the activation; scale, temperature and offset of the activation "tempered"; the kind of the pools whose
        sides are `pools`: "max" or "average".
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
            raise self._error("depths", f"increasing whole numbers that end with {last}, the last block")
        self._check_counts("pools", size=len(self.depths))
        self._check_flag("mirror")

    def _wrn(self) -> Description:
        """Return the description of the wide residual network; raise `WrongInput` if one of its settings is wrong."""
        from privaware.models import parse

        shared = ("inputs", "depth", "width", "groups", "stride", "activation", "tempered")
        return parse({"name": "wrn", "outputs": 1} | {field: getattr(self, field) for field in shared})

    def _module(self) -> nn.Module:
        from torch import nn

        from privaware.models._multi_depth import MultiDepthNetwork

        pool = nn.AdaptiveAvgPool2d if self.pooling == "average" else nn.AdaptiveMaxPool2d
        pools = [pool(size) for size in self.pools]
        per_stage = (self.depth - 4) // 6
        channels = [16 * self.width * 2 ** (at // per_stage) for at in self.depths]
        return MultiDepthNetwork(self._wrn()._module(), channels, self.depths, pools, self.outputs, self.mirror)
