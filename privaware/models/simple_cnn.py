"""3 x 3 convolutions (by default three), each with activation and pool, dense layers (by default one) and the output.

With `groups` a group norm without weights precedes the activation of each convolution.

Paper: DPMLBench. The table of this network is missing from the paper. The structure follows the authors' code, and its
171,246 parameters agree with the 0.17M of the paper's Table 2. The group norms are in Figure 4 (four groups in the
authors' code).
Privacy: no cost of its own; no layer mixes rows.
Use when: comparing with DPMLBench.

>>> from privaware.models import count
>>> count(SimpleCnn(inputs=(3, 32, 32), outputs=10))
171246
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privaware.models._conv_stack import Conv, ConvLayer, Pool, build_stack, flattened_size
from privaware.models._description import ImageDescription

if TYPE_CHECKING:
    from torch import nn

__all__ = ["SimpleCnn"]


@dataclass(frozen=True, kw_only=True)
class SimpleCnn(ImageDescription):
    """A small convolutional network.

    Parameters
    ----------
    inputs : tuple of int
        Channels, height and width of an image.
    outputs : int
        Number of outputs.
    filters : tuple of int
        Filters of each 3 x 3 convolution; a 2 x 2 pool follows each.
    hidden : tuple of int
        Units of each dense layer.
    groups : int
        Groups of the group norms; 0 for no norm.
    activation, tempered, pooling
        Name of the activation; scale, temperature and offset of the activation "tempered"; the kind of pools: "max" or
        "average".
    """

    name: ClassVar[str] = "simple_cnn"

    filters: tuple[int, ...] = (16, 32, 32)
    hidden: tuple[int, ...] = (300,)
    groups: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_counts("filters")
        self._check_counts("hidden")
        self._check_count("groups", least=0)
        self._check_groups("groups", *self.filters)
        flattened_size(self, self._stack())

    def _stack(self) -> tuple[ConvLayer, ...]:
        return tuple(layer for filters in self.filters for layer in (Conv(filters, 3, 1, 1), Pool()))

    def _module(self) -> nn.Module:
        return build_stack(self, self._stack(), self.hidden, groups=self.groups)
