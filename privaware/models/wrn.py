"""Wide residual network with group norm and weight standardisation; WRN-16-4 by default.

Activations come before convolutions. There are three stages of (depth - 4) / 6 blocks with 16, 32 and 64 times `width`
filters. Filters are standardised to mean 0 and a norm of about 1, so the scale of the weights does not matter.

Paper: Zagoruyko and Komodakis, Wide residual networks. With these norms it is the network of De et al., Unlocking
high-accuracy differentially private image classification through scale, and of the `prior` features. Neither paper
prints its number of parameters: 2,751,146 for ten classes of colour images.
Privacy: no cost of its own; no layer mixes rows.
Use when: features are learned on public or synthetic images, or rows are many.

>>> from privaware.models import count
>>> count(Wrn(inputs=(3, 32, 32), outputs=10))
2751146
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privaware.models._description import ImageDescription

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Wrn"]


@dataclass(frozen=True, kw_only=True)
class Wrn(ImageDescription):
    """A wide residual network.

    Parameters
    ----------
    inputs : tuple of int
        Channels, height and width of an image.
    outputs : int
        Number of outputs.
    depth : int
        Number of layers, 6 n + 4, for n blocks of two convolutions in each of three stages.
    width : int
        Factor on the filters of the stages, which are 16, 32 and 64 for a factor of 1.
    groups : int
        Groups of the group norms.
    stride : int
        Stride of the first convolution.
    activation, tempered, pooling
        Name of the activation; scale, temperature and offset of the activation "tempered"; the kind of the global pool:
        "max" or "average".
    """

    name: ClassVar[str] = "wrn"

    depth: int = 16
    width: int = 4
    groups: int = 16
    pooling: str = "average"
    stride: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_count("depth", least=10)
        if self.depth % 6 != 4:
            raise self._error("depth", "6 n + 4, such as 16, 22, 28 or 40")
        self._check_count("width")
        self._check_count("groups")
        self._check_count("stride")
        self._check_groups("groups", 16, 16 * self.width)

    def _module(self) -> nn.Module:
        from torch import nn

        from privaware.models._layers import StandardisedConv2d, global_pool

        blocks: list[nn.Module] = []
        channels = 16
        for stage in range(3):
            filters = 16 * 2**stage * self.width
            for at in range((self.depth - 4) // 6):
                blocks.append(self._block(channels, filters, 2 if stage and not at else 1))
                channels = filters
        return nn.Sequential(
            OrderedDict(
                stem=StandardisedConv2d(self.inputs[0], 16, 3, self.stride, padding=1),
                blocks=nn.Sequential(*blocks),
                norm=nn.GroupNorm(self.groups, channels),
                activation=self._activation(),
                pool=global_pool(self.pooling),
                flatten=nn.Flatten(),
                output=nn.Linear(channels, self.outputs),
            )
        )

    def _block(self, channels: int, filters: int, stride: int) -> nn.Module:
        from torch import nn

        from privaware.models._layers import Residual, StandardisedConv2d

        first = nn.Sequential(nn.GroupNorm(self.groups, channels), self._activation())
        body = nn.Sequential(
            StandardisedConv2d(channels, filters, 3, stride, padding=1),
            nn.GroupNorm(self.groups, filters),
            self._activation(),
            StandardisedConv2d(filters, filters, 3, padding=1),
        )
        if channels == filters and stride == 1:
            return Residual(body, first=first)
        projection = StandardisedConv2d(channels, filters, 1, stride)
        return Residual(body, first=first, shortcut=projection, preactivated=True)
