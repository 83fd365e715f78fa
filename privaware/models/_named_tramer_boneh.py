"""The networks of Tramer and Boneh, from pixels and on scattering features."""

from __future__ import annotations

from typing import Any

from privaware.models._named_row import COLOUR, MNIST, Row

__all__ = ["ROWS"]

SCATTER_MNIST = [81, 7, 7]
"""Shape of the scattering features of MNIST."""

SCATTER_CIFAR = [243, 8, 8]
"""Shape of the scattering features of CIFAR-10."""


def network(inputs: list[int], layers: list[list[Any]], *hidden: int) -> dict[str, Any]:
    return {"name": "tramer_boneh", "inputs": inputs, "layers": layers, "hidden": list(hidden), "outputs": 10}


def conv3x3(*filters: int | str) -> list[list[Any]]:
    """Return 3 x 3 convolutions with the given numbers of filters; "M" stands for a 2 x 2 pool."""
    return [["pool", 2, 2] if f == "M" else [f, 3, 1, 1] for f in filters]


NETWORKS: list[Row] = [
    (
        "cnn.mnist",
        26_010,
        "Table 6 (Fashion-MNIST too)",
        network(MNIST, [[16, 8, 2, 2], ["pool", 2, 1], [32, 4, 2, 0], ["pool", 2, 1]], 32),
        "",
    ),
    ("cnn.cifar10", 550_570, "Table 7", network(COLOUR, conv3x3(32, 32, "M", 64, 64, "M", 128, 128, "M"), 128), ""),
    ("cnn.cifar10", 167_642, "Table 20 (small)", network(COLOUR, conv3x3(16, 16, "M", 32, 32, "M", 64, "M"), 128), ""),
    (
        "scatter_cnn.mnist",
        33_066,
        "Table 8 (Fashion-MNIST too)",
        network(SCATTER_MNIST, [[16, 3, 2, 1], [32, 3, 1, 1]], 32),
        "Without the two pools that the table prints: with them 20,778, but Table 4 says 33K.",
    ),
    (
        "scatter_cnn.cifar10",
        187_210,
        "Table 9",
        network(SCATTER_CIFAR, conv3x3(64, "M", 64)),
        "Without the second pool that the table prints: with it 179,530, but Table 4 says 187K.",
    ),
    (
        "scatter_cnn.cifar10",
        56_346,
        "Table 9 (small)",
        network(SCATTER_CIFAR, conv3x3(16, 16, "M", 32, 32)),
        "The paper gives its filters only, no count; the pool's place and the head are inferred.",
    ),
    ("linear.mnist", 39_700, "Table 4", network(SCATTER_MNIST, []), "Scattering features; bias."),
    ("linear.cifar10", 155_530, "Table 4", network(SCATTER_CIFAR, []), "Scattering features; bias."),
]

ROWS: list[Row] = [
    (f"tramer_boneh.{name}", parameters, f"Tramer and Boneh, {table}", description, note)
    for name, parameters, table, description, note in NETWORKS
]
