"""The cell of DPNAS, and the network with shared weights that contains every cell."""

from __future__ import annotations

__all__ = ["edge_ends"]


def edge_ends(nodes: int) -> list[tuple[int, int]]:
    """Return (start node, end node) of every edge of a cell, in the order of its operations; node 0 is the entry."""
    return [(start, end) for end in range(1, nodes + 1) for start in range(end)]
