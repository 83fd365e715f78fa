"""The convolutional networks of Tramer and Boneh, from pixels or on scattering features, with tanh by default.

`layers` are convolutions `[filters, kernel, stride, padding]` and pools `["pool", kernel, stride]`. On scattering
features the channels may first be group-normalised in `groups`, without weights.

Paper: Tramer and Boneh, Differentially private learning needs better features (or much more data), Tables 6 to 9.
Tables 8 and 9 print pools that the parameter counts of Table 4 contradict; the networks in `named()` lack these pools.
Privacy: no cost of its own; no layer mixes rows.
Use when: rows are small images; on scattering features when the budget is small.

>>> from privaware.models import count
>>> count(TramerBoneh(inputs=(1, 28, 28), layers=((16, 8, 2, 2), ("pool", 2, 1), (32, 4, 2, 0), ("pool", 2, 1)),
...                   hidden=(32,), outputs=10))
26010
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from privaware.models._conv_stack import Conv, ConvLayer, Pool, build_stack, flattened_size
from privaware.models._description import ImageDescription, is_count

if TYPE_CHECKING:
    from torch import nn

__all__ = ["TramerBoneh"]


@dataclass(frozen=True, kw_only=True)
class TramerBoneh(ImageDescription):
    """A convolutional network of Tramer and Boneh.

    Parameters
    ----------
    inputs : tuple of int
        Channels, height and width of an image.
    outputs : int
        Number of outputs.
    layers : tuple of tuple
        Convolutions (filters, kernel, stride, padding) and pools ("pool", kernel, stride), in order.
    hidden : tuple of int
        Units of each dense layer.
    groups : int
        Groups of the norm of the input channels; 0 for no norm.
    activation, tempered, pooling
        Name of the activation; scale, temperature and offset of the activation "tempered"; the kind of pools: "max" or
        "average".
    """

    name: ClassVar[str] = "tramer_boneh"

    layers: tuple[tuple[int | str, ...], ...]
    hidden: tuple[int, ...] = ()
    activation: str = "tanh"
    groups: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.layers, (list, tuple)) or not all(map(_is_layer, self.layers)):
            raise self._error("layers", 'a list of [filters, kernel, stride, padding] and ["pool", kernel, stride]')
        self._set("layers", tuple(tuple(layer) for layer in self.layers))
        self._check_counts("hidden")
        self._check_count("groups", least=0)
        self._check_groups("groups", self.inputs[0])
        flattened_size(self, self._stack())

    def _stack(self) -> tuple[ConvLayer, ...]:
        return tuple(
            Pool(*map(int, layer[1:])) if layer[0] == "pool" else Conv(*map(int, layer)) for layer in self.layers
        )

    def _module(self) -> nn.Module:
        from torch import nn

        network = build_stack(self, self._stack(), self.hidden)
        if not self.groups:
            return network
        norm = nn.GroupNorm(self.groups, self.inputs[0], affine=False)
        return nn.Sequential(OrderedDict([("norm", norm), *network.named_children()]))


def _is_layer(layer: Any) -> bool:
    if not isinstance(layer, (list, tuple)):
        return False
    if layer and layer[0] == "pool":
        return len(layer) == 3 and all(is_count(v, 1) for v in layer[1:])
    return len(layer) == 4 and all(is_count(v, 0) for v in layer) and min(layer[:3]) >= 1
