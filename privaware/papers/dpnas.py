"""Cheng et al., DPNAS: neural architecture search for deep learning with differential privacy, AAAI 2022.

A recurrent controller proposes cells, which share weights trained by DP-SGD. Paper: arXiv:2110.08557. Results:
docs/results/dpnas.md. Test accuracies are in percent, delta is 1e-5, epsilons by the classic conversion; each number of
Table 1 is the mean of ten trainings. The paper charges nothing for the search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from privaware.papers import Item, grid, open_items
from privaware.papers._dpnas_runs import CASES, derive, train
from privaware.papers._dpnas_search import charged, search
from privaware.papers._published import keyed, tables

__all__ = ["ITEMS"]

DATA = ("mnist", "fashion_mnist", "cifar10")
NUMBERS = tables("dpnas")
TABLE1, TABLE2, TABLE3 = (keyed(NUMBERS[name]) for name in ("table1", "table2", "table3"))
TABLE4 = NUMBERS["table4"]
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


ITEMS: list[Item] = [
    *(replace(item, priced=False) for item in (*searches(), *trainings(), *digits())),
    *open_items(
        "dpnas",
        NUMBERS["missing"]
        | {
            f"table2/{name}": f"Table 2: {name} on cifar10 at epsilon 1, 2, 3: {', '.join(map(str, accuracies))}"
            for name, accuracies in TABLE2.items()
        },
        "these networks and spaces are not in the package",
    ),
]
