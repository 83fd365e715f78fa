"""Residual networks of 6 n + 2 layers (20, 32, 44 and so on) for small images, with group norms without weights.

There are three stages of two-convolution blocks with 16, 32 and 64 filters. Where a stage has stride 2, the shortcut
takes every other pixel, normalises and appends channels of zeros, so the shortcut has no parameters. Initial weights of
convolutions follow He et al.

Paper: DPMLBench, Table 14; the table of the full network is missing from the paper. Table 14 says "no weights" only for
the first norm; in the code of the authors no norm has weights. Here no norm has weights (268,346 parameters on colour
images, 0.26M in the paper's Table 2; with weights there would be 269,818).
Privacy: no cost of its own; no layer mixes rows.
Use when: comparing with DPMLBench, or studying how depth affects accuracy under privacy.

>>> from privaware.models import count
>>> count(ResNet(inputs=(3, 32, 32), outputs=10))
268346
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privaware.models._description import ImageDescription

if TYPE_CHECKING:
    from torch import nn

__all__ = ["ResNet"]


@dataclass(frozen=True, kw_only=True)
class ResNet(ImageDescription):
    """A residual network for small images.

    Parameters
    ----------
    inputs : tuple of int
        Channels, height and width of an image.
    outputs : int
        Number of outputs.
    depth : int
        Number of layers, 6 n + 2, for n blocks of two convolutions in each of three stages.
    filters : tuple of int
        Filters of the three stages.
    groups : int
        Groups of the group norms.
    activation, tempered, pooling
        Name of the activation; scale, temperature and offset of the activation "tempered"; the kind of the global pool:
        "max" or "average".
    """

    name: ClassVar[str] = "resnet"

    depth: int = 20
    filters: tuple[int, int, int] = (16, 32, 64)
    groups: int = 4
    pooling: str = "average"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_count("depth", least=8)
        if self.depth % 6 != 2:
            raise self._error("depth", "6 n + 2, such as 20, 32, 44, 56, 74 or 110")
        self._check_counts("filters", size=3)
        if list(self.filters) != sorted(self.filters):
            raise self._error("filters", "three numbers in non-decreasing order")
        self._check_count("groups")
        self._check_groups("groups", *self.filters)

    def _module(self) -> nn.Module:
        from torch import nn

        from privaware.models._layers import global_pool, he_normal

        first = self.filters[0]
        blocks: list[nn.Module] = []
        channels = first
        for stage, filters in enumerate(self.filters):
            for at in range((self.depth - 2) // 6):
                blocks.append(self._block(channels, filters, 2 if stage and not at else 1))
                channels = filters
        network = nn.Sequential(
            OrderedDict(
                conv=nn.Conv2d(self.inputs[0], first, 3, padding=1, bias=False),
                norm=self._norm(first),
                activation=self._activation(),
                blocks=nn.Sequential(*blocks),
                pool=global_pool(self.pooling),
                flatten=nn.Flatten(),
                output=nn.Linear(channels, self.outputs),
            )
        )
        he_normal(network)
        return network

    def _norm(self, channels: int) -> nn.Module:
        from torch import nn

        return nn.GroupNorm(self.groups, channels, affine=False)

    def _block(self, channels: int, filters: int, stride: int) -> nn.Module:
        from torch import nn

        from privaware.models._layers import PadChannels, Residual

        body = nn.Sequential(
            nn.Conv2d(channels, filters, 3, stride, padding=1, bias=False),
            self._norm(filters),
            self._activation(),
            nn.Conv2d(filters, filters, 3, padding=1, bias=False),
            self._norm(filters),
        )
        shortcut = None
        if stride > 1:
            shortcut = nn.Sequential(nn.AvgPool2d(1, stride), self._norm(channels), PadChannels(filters - channels))
        return Residual(body, shortcut=shortcut, after=self._activation())
