"""Which cells of DPMLBench are run, and in which order where time is short: `PLAN`, the most informative first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privaware.bench import Settings
from research.papers import Item
from research.papers._dpmlbench_cells import ALGORITHMS, DATA, NETWORKS

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

    def within(self, other: GridChoice, items: Sequence[str] | None = None) -> GridChoice:
        """The cells that the other choice has too; its items count only if they are given."""
        own, theirs = vars(self), vars(other)
        both = {name: _common(own[name], theirs[name]) for name in own if name != "items"}
        return GridChoice(**both, items=self.items if items is None else _common(self.items, items))


def _common(one: Sequence[Any] | None, other: Sequence[Any] | None) -> Any:
    """The values of both, in the order of the first; None stands for all values."""
    if one is None or other is None:
        return other if one is None else one
    return tuple(value for value in one if value in other)


ONE, OTHERS = (0,), (1, 2)
MAIN = (1.0, 4.0, 1000.0)
ENDS = (4.0, 1000.0)
SMALL = ("simple_cnn",)
ERRORS = ("table3", "table9", "labels")
"""Error rates without attacks."""
DESCENT = ("dpsgd", "tanh", "quantile_clip", "noise_decay", "focal", "hand_dp")
"""Seconds of a GPU a cell."""
QUICK = (*DESCENT, "rgp", "alibi", "dpgen")
LONG = ("label_mst", "private_knn", "pate", "gep")
"""Minutes of a GPU a cell; `private_set` takes twenty."""
SEEDED = ("cifar10", "fashion_mnist")
"""Data sets with three seeds."""


def _errors(algorithms: Sequence[str], epsilons: Sequence[float] | None = None) -> GridChoice:
    """One seed of these algorithms with SimpleCNN on all data sets."""
    return GridChoice(items=ERRORS, networks=SMALL, algorithms=algorithms, epsilons=epsilons, seeds=ONE)


def _seeds(algorithms: Sequence[str]) -> GridChoice:
    """Two more seeds."""
    return GridChoice(items=ERRORS, data=SEEDED, networks=SMALL, algorithms=algorithms, epsilons=MAIN, seeds=OTHERS)


def _larger(network: str) -> GridChoice:
    """An InceptionNet or VGG on CIFAR-10."""
    algorithms = ("dpsgd", "tanh", "rgp", "quantile_clip")
    return GridChoice(
        items=ERRORS, data=("cifar10",), networks=(network,), algorithms=algorithms, epsilons=ENDS, seeds=ONE
    )


def _attacked(network: str, algorithms: Sequence[str]) -> tuple[GridChoice, ...]:
    """SGD, against which leakage is counted, and these algorithms, attacked."""
    attacked = GridChoice(
        items=("table4", "table10"), networks=(network,), algorithms=algorithms, epsilons=ENDS, seeds=ONE
    )
    return GridChoice(items=("table2",), networks=(network,), seeds=ONE), attacked


PLAN: Sequence[GridChoice] = (
    _errors(QUICK, MAIN),
    _errors(QUICK),
    GridChoice(items=("precision",), seeds=ONE),
    GridChoice(items=("enlarged",), epsilons=MAIN, seeds=ONE),
    _seeds(QUICK),
    _errors(LONG, (4.0,)),
    _errors(LONG, MAIN),
    _errors(LONG),
    _seeds(LONG),
    GridChoice(
        items=ERRORS, data=SEEDED, networks=("resnet20",), algorithms=(*DESCENT, "rgp", "gep"), epsilons=MAIN, seeds=ONE
    ),
    _larger("inception"),
    _larger("vgg"),
    *_attacked("simple_cnn", (*QUICK, *LONG)),
    *_attacked("resnet20", ("dpsgd", "tanh")),
    GridChoice(items=("figure8",), seeds=ONE),
    _errors(("private_set",)),
    GridChoice(items=ERRORS),
)
"""Error rates of SimpleCNN with one seed everywhere and three on two data sets, quick algorithms first; then larger
networks, then attacks, then PrivSet, then everything else."""
