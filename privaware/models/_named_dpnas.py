"""The networks of DPNAS, with the cells of the authors' code."""

from __future__ import annotations

from typing import Any

from privaware.models._named_row import COLOUR, MNIST, Row

__all__ = ["ROWS"]

CELLS = {
    "cifar10": [5, 1, 5, 6, 1, 0, 5, 0, 0, 3, 5, 5, 6, 1, 6],
    "mnist": [5, 6, 3, 0, 5, 4, 0, 6, 0, 3, 1, 0, 1, 1, 4],
    "fashion_mnist": [3, 0, 5, 4, 5, 3, 0, 0, 6, 3, 5, 6, 1, 4, 1],
}
"""The authors' searched cells, as numbers of operations."""


def dpnas(data: str, **more: Any) -> dict[str, Any]:
    inputs = COLOUR if data == "cifar10" else MNIST
    return {"name": "dpnas", "inputs": inputs, "outputs": 10, "cell": CELLS[data], **more}


DEPTHWISE = "Cell of the authors' code; depth-wise convolutions are inferred from the size."
SMALL = (
    "The paper says only that convolutions have fewer channels and that the size is 0.03M: half the channels in the"
    " cells and 16 before the dense layer are our choice."
)
LARGE = dpnas("cifar10", channels=[48, 96, 192], activation="selu")

NETWORKS: list[Row] = [
    ("cifar10", 529_434, "Table 1 (0.53M)", LARGE, DEPTHWISE),
    ("mnist", 213_418, "Table 1 (0.21M)", dpnas("mnist"), DEPTHWISE),
    ("fashion_mnist", 214_570, "Table 1 (0.21M)", dpnas("fashion_mnist"), DEPTHWISE),
    *(
        (f"small.{data}", parameters, "Table 1 (DPNASNet-S)", dpnas(data, channels=[16, 16, 32], squeeze=16), SMALL)
        for data, parameters in {"mnist": 30_106, "fashion_mnist": 30_682}.items()
    ),
]

ROWS: list[Row] = [
    (f"dpnas.{name}", parameters, f"Cheng et al., {table}", description, note)
    for name, parameters, table, description, note in NETWORKS
]
