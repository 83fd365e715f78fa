"""The supernet of DPNAS: every edge has all operations with shared weights, and `cell` selects those that run.

The parameters of an operation belong to its edge, whatever cell is sampled, so training one cell trains a part of every
other cell. Operations outside the sampled cell are neither computed nor differentiated.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from privaware.models._description import seeded
from privaware.models._dpnas import edge_ends
from privaware.models._dpnas.cell_graph import Cell, CellGraph
from privaware.models._layers import he_normal

if TYPE_CHECKING:
    from privaware.models.dpnas import Dpnas

Cells = tuple[str, ...] | None
"""The name of the operation of each edge, in the order of `edge_ends`; None for all operations on every edge."""


class SharedCell(CellGraph):
    """The cell of one stage of the supernet, where each edge has a layer for every operation.

    `edges` has one dictionary {name of an operation: its layer} for each edge, in the order of `edge_ends(nodes)`. It
    has no entry for the operation "zero", which contributes nothing. The output of the layer `entry` is node 0, and
    `nodes` nodes follow. With `bf16` the GPU kernels may store nodes as BF16.
    """

    def __init__(self, entry: nn.Module, edges: list[dict[str, nn.Module]], nodes: int, bf16: bool) -> None:
        super().__init__(entry, nodes, bf16)
        self.edges = nn.ModuleList(nn.ModuleDict(edge) for edge in edges)

    def forward(self, x: Tensor, cell: Cells) -> Tensor:
        """Return nodes 1 to `self.nodes` for the input `x`, concatenated along the channels.

        `cell` names the operation that runs on each edge; if it is None, an edge is the sum of all its operations.
        """
        chosen = []
        for at, (start, end) in enumerate(edge_ends(self.nodes)):
            edge: Any = self.edges[at]
            kinds = list(edge) if cell is None else [cell[at]]
            chosen += [(start, end, edge[op]) for op in kinds if op != "zero"]
        return self.node_outputs(self.entry(x), chosen)

    def extract(self, cell: tuple[str, ...]) -> Cell:
        """Return a `Cell` with the operation that `cell` names for each edge; it shares its layers with this module."""
        chosen = [
            (start, end, edge[op])  # type: ignore[index]
            for (start, end), edge, op in zip(edge_ends(self.nodes), self.edges, cell, strict=True)
            if op != "zero"
        ]
        return Cell(self.entry, chosen, self.nodes, self.bf16)


class Supernet(nn.Module):
    """The network that `description` describes, but with a layer for every operation on every edge of its cells.

    The attribute `cell` names the operation that runs on each edge. If `cell` is None, its initial value, the output of
    an edge is the sum of the outputs of all its operations. Of `description.cell` only the length, which is the number
    of edges, is used.
    """

    def __init__(self, description: Dpnas) -> None:
        super().__init__()
        network = replace(description, cell=("linear",) * len(description.cell))._module()
        parts = dict(network.named_children())
        stages: list[Any] = list(parts["stages"].children())
        self.stem = parts["stem"]
        self.cells = nn.ModuleList(
            SharedCell(stage.entry, _edges(description, channels), stage.nodes, stage.bf16)
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
        return self.head(x)

    def network(self, cell: tuple[str, ...]) -> nn.Sequential:
        """Return the stand-alone network with the operations named by `cell`; it shares layers with the supernet."""
        cells: list[Any] = list(self.cells)
        stages = [part for shared in cells for part in (shared.extract(cell), self.pool)]
        head = self.head.named_children()
        return nn.Sequential(OrderedDict([("stem", self.stem), ("stages", nn.Sequential(*stages)), *head]))

    def parameter_edges(self) -> dict[str, tuple[int, str] | None]:
        """Return, for the name of each parameter, (number of its edge, name of its operation).

        Edges are numbered in the order of `edge_ends`, in the same way in every stage. The value is None for a
        parameter that belongs to no edge, which every cell uses.
        """
        edges: dict[str, tuple[int, str] | None] = {}
        for name, _ in self.named_parameters():
            words = name.split(".")
            on_edge = words[0] == "cells" and words[2] == "edges"
            edges[name] = (int(words[3]), words[4]) if on_edge else None
        return edges


def _edges(description: Dpnas, channels: int) -> list[dict[str, nn.Module]]:
    from privaware.models.dpnas import OPERATIONS

    kinds = OPERATIONS[1:]
    return [{op: description._operation(op, channels) for op in kinds} for _ in description.cell]


def shared_network(description: Dpnas, rng: Any) -> Supernet:
    """Return the supernet of `description` with initial weights from `rng`, or from entropy if `rng` is None."""
    with seeded(rng):
        return Supernet(description)
