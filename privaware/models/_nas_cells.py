"""The modules of the family `nas_cells`: cells with two inputs, their chain, and their operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from privaware.models._dpnas.cell_graph import Edge, node_states
from privaware.models._layers import Branches, group_norm


class SearchedCell(nn.Module):
    """A cell of a network found by architecture search; it reads the outputs of the two cells before it.

    `forward(before, previous)` takes the output of the last cell but one, then of the last cell. The two layers
    `entries` turn them into nodes 0 and 1. Each edge is (start node, end node, operation), in the order of end nodes;
    several edges may join the same two nodes. A later node is the sum of its edges. The result is the concatenation,
    along the channels, of the nodes numbered in `output`.
    """

    def __init__(self, entries: Sequence[nn.Module], edges: Sequence[Edge], output: Sequence[int]) -> None:
        super().__init__()
        self.entries, self.output = nn.ModuleList(entries), tuple(output)
        self.ends = [(start, end) for start, end, _ in edges]
        self.operations = nn.ModuleList(op for _, _, op in edges)

    def forward(self, before: Tensor, previous: Tensor) -> Tensor:
        first = [entry(x) for entry, x in zip(self.entries, (before, previous), strict=True)]
        edges = [(*ends, op) for ends, op in zip(self.ends, self.operations, strict=True)]
        states = node_states(first, edges, self.ends[-1][1] - 1)
        return torch.cat([states[node] for node in self.output], dim=1)


class CellChain(nn.Module):
    """Cells one after another, each of which reads the outputs of the last cell but one and of the last cell.

    The first cell reads the input of the chain twice, and the second cell reads this input and the output of the first.
    """

    def __init__(self, cells: Sequence[nn.Module]) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)

    def forward(self, x: Tensor) -> Tensor:
        before = previous = x
        for cell in self.cells:
            before, previous = previous, cell(before, previous)
        return previous


@dataclass(frozen=True)
class Layers:
    """Makes the layers of a network; `activation` returns a new activation, and norms have at most `groups` groups."""

    activation: Callable[[], nn.Module]
    groups: int

    def entry(self, channels: int, filters: int, halves: bool) -> nn.Module:
        """Return activation, 1 x 1 convolution from `channels` to `filters` channels and norm.

        With `halves`, height and width are halved: half of the filters read the even pixels, the other filters the odd
        pixels.
        """
        if not halves:
            conv: nn.Module = nn.Conv2d(channels, filters, 1, bias=False)
        else:
            even = nn.Conv2d(channels, filters // 2, 1, 2, bias=False)
            odd = nn.Conv2d(channels, filters - filters // 2, 1, 2, bias=False)
            conv = Branches(even, nn.Sequential(nn.ZeroPad2d((-1, 0, -1, 0)), odd))  # negative padding crops
        return nn.Sequential(self.activation(), conv, group_norm(self.groups, filters))

    def operation(self, op: str, channels: int, stride: int) -> nn.Module:
        """Return the layers of the operation called `op` on `channels` channels; n below is the side of the filters.

        - "identity": nothing, or with stride 2 `entry`, which halves height and width.
        - "max_pool", "average_pool": a 3 x 3 pool with `stride`.
        - "separable_n": two n x n separable convolutions, the first with `stride`.
        - "dilated_n": one n x n separable convolution with dilation 2.
        - "strips_n": a 1 x n and an n x 1 convolution, together with `stride`.
        """
        kind, _, size = op.rpartition("_")
        if op == "identity":
            return nn.Identity() if stride == 1 else self.entry(channels, channels, True)
        if op == "max_pool":
            return nn.MaxPool2d(3, stride, 1)
        if op == "average_pool":
            return nn.AvgPool2d(3, stride, 1, count_include_pad=False)
        if kind == "strips":
            return self._strips(channels, int(size), stride)
        if kind == "dilated":
            return nn.Sequential(*self._separable(channels, int(size), stride, dilation=2))
        first, second = (self._separable(channels, int(size), step) for step in (stride, 1))
        return nn.Sequential(*first, *second)

    def _separable(self, channels: int, size: int, stride: int, dilation: int = 1) -> list[nn.Module]:
        """Return a list: activation, depth-wise `size` x `size` convolution with `stride`, 1 x 1 convolution, norm."""
        padding = dilation * (size // 2)
        return [
            self.activation(),
            nn.Conv2d(channels, channels, size, stride, padding, dilation, groups=channels, bias=False),
            nn.Conv2d(channels, channels, 1, bias=False),
            group_norm(self.groups, channels),
        ]

    def _strips(self, channels: int, size: int, stride: int) -> nn.Module:
        """Return activation, a convolution with 1 x `size` filters, one with `size` x 1 filters, and a norm.

        The first convolution has `stride` along the width, the second along the height.
        """
        return nn.Sequential(
            self.activation(),
            nn.Conv2d(channels, channels, (1, size), (1, stride), (0, size // 2), bias=False),
            nn.Conv2d(channels, channels, (size, 1), (stride, 1), (size // 2, 0), bias=False),
            group_norm(self.groups, channels),
        )
