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
ENDS = (4.0, 1000.0)
SMALL = ("simple_cnn",)


def _baseline(data: str, network: str = "simple_cnn") -> GridChoice:
    """SGD, attacked: leakage is counted against it."""
    return GridChoice(items=("table2",), data=(data,), networks=(network,), seeds=ONE)


def _on_cifar10(
    item: str, networks: Sequence[str], algorithms: Sequence[str], epsilons: Sequence[float] | None = None
) -> GridChoice:
    return GridChoice(
        items=(item,), data=("cifar10",), networks=networks, algorithms=algorithms, epsilons=epsilons, seeds=ONE
    )


def _on_fashion(item: str, algorithms: Sequence[str], epsilons: Sequence[float] | None = None) -> GridChoice:
    return GridChoice(
        items=(item,), data=("fashion_mnist",), networks=SMALL, algorithms=algorithms, epsilons=epsilons, seeds=ONE
    )


def _larger(network: str, *groups: Sequence[str]) -> list[GridChoice]:
    """A larger network on CIFAR-10, attacked: SGD, then these algorithms, then clipping alone."""
    return [
        _baseline("cifar10", network),
        *(_on_cifar10("table4", (network,), algorithms, ENDS) for algorithms in groups),
        GridChoice(items=("table5",), networks=(network,), learners=("clipping",), seeds=ONE),
    ]


PLAN: Sequence[GridChoice] = (
    _baseline("fashion_mnist"),
    _on_fashion("table10", ("noise_decay", "focal", "tanh", "dpsgd")),
    _on_cifar10("table4", SMALL, ("dpsgd",), (0.2, 1.0, 4.0)),
    _on_cifar10("table4", SMALL, ("tanh", "noise_decay")),
    *_larger("resnet20", ("dpsgd",), ("tanh",)),
    _on_fashion("table10", ("quantile_clip", "hand_dp")),
    _on_fashion("table10", ("pate",), MAIN),
    _baseline("svhn"),
    GridChoice(items=("table10",), data=("svhn",), networks=SMALL, algorithms=("dpsgd",), epsilons=MAIN, seeds=ONE),
    _on_cifar10("table4", ("resnet20",), ("focal", "noise_decay", "quantile_clip"), ENDS),
    *_larger("inception", ("dpsgd",)),
    _on_fashion("table10", ("private_knn",), (4.0,)),
    GridChoice(items=("table4",), data=("cifar10",), networks=SMALL, algorithms=("rgp",), epsilons=(0.2, 1.0)),
    _on_cifar10("table4", ("resnet20",), ("hand_dp", "rgp"), ENDS),
    _on_fashion("table10", ("rgp",)),
    _on_cifar10("figure8", SMALL, ("label_mst",), (4.0,)),
    _on_cifar10("table4", ("inception",), ("tanh", "focal", "noise_decay", "quantile_clip"), ENDS),
    *_larger("vgg", ("dpsgd",)),
    GridChoice(items=("table3",), data=("mnist",), networks=SMALL, algorithms=("dpsgd", "tanh"), seeds=ONE),
    _on_cifar10("table7", ("mlp",), ("hand_dp",), (0.2, 1.0, 4.0, 1000.0)),
    _on_cifar10("rgp_rate", SMALL, ("rgp",), (0.2, 1.0, 4.0)),
    GridChoice(items=("table8",), data=("cifar10",), networks=SMALL, learners=("rgp",), seeds=ONE),
    _on_cifar10("figure4", ("relu with group norm", "tanh with group norm"), ("dpsgd",), (1.0, 4.0, 100.0, 1000.0)),
    _on_cifar10("figure8", SMALL, ("alibi", "label_mst")),
    GridChoice(items=("table3",), data=("mnist",), networks=SMALL, algorithms=("private_knn",), seeds=ONE),
    GridChoice(items=("table3", "table9"), networks=SMALL, seeds=ONE),
    GridChoice(),
)
"""One seed of what a table, figure or finding lacks, where possible attacked; then everything else. RGP has three: its
learning rate at small epsilons was chosen after a look at one. Choices of one network and data set share an attacker
where they follow each other."""
