"""Which cells of DPMLBench are run, and in which order where time is short: `PLAN`, the most informative first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from privaware.papers import Item, Settings
from privaware.papers._dpmlbench_cells import ALGORITHMS, DATA, NETWORKS

__all__ = ["FIRST", "PLAN", "GridChoice"]

FIRST = ("table3", "table9")


@dataclass(frozen=True, kw_only=True)
class GridChoice:
    """Which cells: all of these data, networks, algorithms and items (by the part after the paper's name).

    `learners` are the lines of a table; without them, `epsilons` or `seeds`, all are wanted. A baseline has no epsilon.
    """

    data: Sequence[str] = DATA
    networks: Sequence[str] = NETWORKS
    algorithms: Sequence[str] = tuple(ALGORITHMS)
    items: Sequence[str] = FIRST
    learners: Sequence[str] | None = None
    epsilons: Sequence[float | None] | None = None
    seeds: Sequence[int] | None = None

    def has(self, item: Item, cell: Settings) -> bool:
        wanted = {"learner": self.learners, "epsilon": self.epsilons, "seed": self.seeds}
        return (
            item.id.split("/")[1] in self.items
            and cell["data"] in self.data
            and cell["network"] in self.networks
            and cell["algorithm"] in self.algorithms
            and all(values is None or cell[name] in values for name, values in wanted.items())
        )


ONE = (0,)
MAIN = (1.0, 4.0, 1000.0)
SMALL = ("simple_cnn",)


def _attacked(data: str, algorithms: Sequence[str], epsilons: Sequence[float] | None = None) -> list[GridChoice]:
    """SGD and these algorithms on one data set, attacked, one seed."""
    tables = ("table4", "table10")
    return [
        GridChoice(items=("table2",), data=(data,), networks=SMALL, seeds=ONE),
        GridChoice(items=tables, data=(data,), networks=SMALL, algorithms=algorithms, epsilons=epsilons, seeds=ONE),
    ]


def _on_cifar10(item: str, networks: Sequence[str], algorithm: str, epsilons: Sequence[float] | None) -> GridChoice:
    return GridChoice(
        items=(item,), data=("cifar10",), networks=networks, algorithms=(algorithm,), epsilons=epsilons, seeds=ONE
    )


def _on_fashion(item: str, algorithms: Sequence[str], epsilons: Sequence[float] | None = None) -> GridChoice:
    return GridChoice(
        items=(item,), data=("fashion_mnist",), networks=SMALL, algorithms=algorithms, epsilons=epsilons, seeds=ONE
    )


PLAN: Sequence[GridChoice] = (
    GridChoice(items=("table4",), data=("cifar10",), networks=SMALL, algorithms=("rgp",), epsilons=(0.2, 1.0)),
    _on_fashion("table9", ("noise_decay", "focal")),
    _on_fashion("table10", ("pate",)),
    _on_fashion("table9", ("rgp",)),
    _on_cifar10("table3", ("resnet20",), "dpsgd", (4.0,)),
    _on_fashion("table9", ("hand_dp",)),
    _on_cifar10("table3", ("resnet20",), "tanh", (4.0,)),
    _on_fashion("table9", ("private_knn",), (4.0,)),
    _on_cifar10("figure8", SMALL, "label_mst", (4.0,)),
    _on_cifar10("table7", ("mlp",), "hand_dp", (0.2, 1.0, 4.0, 1000.0)),
    _on_cifar10("rgp_rate", SMALL, "rgp", (0.2, 1.0, 4.0)),
    GridChoice(items=("table8",), data=("cifar10",), networks=SMALL, learners=("rgp",), seeds=ONE),
    _on_cifar10("figure4", ("relu with group norm", "tanh with group norm"), "dpsgd", (1.0, 4.0, 100.0, 1000.0)),
    *_attacked("fashion_mnist", ("dpsgd",)),
    _on_cifar10("figure8", SMALL, "alibi", None),
    *_attacked("svhn", ("dpsgd",), MAIN),
    GridChoice(items=("table3",), data=("mnist",), networks=SMALL, algorithms=("dpsgd", "tanh"), seeds=ONE),
    _on_fashion("table9", ("tanh", "private_knn")),
    _on_cifar10("table3", ("vgg",), "dpsgd", (4.0,)),
    _on_cifar10("figure8", SMALL, "label_mst", None),
    GridChoice(items=("table3",), data=("mnist",), networks=SMALL, algorithms=("private_knn",), seeds=ONE),
    GridChoice(items=("table3", "table9"), networks=SMALL, seeds=ONE),
    GridChoice(),
)
"""One seed of what a table, figure or finding lacks, where possible attacked; then everything else. RGP has three: its
learning rate at small epsilons was chosen after a look at one."""
