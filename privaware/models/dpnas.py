"""The network of DPNAS for one cell: a stem, three stages of a cell and a pool, and a dense head.

A cell is a fully connected directed graph of five nodes after an entry (a 1 x 1 convolution). Each of its 15 edges, in
the order (0,1), (0,2), (1,2), (0,3), ... (4,5), has one of ten operations, by name or by number from 0 in this order:
zero, max_pool, average_pool, identity, and depth-wise 3 x 3 convolutions with group norm and the activation relu, selu,
tanh, linear, hardtanh or sigmoid. A node is the sum of the edges that end in it, and the output of a cell is the
concatenation of the nodes after the entry. Every stage has the same cell.

Paper: Cheng et al., DPNAS. The paper does not say that the convolutions are depth-wise, but only depth-wise
convolutions give the reported sizes (529,434 for CIFAR-10, 213,418 for MNIST). Pools between stages are 2 x 2 as in the
authors' code; the paper says 3 x 3.
Privacy: no cost of its own; no layer mixes rows. Searching a cell on private rows has its own cost.
Use when: rows are images of 28 x 28 or 32 x 32 and a cell is known.

>>> from privaware.models import count
>>> cell = (5, 1, 5, 6, 1, 0, 5, 0, 0, 3, 5, 5, 6, 1, 6)
>>> count(Dpnas(inputs=(3, 32, 32), outputs=10, cell=cell, channels=(48, 96, 192), activation="selu"))
529434
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from privaware.models._description import ImageDescription, is_count

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Dpnas", "OPERATIONS"]

OPERATIONS = ("zero", "max_pool", "average_pool", "identity", "relu", "selu", "tanh", "linear", "hardtanh", "sigmoid")
"""Names of the operations of an edge, in the order of their numbers."""


@dataclass(frozen=True, kw_only=True)
class Dpnas(ImageDescription):
    """The network of DPNAS for one cell.

    Parameters
    ----------
    inputs : tuple of int
        Channels, height and width of an image.
    outputs : int
        Number of outputs.
    cell : tuple
        The operation of each edge, by name or by number: 15 for five nodes, or 1, 3, 6 or 10 for fewer nodes.
    channels : tuple of int
        Channels of a node in each stage, one number for each stage; the stem has the channels of the first stage.
    squeeze, hidden : int
        Channels after the last stage, and units of the dense layer.
    groups : int
        Groups of the group norms.
    activation, tempered, pooling
        Name of the activation of the head; scale, temperature and offset of the activation "tempered"; the kind of
        pools between stages: "max" or "average".
    """

    name: ClassVar[str] = "dpnas"

    cell: tuple[str | int, ...]
    channels: tuple[int, ...] = (32, 32, 64)
    squeeze: int = 128
    hidden: int = 128
    groups: int = 8
    activation: str = "tanh"

    def __post_init__(self) -> None:
        super().__post_init__()
        nodes = _nodes(self.cell)
        if not nodes:
            known = ", ".join(OPERATIONS)
            raise self._error("cell", f"1, 3, 6, 10 or 15 of the operations {known}, or 0 to 9")
        self._set("cell", tuple(op if isinstance(op, str) else OPERATIONS[op] for op in self.cell))
        self._check_counts("channels")
        self._check_count("squeeze")
        self._check_count("hidden")
        self._check_count("groups")
        self._check_groups("groups", *self.channels, self.squeeze)
        if not self.channels or min(self.inputs[1:]) < 2 ** len(self.channels):
            raise self._error("channels", "at least one number, and at most one for each time the image can be halved")

    def _module(self) -> nn.Module:
        from torch import nn

        from privaware.models._dpnas.cell_graph import MaxPool2x2
        from privaware.models._layers import he_normal, pool

        stages: list[nn.Module] = []
        entering = self.channels[0]
        for channels in self.channels:
            halving = MaxPool2x2() if self.pooling == "max" else pool(self.pooling, 2, 2)
            stages += [self._cell(entering, channels), halving]
            entering = channels * _nodes(self.cell)
        _, height, width = self.inputs
        left = (height >> len(self.channels)) * (width >> len(self.channels))
        network = nn.Sequential(
            OrderedDict(
                stem=self._conv(self.inputs[0], self.channels[0], 3),
                stages=nn.Sequential(*stages),
                squeeze=self._conv(entering, self.squeeze, 1),
                flatten=nn.Flatten(),
                dense=nn.Linear(self.squeeze * left, self.hidden),
                activation=self._activation(),
                output=nn.Linear(self.hidden, self.outputs),
            )
        )
        he_normal(network)
        return network

    def _conv(self, channels: int, filters: int, kernel: int, depthwise: bool = False) -> nn.Sequential:
        from torch import nn

        from privaware.models._dpnas.cell_graph import PlainGroupNorm

        groups = channels if depthwise else 1
        conv = nn.Conv2d(channels, filters, kernel, padding=kernel // 2, groups=groups, bias=False)
        return nn.Sequential(conv, PlainGroupNorm(self.groups, filters))

    def _cell(self, entering: int, channels: int) -> nn.Module:
        from privaware.models._dpnas import edge_ends
        from privaware.models._dpnas.cell_graph import Cell

        nodes = _nodes(self.cell)
        edges = [
            (start, end, self._operation(str(op), channels))
            for (start, end), op in zip(edge_ends(nodes), self.cell)
            if op != "zero"
        ]
        # On small images rounding to BF16 would not average out, and memory is not the bottleneck.
        bf16 = self.pooling == "max" and min(self.inputs[1:]) >= 16
        return Cell(self._conv(entering, channels, 1), edges, nodes, bf16)

    def _operation(self, op: str, channels: int) -> nn.Module:
        from torch import nn

        from privaware.models._layers import activation, pool

        if op == "identity":
            return nn.Identity()
        if op in ("max_pool", "average_pool"):
            return pool(op.removesuffix("_pool"), 3, 1, 1)
        conv = self._conv(channels, channels, 3, depthwise=True)
        return conv if op == "linear" else conv.append(activation(op, self.tempered))


def _nodes(cell: Any) -> int:
    """Return the number of nodes after the entry; 0 if `cell` is no list of 1, 3, 6, 10 or 15 known operations."""
    if not isinstance(cell, (list, tuple)):
        return 0
    if not all(op in OPERATIONS or (is_count(op, 0) and op < len(OPERATIONS)) for op in cell):
        return 0
    return {n * (n + 1) // 2: n for n in range(1, 6)}.get(len(cell), 0)
