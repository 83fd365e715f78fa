"""VGG: 3 x 3 convolutions with pools between them, then two wide dense layers with dropout.

Initial weights of convolutions follow He et al. with the gain of the activation (the authors' code keeps the gain of
ReLU for tanh too). Weights of dense layers have standard deviation 0.01, and their biases are zero.

Paper: DPMLBench, Table 16. The network that the paper calls VGG16 has the eight convolutions of VGG-11 (configuration
A): 128,807,306 parameters on colour images, which its Table 2 rounds. Before the dense layers the image is averaged
onto 7 x 7 points (`spread` = 7), which for 32 x 32 images repeats one pixel 49 times.
Privacy: no cost of its own; no layer mixes rows.
Use when: comparing with DPMLBench. It is far too wide for small budgets.

>>> from privaware.models import count
>>> count(Vgg(inputs=(3, 32, 32), outputs=10))
128807306
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privaware.models._conv_stack import Conv, ConvLayer, Pool, conv_layers, flattened_size
from privaware.models._description import ImageDescription, is_count

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Vgg"]

GAINS = {"tanh": 5 / 3, "hardtanh": 5 / 3, "tempered": 5 / 3, "sigmoid": 1.0, "selu": 1.0}
"""Gain of the initial weights for each activation; sqrt(2) for any other."""


@dataclass(frozen=True, kw_only=True)
class Vgg(ImageDescription):
    """A VGG network.

    Parameters
    ----------
    inputs : tuple of int
        Channels, height and width of an image.
    outputs : int
        Number of outputs.
    filters : tuple of tuple of int
        Filters of the convolutions of each stage; a pool follows each stage.
    hidden : tuple of int
        Units of each dense layer.
    spread : int
        Side of the grid onto which the image is averaged before the dense layers.
    dropout : float
        Dropout rate after each dense layer.
    activation, tempered, pooling
        Name of the activation; scale, temperature and offset of the activation "tempered"; the kind of pools: "max" or
        "average".
    """

    name: ClassVar[str] = "vgg"

    filters: tuple[tuple[int, ...], ...] = ((64,), (128,), (256, 256), (512, 512), (512, 512))
    hidden: tuple[int, ...] = (4096, 4096)
    spread: int = 7
    dropout: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        stages = self.filters
        if not isinstance(stages, (list, tuple)) or not all(
            isinstance(stage, (list, tuple)) and stage and all(is_count(f, 1) for f in stage) for stage in stages
        ):
            raise self._error("filters", "a list of stages, each a list of whole numbers >= 1")
        self._set("filters", tuple(tuple(int(f) for f in stage) for stage in stages))
        self._check_counts("hidden")
        self._check_count("spread")
        self._check_fraction("dropout")
        flattened_size(self, self._stack())

    def _stack(self) -> tuple[ConvLayer, ...]:
        stack: list[ConvLayer] = []
        for stage in self.filters:
            stack += [*(Conv(filters, 3, 1, 1) for filters in stage), Pool()]
        return tuple(stack)

    def _module(self) -> nn.Module:
        from torch import nn

        from privaware.models._layers import dense_layers, he_normal

        layers = conv_layers(self, self._stack())
        layers += [("spread", nn.AdaptiveAvgPool2d(self.spread)), ("flatten", nn.Flatten())]
        channels = self.filters[-1][-1] if self.filters else self.inputs[0]
        width = channels * self.spread**2
        hidden = [(units, self._activation()) for units in self.hidden]
        layers += dense_layers(width, hidden, self.outputs, dropout=self.dropout, after_each=True)
        network = nn.Sequential(OrderedDict(layers))
        he_normal(network, GAINS.get(self.activation, 2**0.5))
        for layer in network:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=0.01)
                nn.init.zeros_(layer.bias)
        return network
