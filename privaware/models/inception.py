"""A small Inception network: five blocks of parallel branches, every convolution with a group norm.

`pooling` is the kind of the pool before block A and of the pools in blocks B and D; the pools in blocks A, C and E and
the global pool always average.

Paper: DPMLBench, Tables 15 and 17. The paper counts 1.97M parameters. The authors' code, followed here, gives 1,609,690
on colour images, and Table 17 taken literally (one 7 x 7 branch in block C) gives 1,460,506: neither is 1.97M.
Privacy: no cost of its own; no layer mixes rows.
Use when: comparing with DPMLBench.

>>> from privaware.models import count
>>> count(Inception(inputs=(3, 32, 32), outputs=10))
1609690
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privaware.models._description import ImageDescription, output_size

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Inception"]

# A block is a list of branches. A branch is a pool or "", then convolutions (filters, kernel, stride, padding).
# The pool "keep" is a 3 x 3 average of stride 1, and "reduce" a 3 x 3 pool of stride 2.
A = (
    ("", (32, 1, 1, 0)),
    ("", (24, 1, 1, 0), (32, 5, 1, 2)),
    ("", (32, 1, 1, 0), (48, 3, 1, 1), (48, 3, 1, 1)),
    ("keep", (16, 1, 1, 0)),
)
B = (("", (96, 3, 2, 0)), ("", (32, 1, 1, 0), (48, 3, 1, 1), (48, 3, 2, 0)), ("reduce",))
C = (
    ("", (48, 1, 1, 0)),
    ("", (48, 1, 1, 0), (48, 7, 1, 3)),
    ("", (48, 1, 1, 0), (48, 7, 1, 3), (48, 7, 1, 3)),
    ("keep", (48, 1, 1, 0)),
)
D = (("", (48, 1, 1, 0), (96, 3, 2, 0)), ("", (96, 1, 1, 0), (96, 7, 1, 3), (96, 3, 2, 0)), ("reduce",))
E = (
    ("", (80, 1, 1, 0)),
    ("", (96, 1, 1, 0), (96, 3, 1, 1)),
    ("", (112, 1, 1, 0), (96, 3, 1, 1), (96, 3, 1, 1)),
    ("keep", (48, 1, 1, 0)),
)

Branch = tuple[str | tuple[int, int, int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Inception(ImageDescription):
    """A small Inception network.

    Parameters
    ----------
    inputs : tuple of int
        Channels, height and width of an image.
    outputs : int
        Number of outputs.
    groups : int
        Groups of the group norms, which have weights.
    dropout : float
        Dropout rate before the output.
    activation, tempered, pooling
        Name of the activation; scale, temperature and offset of the activation "tempered"; the kind of the pools before
        block A and in blocks B and D: "max" or "average".
    """

    name: ClassVar[str] = "inception"

    groups: int = 4
    dropout: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_count("groups")
        self._check_groups("groups", 16, 24, 32, 48, 80, 96, 112)
        self._check_fraction("dropout")
        side = min(self.inputs[1:])
        if output_size(output_size(side - 3, 3, 2), 3, 2) < 1:
            raise self._error("inputs", "images of at least 10 x 10")

    def _module(self) -> nn.Module:
        from torch import nn

        from privaware.models._layers import pool

        layers: list[tuple[str, nn.Module]] = [
            ("conv1", self._conv(self.inputs[0], (32, 3, 1, 0))),
            ("conv2", self._conv(32, (32, 3, 1, 1))),
            ("pool", pool(self.pooling, 2, 1)),
        ]
        channels = 32
        for name, block in zip("ABCDE", (A, B, C, D, E)):
            module, channels = self._block(channels, block)
            layers.append((f"block{name}", module))
        layers += [("last_pool", nn.AdaptiveAvgPool2d(1)), ("flatten", nn.Flatten())]
        if self.dropout:
            layers.append(("dropout", nn.Dropout(self.dropout)))
        layers.append(("output", nn.Linear(channels, self.outputs)))
        return nn.Sequential(OrderedDict(layers))

    def _conv(self, channels: int, conv: tuple[int, int, int, int]) -> nn.Module:
        from torch import nn

        filters, kernel, stride, padding = conv
        return nn.Sequential(
            nn.Conv2d(channels, filters, kernel, stride, padding, bias=False),
            nn.GroupNorm(self.groups, filters, eps=1e-3),
            self._activation(),
        )

    def _block(self, channels: int, block: tuple[Branch, ...]) -> tuple[nn.Module, int]:
        """Return (module, number of output channels) of one of the blocks A to E for inputs of `channels` channels.

        `block` has one entry for each parallel branch: its pool, then its convolutions as (filters, kernel, stride,
        padding). The pool is "keep" (3 x 3 average, stride 1), "reduce" (3 x 3, stride 2) or "" (none). Outputs of
        branches are concatenated along the channels.
        """
        from privaware.models._layers import Branches

        branches = [self._branch(channels, branch) for branch in block]
        return Branches(*(branch for branch, _ in branches)), sum(width for _, width in branches)

    def _branch(self, channels: int, branch: Branch) -> tuple[nn.Module, int]:
        from torch import nn

        from privaware.models._layers import pool

        layers: list[nn.Module] = []
        if branch[0] == "keep":
            layers.append(nn.AvgPool2d(3, 1, 1))
        elif branch[0] == "reduce":
            layers.append(pool(self.pooling, 3, 2))
        for conv in branch[1:]:
            assert not isinstance(conv, str)
            layers.append(self._conv(channels, conv))
            channels = conv[0]
        return nn.Sequential(*layers), channels
