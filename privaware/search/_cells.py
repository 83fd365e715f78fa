"""Cells of DPNAS: as points of its space, and what many of them have in common.

>>> cell = ("selu",) + ("zero",) * 13 + ("max_pool",)
>>> point_of(cell)["edge_4_5"], cell_of(point_of(cell)) == cell
('max_pool', True)
>>> shares([cell])["activations"]["selu"], shares([cell])["pools"]
(1.0, {'max_pool': 1.0, 'average_pool': 0.0})
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from privaware.models.dpnas import OPERATIONS

__all__ = ["Cell", "cell_of", "chart", "edges", "point_of", "shares", "uniform"]

Cell = tuple[str, ...]

POOLS = ("max_pool", "average_pool")
ACTIVATIONS = OPERATIONS[4:]


def edges(nodes: int) -> list[tuple[int, int]]:
    """From where to where, in the order of a cell."""
    return [(start, end) for end in range(1, nodes + 1) for start in range(end)]


def point_of(cell: Cell) -> dict[str, str]:
    """The point of the space that builds this cell: a choice for each edge."""
    nodes = next(n for n in range(1, len(cell) + 1) if n * (n + 1) // 2 == len(cell))
    return {f"edge_{start}_{end}": op for (start, end), op in zip(edges(nodes), cell, strict=True)}


def cell_of(point: Mapping[str, Any]) -> Cell:
    """The cell that a point stands for."""
    return tuple(point.values())


def uniform(count: int, nodes: int, rng: np.random.Generator) -> list[Cell]:
    """Cells with every operation equally likely on every edge."""
    drawn = rng.integers(len(OPERATIONS), size=(count, len(edges(nodes))))
    return [tuple(OPERATIONS[op] for op in row) for row in drawn]


def shares(cells: Iterable[Cell]) -> dict[str, dict[str, float]]:
    """How often each operation occurs, each activation among the convolutions, and each pool among the pools."""
    counted = Counter(op for cell in cells for op in cell)
    kinds = {"operations": OPERATIONS, "activations": ACTIVATIONS, "pools": POOLS}
    return {
        kind: {op: counted[op] / max(sum(counted[other] for other in ops), 1) for op in ops}
        for kind, ops in kinds.items()
    }


def chart(cells: Iterable[Cell]) -> Any:
    """Figure 5 (a) and (b) of the paper for these cells, as an Altair chart."""
    import altair as alt
    import pandas as pd

    found = shares(cells)
    parts = []
    for kind in ("activations", "pools"):
        table = pd.DataFrame({"operation": list(found[kind]), "share": list(found[kind].values())})
        bars = alt.Chart(table, title=kind).mark_bar()
        axis = alt.Axis(format="%", title=None)
        parts.append(
            bars.encode(
                x=alt.X("operation:N", sort=None, title=None), y=alt.Y("share:Q", axis=axis)
            )
        )
    return alt.hconcat(*parts)
