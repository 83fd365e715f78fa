"""All cells of DPNAS in one network: every edge holds each of its operations, and `cell` says which of them run.

The parameters of an operation belong to its edge, whatever cell is sampled, so training one cell trains a part of every
other. What is not in the sampled cell is neither computed nor differentiated.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from privaware.models._cell import Cell, Graph
from privaware.models._description import seeded
from privaware.models._layers import he_normal

if TYPE_CHECKING:
    from privaware.models.dpnas import Dpnas

__all__ = ["SharedCell", "Supernet", "shared_network"]

Cells = tuple[str, ...] | None


class SharedCell(Graph):
    """The graph of one stage; each edge is a dictionary of operations (none for zero)."""

    def __init__(self, entry: nn.Module, edges: list[dict[str, nn.Module]], nodes: int, short: bool) -> None:
        super().__init__(entry, nodes, short)
        self.edges = nn.ModuleList(nn.ModuleDict(edge) for edge in edges)

    def forward(self, x: Tensor, cell: Cells) -> Tensor:
        """The nodes side by side; without a cell every edge is the sum of all its operations."""
        chosen = []
        for at, (start, end) in enumerate(self._ends()):
            edge: Any = self.edges[at]
            kinds = list(edge) if cell is None else [cell[at]]
            chosen += [(start, end, edge[op]) for op in kinds if op != "zero"]
        return self.summed(self.entry(x), chosen)

    def _ends(self) -> list[tuple[int, int]]:
        return [(start, end) for end in range(1, self.nodes + 1) for start in range(end)]

    def of(self, cell: tuple[str, ...]) -> Cell:
        """The cell as the plain network has it, made of the same layers."""
        chosen = [
            (start, end, edge[op])  # type: ignore[index]
            for (start, end), edge, op in zip(self._ends(), self.edges, cell, strict=True)
            if op != "zero"
        ]
        return Cell(self.entry, chosen, self.nodes, self.short)


class Supernet(nn.Module):
    """The network of `description` for every cell at once; `cell` is the one that runs, None runs everything.

    The description's own cell only says how many nodes there are.
    """

    def __init__(self, description: Dpnas) -> None:
        super().__init__()
        plain = replace(description, cell=("linear",) * len(description.cell))._module()
        parts = dict(plain.named_children())
        stages: list[Any] = list(parts["stages"].children())
        self.stem = parts["stem"]
        self.cells = nn.ModuleList(
            SharedCell(stage.entry, _edges(description, channels), stage.nodes, stage.short)
            for stage, channels in zip(stages[::2], description.channels, strict=True)
        )
        self.pool = stages[1]
        self.head = nn.Sequential(OrderedDict(list(parts.items())[2:]))
        self.cell: Cells = None
        he_normal(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for shared in self.cells:
            x = self.pool(shared(x, self.cell))
        out: Tensor = self.head(x)
        return out

    def network(self, cell: tuple[str, ...]) -> nn.Sequential:
        """The network of one cell: its layers, and so its parameters, are the supernet's own."""
        cells: list[Any] = list(self.cells)
        stages = [part for shared in cells for part in (shared.of(cell), self.pool)]
        head = self.head.named_children()
        return nn.Sequential(OrderedDict([("stem", self.stem), ("stages", nn.Sequential(*stages)), *head]))

    def places(self) -> dict[str, tuple[int, str] | None]:
        """For each parameter the edge and operation it belongs to; None for what every cell uses."""
        found: dict[str, tuple[int, str] | None] = {}
        for name, _ in self.named_parameters():
            words = name.split(".")
            own = words[0] == "cells" and words[2] == "edges"
            found[name] = (int(words[3]), words[4]) if own else None
        return found


def _edges(description: Dpnas, channels: int) -> list[dict[str, nn.Module]]:
    from privaware.models.dpnas import OPERATIONS

    kinds = OPERATIONS[1:]
    return [{op: description._operation(op, channels) for op in kinds} for _ in description.cell]


def shared_network(description: Dpnas, rng: Any) -> Supernet:
    """A supernet whose initial weights are drawn from `rng`."""
    with seeded(rng):
        return Supernet(description)
