"""Cheng et al., DPNAS: neural architecture search for deep learning with differential privacy, AAAI 2022.

A recurrent controller proposes cells, which share weights trained by DP-SGD. Paper: arXiv:2110.08557. Results:
docs/results/dpnas.md. Test accuracies are in percent, delta is 1e-5, epsilons by the classic conversion; each number of
Table 1 is the mean of ten trainings. The paper charges nothing for the search.
"""

from __future__ import annotations

from dataclasses import replace

from research.papers import Item, open_items
from research.papers import _dpnas_runs as runs
from research.papers import _dpnas_search as search
from research.papers._published import keyed, load_items, tables

__all__ = ["ITEMS"]

DATA = ("mnist", "fashion_mnist", "cifar10")
NUMBERS = tables("dpnas")
TABLE1, TABLE2, TABLE3 = (keyed(NUMBERS[name]) for name in ("table1", "table2", "table3"))
TABLE4 = NUMBERS["table4"]
TABLE2_SIZES = dict(zip(TABLE2, NUMBERS["table2_sizes"], strict=True))


def with_published(item: Item) -> Item:
    """Published accuracies at epsilon 3 beside the names that an item has for them."""
    _, table, *rest = item.id.split("/")
    if item.id == "dpnas/table1/7.53":
        return replace(item, published={"found": 0.7257, "paper": 0.7257})
    if table == "table1":
        known = {name: accuracies[-1] / 100 for name, accuracies in TABLE1[rest[0]].items()}
        return replace(item, published={**known, "mirrored": known["found"], "paper": known["found"]})
    if table == "table2":
        return replace(item, published={name: accuracies[-1] / 100 for name, accuracies in TABLE2.items()})
    if table == "table3":
        others = {other: row[DATA.index(rest[0])] / 100 for other, row in TABLE3.items() if other != rest[0]}
        return replace(item, published=others)
    if table == "table4":
        return replace(item, published={name: accuracy / 100 for name, accuracy in TABLE4.items()})
    return item


ITEMS: list[Item] = [
    *map(with_published, load_items("dpnas", runs=runs, search=search)),
    *open_items("dpnas", NUMBERS["missing"], "supernets of these spaces are not in the package"),
]
