"""EfficientNet-B0 for small images: inverted residual blocks with squeeze-and-excitation and group norm.

A block expands its channels by a 1 x 1 convolution, convolves them depth-wise, scales each channel by a gate computed
from the mean of all channels, and projects them by another 1 x 1 convolution. A shortcut is added where a block keeps
the shape of its input.

Paper: Tan and Le 2019. On images of 32 x 32 the stem has stride 1, and no 1 x 1 convolution precedes the global pool.
Without that convolution the network has the 3.6M parameters of Cheng et al., DPNAS, Table 2; with it there would be
4.0M. Group norms with weights stand in place of batch norms. Dropout and stochastic depth are left out.
Privacy: no cost of its own; no layer mixes rows, and the gate of a row is computed from that row only.
Use when: comparing with Table 2 of DPNAS.

>>> from privaware.models import count
>>> count(EfficientNet(inputs=(3, 32, 32), outputs=10))
3598598
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privaware.models._description import ImageDescription

if TYPE_CHECKING:
    from torch import nn

__all__ = ["EfficientNet"]


STAGES = ((1, 1, 3, 1), (6, 2, 3, 2), (6, 2, 5, 2), (6, 3, 3, 2), (6, 3, 5, 1), (6, 4, 5, 2), (6, 1, 3, 1))
"""Expansion of the channels, number of blocks, kernel size, and stride of the first block, for each stage."""
HALVED = 16
"""In an image of at most this height and width, the last two stages have one pixel left."""
SQUEEZE = 4
"""Number of channels of a block's input divided by the number of hidden units of its gate."""


@dataclass(frozen=True, kw_only=True)
class EfficientNet(ImageDescription):
    """EfficientNet-B0 for small images.

    Parameters
    ----------
    inputs : tuple of int
        Channels, height and width of an image.
    outputs : int
        Number of outputs.
    filters : tuple of int
        Filters of the stem and of each of the seven stages.
    groups : int
        Largest number of groups of a group norm; the greatest common divisor of `groups` and the channels is taken.
    activation, tempered, pooling
        Name of the activation; scale, temperature and offset of the activation "tempered"; the kind of the global pool:
        "max" or "average".
    """

    name: ClassVar[str] = "efficientnet"

    filters: tuple[int, ...] = (32, 16, 24, 40, 80, 112, 192, 320)
    groups: int = 8
    activation: str = "silu"
    pooling: str = "average"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_counts("filters", size=1 + len(STAGES))
        self._check_count("groups")
        if max(self.inputs[1:]) <= HALVED and any(self.groups % filters == 0 for filters in self.filters[-2:]):
            raise self._error("groups", "a number that leaves two channels in a group, where one pixel is left")

    def _module(self) -> nn.Module:
        from torch import nn

        from privaware.models._layers import global_pool

        channels, *stages = self.filters
        stem, blocks = self._conv(self.inputs[0], channels, 3), list[nn.Module]()
        for (expansion, count, size, stride), filters in zip(STAGES, stages, strict=True):
            for at in range(count):
                blocks.append(self._block(channels, expansion * channels, filters, size, 1 if at else stride))
                channels = filters
        return nn.Sequential(
            OrderedDict(
                stem=nn.Sequential(*stem, self._activation()),
                blocks=nn.Sequential(*blocks),
                pool=global_pool(self.pooling),
                flatten=nn.Flatten(),
                output=nn.Linear(channels, self.outputs),
            )
        )

    def _conv(self, channels: int, filters: int, size: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
        """Return a list of a `size` x `size` convolution without bias, padded by `size // 2`, and a group norm.

        `groups` is the number of groups of the convolution, not of the norm.
        """
        from torch import nn

        from privaware.models._layers import group_norm

        conv = nn.Conv2d(channels, filters, size, stride, size // 2, groups=groups, bias=False)
        return [conv, group_norm(self.groups, filters)]

    def _block(self, channels: int, wide: int, filters: int, size: int, stride: int) -> nn.Module:
        """Return an inverted bottleneck: `channels` are widened to `wide` and narrowed to `filters` channels.

        `size` and `stride` are of the depthwise convolution. The input is added if the block keeps its shape.
        """
        from torch import nn

        from privaware.models._layers import Residual, SqueezeExcitation

        body = [*self._conv(channels, wide, 1), self._activation()] if wide > channels else []
        body += [*self._conv(wide, wide, size, stride, groups=wide), self._activation()]
        body.append(SqueezeExcitation(wide, max(1, channels // SQUEEZE), self._activation()))
        body += self._conv(wide, filters, 1)
        keeps_shape = stride == 1 and channels == filters
        return Residual(nn.Sequential(*body)) if keeps_shape else nn.Sequential(*body)
