"""Blocks of one convolution and one pool, then dense layers, with dropout before the output.

Images are first pooled over 2 x 2 pixels (`halve`). The first convolution is 5 x 5 without padding, the others are 3 x
3 with padding, and no pool follows the last one, as in the search space of Bao et al. LeNet-5 and their network for
random weights training are other settings of the same fields.

Paper: Bao, Bauer and Bindschaedler, appendices B and D.
Privacy: no cost of its own; no layer mixes rows.
Use when: rows are small images, and there are hundreds of thousands of rows or a medium epsilon.

>>> from privaware.models import count
>>> count(Cnn(inputs=(1, 28, 28), filters=(16, 32), hidden=(64,), outputs=10))
56970
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privaware.models._conv_stack import Conv, ConvLayer, Pool, build_stack, flattened_size
from privaware.models._description import ImageDescription

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Cnn"]


@dataclass(frozen=True, kw_only=True)
class Cnn(ImageDescription):
    """A convolutional network.

    Parameters
    ----------
    inputs : tuple of int
        Channels, height and width of an image.
    outputs : int
        Number of outputs.
    filters, kernels, paddings : tuple of int
        Filters, kernel side and padding of each convolution; by default kernels of 5 then 3, and paddings of 0 then 1.
    hidden : tuple of int
        Units of each dense layer.
    halve, pool_last : bool
        Whether a 2 x 2 pool comes before the first convolution, and after the last one. A pool always follows the other
        convolutions.
    dropout : float
        Dropout rate before the output.
    activation, tempered, pooling
        Name of the activation; scale, temperature and offset of the activation "tempered"; the kind of pools: "max" or
        "average".
    """

    name: ClassVar[str] = "cnn"

    filters: tuple[int, ...]
    hidden: tuple[int, ...]
    kernels: tuple[int, ...] = ()
    paddings: tuple[int, ...] = ()
    halve: bool = True
    pool_last: bool = False
    dropout: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_counts("filters")
        self._check_counts("hidden")
        blocks = len(self.filters)
        if not blocks:
            raise self._error("filters", "at least one number of filters")
        if not self.kernels:
            self._set("kernels", (5, *[3] * (blocks - 1)))
        if not self.paddings:
            self._set("paddings", (0, *[1] * (blocks - 1)))
        self._check_counts("kernels", size=blocks)
        self._check_counts("paddings", least=0, size=blocks)
        self._check_flag("halve")
        self._check_flag("pool_last")
        self._check_fraction("dropout")
        flattened_size(self, self._stack())

    def _stack(self) -> tuple[ConvLayer, ...]:
        stack: list[ConvLayer] = [Pool()] if self.halve else []
        for filters, kernel, padding in zip(self.filters, self.kernels, self.paddings):
            stack += [Conv(filters, kernel, 1, padding), Pool()]
        return tuple(stack if self.pool_last else stack[:-1])

    def _module(self) -> nn.Module:
        return build_stack(self, self._stack(), self.hidden, dropout=self.dropout)
