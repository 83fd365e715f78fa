"""Cheng et al., DPNAS: neural architecture search for deep learning with differential privacy, AAAI 2022.

A recurrent controller proposes cells, which share weights trained by DP-SGD. Paper: arXiv:2110.08557. Results:
docs/results/dpnas.md. Test accuracies are in percent, delta is 1e-5, epsilons by the classic conversion; each number of
Table 1 is the mean of ten trainings. The paper charges nothing for the search.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from privaware.papers import Item, grid, open_items
from privaware.papers._dpnas_runs import CASES, derive, train
from privaware.papers._dpnas_search import charged, search

__all__ = ["ITEMS"]

DATA = ("mnist", "fashion_mnist", "cifar10")
TABLE1 = {
    "mnist": {"cnn": (89.08, 97.24, 98.10), "small": (92.87, 97.74, 98.35), "found": (97.22, 98.18, 98.57)},
    "fashion_mnist": {"cnn": (73.86, 82.03, 86.25), "small": (78.66, 84.83, 86.73), "found": (82.08, 86.17, 88.09)},
    "cifar10": {"cnn": (38.74, 52.74, 59.07), "found": (52.95, 65.03, 68.33)},
}
"""CNN-Tanh, DPNASNet-S and DPNASNet at epsilon 1, 2 and 3."""
TABLE2 = {
    "NASNet": (26.29, 33.44, 40.77),
    "NASNet-S": (24.51, 36.56, 41.72),
    "AmoebaNet": (39.21, 46.36, 51.46),
    "AmoebaNet-S": (38.47, 49.01, 53.84),
    "DARTS": (36.08, 43.50, 48.79),
    "DARTS-S": (37.48, 47.91, 51.99),
    "EfficientNet": (40.17, 48.93, 54.20),
    "EfficientNet-S": (41.99, 49.76, 54.63),
}
TABLE3 = {"mnist": (98.57, 87.92, 67.95), "fashion_mnist": (98.58, 88.09, 68.06), "cifar10": (98.66, 87.94, 68.33)}
"""Searched on, then trained on each of the three data sets."""
TABLE4 = {
    "relu": 51.02,
    "relu6": 53.03,
    "elu": 57.35,
    "selu": 60.16,
    "tanh": 59.21,
    "hardtanh": 58.46,
    "leaky_relu": 59.32,
}
PAGE = "dpnas"


def searches() -> Iterator[Item]:
    for data in (*DATA, "digits"):
        variants = {"cifar10": ["dp", "sgd"], "digits": ["dp", "uniform"]}.get(data, ["dp"])
        yield Item(
            id=f"dpnas/search/{data}",
            title=f"The search on {data}, as public rows (Figures 3 and 5)",
            runs=[{"variant": variant, "seed": 0} for variant in variants],
            columns=["variant"],
            run=partial(search, data=data),
            page=PAGE,
        )
        yield Item(
            id=f"dpnas/derive/{data}",
            title=f"The cell and the learning rate taken on {data}, by short private trainings",
            runs=[{"seed": 0}],
            run=partial(derive, data=data),
            page=None if data == "digits" else PAGE,
        )
    yield Item(
        id="dpnas/figure3c",
        title="Figure 3 (c): random search over the same shared weights on cifar10",
        runs=[{"variant": "uniform", "seed": 0}],
        run=partial(search, data="cifar10"),
    )


def trainings() -> Iterator[Item]:
    """Tables 1, 3 and 4 and Figure 3 (b)."""
    for at, (data, published) in enumerate(TABLE1.items()):
        networks = ["cnn", "small", "found", *(["mirrored"] if CASES[data].mirrored else [])]
        known = {name: accuracies[-1] / 100 for name, accuracies in published.items()}
        yield Item(
            id=f"dpnas/table1/{data}",
            title=f"Table 1: networks on {data} at epsilon 3",
            published={**known, "mirrored": known["found"], "paper": known["found"]},
            runs=[*grid(network=tuple(networks), seeds=range(5)), {"network": "paper", "seed": 0}],
            columns=["network"],
            run=partial(train, data=data),
            page=PAGE,
            note="the paper trains ten times, and neither averages parameters nor mirrors images",
        )
        others = [other for other in DATA if other != data]
        yield Item(
            id=f"dpnas/table3/{data}",
            title=f"Table 3: cells searched on other data, trained on {data}",
            published={other: TABLE3[other][at] / 100 for other in others},
            runs=[{"network": "found", "searched_on": other, "seed": 0} for other in others],
            columns=["searched_on"],
            run=partial(train, data=data),
            page=PAGE,
        )
    yield Item(
        id="dpnas/table4",
        title="Table 4 and Figure 5 (c, d): activations and pooling of the hand-made CNN on cifar10",
        published={name: accuracy / 100 for name, accuracy in TABLE4.items()},
        runs=[
            *({"network": "cnn", "activation": name, "seed": 0} for name in TABLE4 if name != "tanh"),
            {"network": "cnn", "pooling": "average", "seed": 0},
        ],
        columns=["activation"],
        run=partial(train, data="cifar10"),
        page=PAGE,
    )
    yield Item(
        id="dpnas/figure3",
        title="Figure 3 (b): twenty cells of each search on cifar10, small form",
        runs=grid(network=("sgd", "random", "dp"), cell=tuple(range(20)), seed=0),
        columns=["network"],
        run=partial(train, data="cifar10"),
        page=PAGE,
        note="one training a cell; the paper has ten",
    )


def digits() -> Iterator[Item]:
    """Small enough for a CPU, and no result of the paper."""
    network = [*grid(network="found", seeds=range(3)), *grid(network="random", cell=tuple(range(6)), seed=0)]
    yield Item(
        id="dpnas/digits/trained",
        title="Digits: the found cell, cells at random and a hand-made CNN",
        runs=[*network, *grid(network="cnn", seeds=range(3))],
        quick=[{"network": "cnn", "seed": 0}],
        columns=["network"],
        run=partial(train, data="digits"),
        page=PAGE,
    )
    yield Item(
        id="dpnas/digits/charged",
        title="Digits: one budget for search and training",
        runs=grid(epsilon=(8.0, 4.0), what=("search", "random"), seeds=range(5)),
        quick=[{"epsilon": 8.0, "what": "random", "seed": 0}],
        columns=["epsilon", "what"],
        run=charged,
        page=PAGE,
    )


def missing() -> dict[str, Any]:
    open_: dict[str, Any] = {
        "figure1": "Figure 1: hand-made and searched networks by SGD and by DP-SGD",
        "figure3a": "Figure 3 (a): the same search over the spaces of DARTS and NASNet",
        "table1/7.53": "Text: DPNASNet on cifar10 at epsilon 7.53, 72.57",
    }
    for name, accuracies in TABLE2.items():
        open_[f"table2/{name}"] = f"Table 2: {name} on cifar10 at epsilon 1, 2, 3: {', '.join(map(str, accuracies))}"
    return open_


ITEMS: list[Item] = [
    *searches(),
    *trainings(),
    *digits(),
    *open_items("dpnas", missing(), "these networks and spaces are not in the package"),
]
