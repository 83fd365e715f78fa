"""Networks of the cells that DARTS, NASNet and AmoebaNet found by search without privacy, with group norm.

A stem is followed by `depth` cells, a global pool and the output. A cell reads the outputs of the two cells before it.
Each node of a cell is the sum of two operations on these outputs or on earlier nodes, and the output of a cell is the
concatenation of some of its nodes. All cells have the same structure, except two reduction cells after one and two
thirds of the depth, which halve the image and double the channels.

Paper: Liu et al. 2019, DARTS (cells of the second-order search); Zoph et al. 2018, NASNet-A; Real et al. 2019,
AmoebaNet-A, with the edges that the authors of DARTS compare with; the code of the AmoebaNet authors has other ones.
The layers around the cells are as in DARTS. Group norms with weights stand in place of batch norms, so the number of
parameters stays the published one. Auxiliary outputs and drop-path are left out. Cheng et al., DPNAS, Table 2, train
these networks with DP-SGD, but print neither their layers nor their normalisation.
Privacy: no cost of its own; no layer mixes rows.
Use when: comparing with Table 2 of DPNAS.

>>> from privaware.models import count
>>> count(NasCells(inputs=(3, 32, 32), outputs=10, cells="darts"))
3349342
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privaware.models._description import ImageDescription

if TYPE_CHECKING:
    from torch import nn

__all__ = ["NasCells"]

NODES = {
    "darts": "separable_3 0 separable_3 1 | separable_3 0 separable_3 1 | separable_3 1 identity 0"
    " | identity 0 dilated_3 2",
    "darts_reduction": "max_pool 0 max_pool 1 | identity 2 max_pool 1 | max_pool 0 identity 2 | identity 2 max_pool 1",
    "nasnet_a": "separable_5 1 separable_3 0 | separable_5 0 separable_3 0 | average_pool 1 identity 0"
    " | average_pool 0 average_pool 0 | separable_3 1 identity 1",
    "nasnet_a_reduction": "separable_5 1 separable_7 0 | max_pool 1 separable_7 0 | average_pool 1 separable_5 0"
    " | identity 3 average_pool 2 | separable_3 2 max_pool 1",
    "amoebanet_a": "average_pool 0 max_pool 1 | separable_3 0 separable_5 2 | separable_3 0 average_pool 3"
    " | separable_3 1 identity 1 | identity 0 average_pool 1",
    "amoebanet_a_reduction": "average_pool 0 separable_3 1 | max_pool 0 separable_7 2 | separable_7 0 average_pool 1"
    " | max_pool 0 max_pool 1 | strips_7 0 separable_3 5",
}
"""The two operations of each node from node 2 on, each followed by the number of the node that it reads.

Nodes 0 and 1 are the outputs of the last cell but one and of the last cell. "_reduction" marks the cells that halve the
image.
"""
OUTPUT = {
    "darts": (2, 3, 4, 5),
    "darts_reduction": (2, 3, 4, 5),
    "nasnet_a": (0, 2, 3, 4, 5, 6),
    "nasnet_a_reduction": (3, 4, 5, 6),
    "amoebanet_a": (4, 5, 6),
    "amoebanet_a_reduction": (3, 4, 6),
}
"""The numbers of the nodes that are concatenated along the channels to the output of a cell."""


@dataclass(frozen=True, kw_only=True)
class NasCells(ImageDescription):
    """A network of repeated cells that a published search found.

    Parameters
    ----------
    inputs : tuple of int
        Channels, height and width of an image; height and width are multiples of 4, from 8 on.
    outputs : int
        Number of outputs.
    cells : str
        The cells: "darts", "nasnet_a" or "amoebanet_a".
    channels : int
        Channels of each node before the first reduction; the stem has three times as many.
    depth : int
        Number of cells, including the two reduction cells.
    groups : int
        Largest number of groups of a group norm; the greatest common divisor of `groups` and the channels is taken.
    activation, tempered, pooling
        Name of the activation before each convolution; scale, temperature and offset of the activation "tempered"; the
        kind of the global pool: "max" or "average".
    """

    name: ClassVar[str] = "nas_cells"

    cells: str
    channels: int = 36
    depth: int = 20
    groups: int = 8
    pooling: str = "average"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_choice("cells", ("darts", "nasnet_a", "amoebanet_a"))
        self._check_count("channels", least=2)
        self._check_count("depth", least=3)
        self._check_count("groups")
        if any(size % 4 or size < 8 for size in self.inputs[1:]):
            raise self._error("inputs", "channels, height and width, the last two as multiples of 4 from 8 on")

    def _module(self) -> nn.Module:
        from torch import nn

        from privaware.models._layers import global_pool, group_norm
        from privaware.models._nas_cells import CellChain, Layers, SearchedCell

        layers, cells = Layers(self._activation, self.groups), list[nn.Module]()
        channels, halved = self.channels, False
        before = previous = 3 * channels
        for at in range(self.depth):
            halves = at in (self.depth // 3, 2 * self.depth // 3)
            channels *= 2 if halves else 1
            kind = f"{self.cells}_reduction" if halves else self.cells
            words = NODES[kind].replace("|", "").split()
            edges = [
                (start, 2 + edge // 2, layers.operation(op, channels, 2 if halves and start < 2 else 1))
                for edge, (op, start) in enumerate(zip(words[::2], map(int, words[1::2]), strict=True))
            ]
            entries = (layers.entry(before, channels, halved), layers.entry(previous, channels, False))
            cells.append(SearchedCell(entries, edges, OUTPUT[kind]))
            before, previous, halved = previous, channels * len(OUTPUT[kind]), halves
        stem = nn.Conv2d(self.inputs[0], 3 * self.channels, 3, padding=1, bias=False)
        return nn.Sequential(
            OrderedDict(
                stem=nn.Sequential(stem, group_norm(self.groups, 3 * self.channels)),
                cells=CellChain(cells),
                pool=global_pool(self.pooling),
                flatten=nn.Flatten(),
                output=nn.Linear(previous, self.outputs),
            )
        )
