"""Cells of DPMLBench that stand in several of its tables and figures: what was trained for one is there for others."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Container, Iterator
from dataclasses import replace

from privaware.bench import Settings
from privaware.bench._cells import unattacked
from privaware.bench._store import Cell, Store, training_key
from research.papers import find
from research.papers._dpmlbench_cells import EPSILONS, RGP_SMALL

__all__ = ["add_twins", "settle"]

ERROR_RATES = {"table4": "table3", "table10": "table9"}
"""Tables of attacks, and those of error rates."""
ATTACK_ENTRIES = ("shadows", "shadow")
ACTIVATIONS = {"dpsgd": "relu", "tanh": "tanh"}
"""The networks of Figure 4 that these algorithms train on SimpleCNN."""
RGP = {"rgp_rate": ("rgp at 0.01", "table3/cifar10/rgp", "rgp"), "table3": ("rgp", "rgp_rate", "rgp at 0.01")}
"""Up to RGP_SMALL the cells of both are the same: the learner of one table, the other table and its learner."""


def add_twins(store: Store) -> int:
    """Adds the cells that follow from finished ones; how many."""
    known = store.read()
    queue = deque(cell for cell in known.values() if "failed" not in cell.result)
    added = 0
    while queue:
        for twin in _twins(queue.popleft()):
            present = known.get(twin.key)
            whole = not unattacked(twin.settings, twin.result)
            if whole and (present is None or "failed" in present.result):
                store.add(twin)
                known[twin.key] = twin
                queue.append(twin)
                added += 1
    return added


def settle(store: Store, planned: Container[str]) -> int:
    """Leaves one run of each training in the store, and moves the others to `superseded.jsonl` beside it; how many.

    The run that counts is an attacked one, because its areas belong to its accuracy; among those the one with the
    latest date; then the one stored last. Cells that are not `planned` any more, by their keys, are moved too.
    """
    cells = [cell for cell in store.read().values() if "failed" not in cell.result]
    runs: dict[str, list[Cell]] = {}
    for cell in cells:
        if "rows" in cell.settings and cell.key in planned:
            runs.setdefault(training_key(cell.settings), []).append(cell)
    rest: set[str] = set()
    for same in runs.values():
        rest |= {_run(cell) for cell in same} - {_run(max(reversed(same), key=_rank))}
    moved = [cell for cell in cells if "rows" in cell.settings and (cell.key not in planned or _run(cell) in rest)]
    if not moved:
        return 0
    gone = {cell.key for cell in moved}
    old = Store(store.path.with_name("superseded.jsonl"))
    for cell in moved:
        old.add(cell)
    store.write(cell for cell in cells if cell.key not in gone)
    add_twins(store)
    return len(moved)


def _run(cell: Cell) -> str:
    """Cells of one trained model: of one process, with one epsilon, seed and score."""
    result, settings = cell.result, cell.settings
    facts = [settings["data"], settings["epsilon"], settings["seed"], result.get("score"), result.get("noise")]
    return json.dumps([facts, dict(cell.run)], sort_keys=True)


def _rank(cell: Cell) -> tuple[bool, str]:
    return any(name.startswith("auc ") for name in cell.result), str(cell.run.get("date", ""))


def _twins(cell: Cell) -> Iterator[Cell]:
    paper, _, place = cell.item.partition("/")
    table, *rest = place.split("/")
    learner, data = cell.settings.get("learner"), cell.settings.get("data")
    if table in ERROR_RATES and rest:
        yield _not_attacked(cell, "/".join([paper, ERROR_RATES[table], *rest]))
    if table == "figure8" and rest and cell.settings["epsilon"] in EPSILONS:
        yield _not_attacked(cell, "/".join([paper, "labels", str(data), *rest]))
    if table == "table5" and learner == "sgd":
        yield replace(cell, item=f"{paper}/table2/{data}")
    if table == "table2" and learner == "sgd":
        yield _not_attacked(cell, f"{paper}/table8/{data}")
    if table == "table5" and learner == "dpsgd" and cell.settings["epsilon"] in EPSILONS:
        yield replace(cell, item=f"{paper}/table4/{data}/dp-sgd")
    if table == "table3" and data == "cifar10" and learner == "hand_dp":
        yield replace(cell, item=f"{paper}/table7")
    if place == "table3/cifar10/dp-sgd" and cell.settings["network"] == "resnet20":
        yield replace(cell, item=f"{paper}/figure9")
    if table in RGP and data == "cifar10" and learner == RGP[table][0] and cell.settings["epsilon"] <= RGP_SMALL:
        _, other, name = RGP[table]
        yield replace(cell, item=f"{paper}/{other}", settings={**cell.settings, "learner": name})
    if table == "table3" and data == "cifar10" and cell.settings["network"] == "simple_cnn" and learner in ACTIVATIONS:
        yield from _of_figure4(cell, f"{paper}/figure4", ACTIVATIONS[learner])


def _not_attacked(cell: Cell, item: str) -> Cell:
    settings = {key: value for key, value in cell.settings.items() if key not in ATTACK_ENTRIES}
    result = {key: value for key, value in cell.result.items() if key != "attacks" and not key.startswith("auc ")}
    return replace(cell, item=item, settings={**settings, "attacks": []}, result=result)


def _of_figure4(cell: Cell, item: str, network: str) -> Iterator[Cell]:
    """Its settings name the activation in the architecture instead of the algorithm; what is trained is the same."""

    def same(settings: Settings) -> bool:
        place = (network, cell.settings["epsilon"], cell.settings["seed"], cell.settings["rows"])
        return place == tuple(settings[name] for name in ("network", "epsilon", "seed", "rows"))

    for settings in filter(same, find(item).runs):
        yield replace(cell, item=item, settings=settings)
