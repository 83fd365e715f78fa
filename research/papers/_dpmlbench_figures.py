"""What DPMLBench shows of cells that are stored for other items: its figures, and the areas of Tables 2 and 5.

A figure has a line for each group of cells, over epsilon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from privaware.bench import Result, Settings
from privaware.bench._store import Cell, Store
from privaware.learners import find_learner
from privaware.metrics import utility_loss
from research.papers import Item
from research.papers._dpmlbench_cells import ALGORITHMS, DATA, NETWORKS
from research.papers._dpmlbench_means import Key, Means
from research.papers._results import table
from research.papers._runner import Bench

__all__ = ["FIGURES", "Figure", "area_item", "area_key", "figure_items"]

ROW_PRIVATE = tuple(name for name in ALGORITHMS if name not in ("label_mst", "alibi"))
BESIDE_LABELS = ("dpsgd", "tanh", "rgp", "private_knn", "dpgen", "label_mst", "alibi")
"""The algorithms of Figure 8."""


def _accuracy(means: Means, key: Key) -> float | None:
    return means.get(*key)


def _loss(means: Means, key: Key) -> float | None:
    own, other = means.get(*key), means.get("sgd", key[1], key[2], None)
    return None if own is None or not other else 100 * utility_loss(own, other)


def _leakage(means: Means, key: Key) -> float | None:
    share = means.leakage(key)
    return None if share is None else 100 * share


def _by_algorithm(key: Key) -> str:
    return f"{find_learner(key[0]).phase}: {ALGORITHMS[key[0]]}"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What is drawn over epsilon: `value` of each cell, as lines of the groups that `group` says."""

    title: str
    axis: str
    value: Callable[[Means, Key], float | None]
    group: Callable[[Key], str]
    algorithms: Iterable[str] = ROW_PRIVATE
    data: Iterable[str] = DATA

    def groups(self, means: Means) -> dict[str, dict[float, list[float]]]:
        """The values of each group by epsilon, one for each algorithm, network and data set of it."""
        groups: dict[str, dict[float, list[float]]] = {}
        for key in means.values:
            learner, network, data, epsilon = key
            drawn = learner in self.algorithms and network in NETWORKS and data in self.data
            if drawn and epsilon is not None and (value := self.value(means, key)) is not None:
                groups.setdefault(self.group(key), {}).setdefault(epsilon, []).append(value)
        return {name: dict(sorted(groups[name].items())) for name in sorted(groups)}

    def drawing(self, name: str, means: Means) -> Result:
        """A table of medians with the least and the most, and the points of a chart."""
        from privaware.workflow._curves import point

        groups = self.groups(means)
        epsilons = sorted({epsilon for group in groups.values() for epsilon in group})
        head = ["line", *(f"epsilon {epsilon:g}" for epsilon in epsilons)]
        lines = [[group, *(_shown(by.get(epsilon, [])) for epsilon in epsilons)] for group, by in groups.items()]
        points = [
            asdict(point(group, epsilon, values)) for group, by in groups.items() for epsilon, values in by.items()
        ]
        charts = [{"name": name, "points": points, "x": "epsilon", "y": self.axis}] if points else []
        return {"tables": [table(self.title, head, lines)] if lines else [], "charts": charts}


def _shown(values: list[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.1f}" if values else ""
    return f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


LOSS, LEAKAGE = "utility loss, per cent", "privacy leakage, per cent"
FIGURES = {
    "figure3": Figure(
        title="Figure 3: accuracy on CIFAR-10 by category",
        axis="accuracy, per cent",
        value=_accuracy,
        group=_by_algorithm,
        data=("cifar10",),
    ),
    "figure5": Figure(title="Figure 5: leakage by category", axis=LEAKAGE, value=_leakage, group=_by_algorithm),
    "figure6a": Figure(title="Figure 6a: utility loss by network", axis=LOSS, value=_loss, group=lambda key: key[1]),
    "figure6b": Figure(title="Figure 6b: leakage by network", axis=LEAKAGE, value=_leakage, group=lambda key: key[1]),
    "figure7a": Figure(title="Figure 7a: utility loss by data set", axis=LOSS, value=_loss, group=lambda key: key[2]),
    "figure7b": Figure(title="Figure 7b: leakage by data set", axis=LEAKAGE, value=_leakage, group=lambda key: key[2]),
    "figure8b": Figure(
        title="Figure 8b: leakage of label-private algorithms on CIFAR-10",
        axis=LEAKAGE,
        value=_leakage,
        group=lambda key: ALGORITHMS[key[0]],
        algorithms=BESIDE_LABELS,
        data=("cifar10",),
    ),
    "figure10": Figure(
        title="Figure 10: accuracy on Fashion-MNIST and SVHN",
        axis="accuracy, per cent",
        value=_accuracy,
        group=lambda key: f"{key[2]}, {ALGORITHMS[key[0]]}",
        data=("fashion_mnist", "svhn"),
    ),
}


def area_item(name: str, title: str, published: Mapping[str, float]) -> Item:
    """The areas of a table, from the finished cells of the folder that it is run in; keys are those of `area_key`."""
    keys = [{"table": name, "keys": list(published)}]
    settings: dict[str, Any] = {"runs": keys, "quick": keys, "columns": ("cell",), "measured": "area"}
    return Item(id=f"dpmlbench/{name}", title=title, published=published, run=_areas, priced=False, **settings)


def area_key(key: Key, attack: str) -> str:
    """Learner, network, data, epsilon and attack, as an item of areas publishes them."""
    learner, network, data, epsilon = key
    return f"{learner}, {network}, {data}, {'without noise' if epsilon is None else f'epsilon {epsilon:g}'}, {attack}"


def _areas(bench: Bench, settings: Settings) -> Result:
    means = _stored_means(bench)
    known = {
        area_key(key, attack): area
        for attack in ("black_box", "white_box")
        for key, area in means.having(f"auc {attack}")
    }
    lines = [[key, f"{known[key]:.3f}"] for key in settings["keys"] if key in known]
    return {"tables": [table("Mean tailored areas", ["cell", "area"], lines)] if lines else []}


def figure_items() -> list[Item]:
    """An item for each figure, drawn from the finished cells of the folder that it is run in."""
    return [
        Item(
            id=f"dpmlbench/{name}",
            title=figure.title,
            runs=[{"figure": name}],
            quick=[{"figure": name}],
            columns=("figure",),
            measured=None,
            run=_drawn,
            priced=False,
        )
        for name, figure in FIGURES.items()
    ]


def _drawn(bench: Bench, settings: Settings) -> Result:
    name: str = settings["figure"]
    return FIGURES[name].drawing(name, _stored_means(bench))


def _stored_means(bench: Bench) -> Means:
    cells: Iterable[Cell] = [] if bench.out is None else Store(bench.out / "cells.jsonl").read().values()
    return Means.of(cells)
