"""The modules of the family `nas_cells`: cells with two inputs, their chain, and their operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from privaware.models._dpnas.cell_graph import Edge, node_states
from privaware.models._layers import Branches, group_norm

__all__ = ["CellChain", "Layers", "SearchedCell"]


class SearchedCell(nn.Module):
    """A cell that reads the outputs of the two cells before it; its output is the concatenation of the nodes `output`.

    `entries` are the two layers that turn these outputs into nodes 0 and 1. Several edges may join the same two nodes.
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
    """Cells one after another; each reads the outputs of the two before it, and the first reads the input twice."""

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
        """Return activation, 1 x 1 convolution and norm; with `halves` height and width are halved.

        To halve them, half of the filters read the even pixels, and the others the odd pixels.
        """
        if not halves:
            conv: nn.Module = nn.Conv2d(channels, filters, 1, bias=False)
        else:
            even = nn.Conv2d(channels, filters // 2, 1, 2, bias=False)
            odd = nn.Conv2d(channels, filters - filters // 2, 1, 2, bias=False)
            conv = Branches(even, nn.Sequential(nn.ZeroPad2d((-1, 0, -1, 0)), odd))  # negative padding crops
        return nn.Sequential(self.activation(), conv, group_norm(self.groups, filters))

    def operation(self, op: str, channels: int, stride: int) -> nn.Module:
        """Return the layers of an operation such as "separable_3" on `channels` channels."""
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
        """Return activation, depth-wise convolution, 1 x 1 convolution and norm."""
        padding = dilation * (size // 2)
        return [
            self.activation(),
            nn.Conv2d(channels, channels, size, stride, padding, dilation, groups=channels, bias=False),
            nn.Conv2d(channels, channels, 1, bias=False),
            group_norm(self.groups, channels),
        ]

    def _strips(self, channels: int, size: int, stride: int) -> nn.Module:
        """Return activation, a convolution with 1 x `size` filters, one with `size` x 1 filters, and a norm."""
        return nn.Sequential(
            self.activation(),
            nn.Conv2d(channels, channels, (1, size), (1, stride), (0, size // 2), bias=False),
            nn.Conv2d(channels, channels, (size, 1), (stride, 1), (size // 2, 0), bias=False),
            group_norm(self.groups, channels),
        )
