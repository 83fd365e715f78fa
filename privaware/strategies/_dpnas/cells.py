"""Cells of DPNAS and their conversion to points of the search space.

>>> cell = ("selu",) + ("zero",) * 13 + ("max_pool",)
>>> point_of(cell)["edge_4_5"]
'max_pool'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.models._dpnas import edge_ends
from privaware.models.dpnas import OPERATIONS

if TYPE_CHECKING:
    from privaware.strategies._dpnas.controller import Controller

Cell = tuple[str, ...]
"""The names of the operations of a cell, in the order of `edge_ends`."""


@dataclass(frozen=True, kw_only=True)
class CellSearchResult:
    """The result of a DPNAS search: the chosen `cell` with its `score`, and the controller.

    `cells` are all cells that were scored at the end, and `scores` their scores in the same order. Scores are noisy
    accuracies on the validation rows; on public rows they are exact.
    """

    cell: Cell
    score: float
    cells: tuple[Cell, ...]
    scores: tuple[float, ...]
    controller: Controller = field(repr=False)

    @property
    def point(self) -> dict[str, str]:
        """The chosen cell as a point of the space `dpnas`: the name of an operation for each choice "edge_FROM_TO"."""
        return point_of(self.cell)

    def proposals(self, count: int, rng: np.random.Generator) -> list[Cell]:
        """Return `count` more cells, sampled from the controller."""
        import torch

        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        with torch.no_grad():
            return cells_from_indices(self.controller(count, generator).cells)


def cells_from_indices(indices: Any) -> list[Cell]:
    """Return cells as names of operations, from a matrix (cells, edges) of indices into `OPERATIONS`."""
    return [tuple(OPERATIONS[op] for op in row) for row in indices.tolist()]


def point_of(cell: Cell) -> dict[str, str]:
    """Return the point of the search space for `cell`: the operation's name for each choice "edge_FROM_TO"."""
    nodes = next(n for n in range(1, len(cell) + 1) if n * (n + 1) // 2 == len(cell))
    return {f"edge_{start}_{end}": op for (start, end), op in zip(edge_ends(nodes), cell, strict=True)}


def uniform_cells(count: int, nodes: int, rng: np.random.Generator) -> list[Cell]:
    """Return `count` random cells of `nodes` nodes, in which every operation is equally likely on every edge."""
    return cells_from_indices(rng.integers(len(OPERATIONS), size=(count, len(edge_ends(nodes)))))
