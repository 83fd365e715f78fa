"""The cell of DPNAS, and the network with shared weights that contains every cell."""

from __future__ import annotations


def edge_ends(nodes: int) -> list[tuple[int, int]]:
    """Return (start node, end node) of every edge of a cell, in the order in which a cell lists its operations.

    Node 0 is the entry, and 1 to `nodes` follow. There is an edge from each node to every later one: (0, 1), (0, 2),
    (1, 2), (0, 3) and so on.
    """
    return [(start, end) for end in range(1, nodes + 1) for start in range(end)]
