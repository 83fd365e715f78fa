"""Runs the grid of DPMLBench on a GPU within a limit of seconds, the most informative cells first.

    python -m privaware.papers._dpmlbench_grid --out OUT --device cuda --limit 560      # goes on where it ended
    python -m privaware.papers._dpmlbench_grid --out OUT --device cpu --limit 60 --tiny # a trial: few rows, one epoch
    python -m privaware.papers._dpmlbench_grid --merge OUT/cells.jsonl                  # into docs/results/dpmlbench

Cells go to OUT/cells.jsonl. A population begins only if, by the seconds of finished cells of its network, it will end
within the limit; others that fit are run instead. What failed before is left out unless `--retry`. `--data`,
`--networks`, `--algorithms`, `--items`, `--epsilons` and `--seeds` choose cells; `--plan` takes the choices of
`_dpmlbench_plan.py` one after another. After an error of CUDA that spoils the process it ends with code 3, and the same
command goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from privaware import datasets
from privaware.papers import Item, Settings
from privaware.papers._bench_cells import TrainingPlace, populations
from privaware.papers._bench_run import run_cells
from privaware.papers._dpmlbench_cells import ALGORITHMS, DATA, EPSILONS, NETWORKS, SEEDS, quick
from privaware.papers._dpmlbench_plan import FIRST, PLAN, GridChoice
from privaware.papers._dpmlbench_twins import add_twins
from privaware.papers._page import RESULTS
from privaware.papers._results import Cell, Store, cell_key
from privaware.papers.dpmlbench import ITEMS

__all__ = ["merge", "ordered_cells", "run_grid"]

GUESSES = {"resnet20": 60.0, "inception": 150.0, "vgg": 400.0}
"""Seconds a cell before one was measured; of a smaller network SMALL."""
SMALL = 10.0
SLOW = {"gep": 12.0, "label_mst": 8.0, "pate": 4.0, "private_knn": 7.0, "private_set": 60.0, "dpgen": 20.0}
"""How much longer an algorithm takes than others: a step of 15 GEP on SimpleCNN takes 0.19 s of an H200."""
MOST = {"resnet20": 3, "inception": 3, "vgg": 1}
"""Cells of one population: enough for the GPU to be busy, few enough to end within a limit; of a smaller network 15."""
GRADIENT = ("dpsgd", "tanh", "quantile_clip", "noise_decay", "focal", "hand_dp", "rgp", "gep")


def most_of(network: str) -> int:
    return MOST.get(network, MOST["resnet20"] if network.startswith("resnet") else 15)


def ordered_cells(choice: GridChoice, tiny: bool = False) -> list[tuple[str, Settings]]:
    """Cells with their items: gradient algorithms first; then data, networks, epsilons and algorithms in order.

    All epsilons of a small network are one population.
    """
    chosen = [(item, cell) for item in ITEMS if item.runnable for cell in item.runs if choice.has(item, cell)]
    order = list(ALGORITHMS)

    def rank(pair: tuple[Item, Settings]) -> tuple[int, ...]:
        cell = pair[1]
        small = NETWORKS.index(cell["network"]) if cell["network"] in NETWORKS else 0
        late = cell["algorithm"] not in GRADIENT
        by_epsilon = most_of(cell["network"]) < len(EPSILONS) * len(SEEDS)
        epsilon = EPSILONS.index(cell["epsilon"]) if by_epsilon and cell["epsilon"] in EPSILONS else 0
        return (late, small > 1, DATA.index(cell["data"]), small, epsilon, order.index(cell["algorithm"]))

    ranked = [(item.id, cell) for item, cell in sorted(chosen, key=rank)]
    return [(id, {**quick(cell), "epsilon": cell["epsilon"]}) for id, cell in ranked] if tiny else ranked


def run_grid(
    wanted: Sequence[tuple[str, Settings]], store: Store, place: TrainingPlace, *, retry: bool = False
) -> bool:
    """Every population that will end before the deadline; a failing one is stored with its reason.

    Whether the process may go on: false after an error of CUDA that later populations would meet too.
    """
    for group in _groups(wanted):
        known = store.read()
        todo = [pair for pair in group if _missing(cell := known.get(cell_key(*pair))) and (retry or cell is None)]
        if not todo:
            continue
        first = todo[0][1]
        seconds = _seconds_a_cell(known.values(), first) * len(todo)
        left = place.deadline - time.time()
        name = f"{first['learner']}, {first['network']}, {first['data']}: {len(todo)} cells"
        if seconds > left:
            say(f"{name}: left out, about {seconds:.0f} s would not fit into {left:.0f} s")
            continue
        state = run_cells(todo, store, place, most=len(todo), say=say)
        add_twins(store)
        if any("CUDA error" in reason or "AcceleratorError" in reason for reason in state.failures.values()):
            say("an error of CUDA: later cells would fail too, so this process ends")
            return False
    return True


def _missing(cell: Cell | None) -> bool:
    return cell is None or "failed" in cell.result


def _groups(wanted: Sequence[tuple[str, Settings]]) -> list[list[tuple[str, Settings]]]:
    """Populations in the order of their first cells, of a size that suits the network."""
    groups = []
    for network in dict.fromkeys(cell["network"] for _, cell in wanted):
        places = [at for at, (_, cell) in enumerate(wanted) if cell["network"] == network]
        marked = [{**wanted[at][1], "item": wanted[at][0]} for at in places]
        groups += [[places[at] for at in group] for group in populations(marked, most_of(network))]
    return [[wanted[at] for at in group] for group in sorted(groups, key=lambda group: group[0])]


def _seconds_a_cell(known: Iterable[Cell], cell: Settings) -> float:
    """By the usual finished cell of the same network and algorithm, or of the same network, or a guess."""
    finished = [one for one in known if "failed" not in one.result and one.settings["network"] == cell["network"]]
    same = [one for one in finished if one.settings["algorithm"] == cell["algorithm"]]
    if same:
        return 1.1 * median(float(one.run["seconds"]) for one in same)
    tiny = 0.05 if "train" in cell["rows"] else 1.0
    guess = tiny * GUESSES.get(cell["network"], SMALL)
    usual = 1.1 * median(float(one.run["seconds"]) for one in finished) if finished else guess
    return SLOW.get(cell["algorithm"], 1.0) * usual


def merge(source: Path, target: Path = RESULTS / "dpmlbench" / "cells.jsonl") -> int:
    """Adds the finished cells of a file that another lacks; how many."""
    store = Store(target)
    known = store.read()
    added = 0
    for key, cell in Store(source).read().items():
        if "failed" not in cell.result and _missing(known.get(key)):
            store.add(cell)
            added += 1
    return added + add_twins(store)


def _with_rows(wanted: Sequence[tuple[str, Settings]]) -> list[tuple[str, Settings]]:
    """The cells whose data set is on this machine."""
    here = {name for name in DATA if datasets.source(name).folder() is not None}
    for name in sorted({cell["data"] for _, cell in wanted} - here):
        say(f"{name}: left out, its files are not here")
    return [pair for pair in wanted if pair[1]["data"] in here]


def say(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/dpmlbench"))
    parser.add_argument("--merge", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--retry", action="store_true", help="try failed cells again")
    parser.add_argument("--commit", help="of the source, where there is no clone")
    parser.add_argument("--plan", action="store_true", help="the choices of the plan, in its order")
    parser.add_argument("--epsilons", nargs="+", type=float)
    parser.add_argument("--seeds", nargs="+", type=int)
    for name, values in (("data", DATA), ("networks", NETWORKS), ("algorithms", tuple(ALGORITHMS)), ("items", FIRST)):
        parser.add_argument(f"--{name}", nargs="+", default=values)
    options = parser.parse_args()
    if options.merge is not None:
        print(json.dumps({"added": merge(options.merge)}))
        return
    choice = GridChoice(
        data=options.data,
        networks=options.networks,
        algorithms=options.algorithms,
        items=options.items,
        epsilons=options.epsilons,
        seeds=options.seeds,
    )
    place = TrainingPlace(
        device=options.device,
        deadline=time.time() + options.limit,
        paper="dpmlbench",
        progress=True,
        commit=options.commit,
    )
    store = Store(options.out / "cells.jsonl")
    wanted = [_with_rows(ordered_cells(each, options.tiny)) for each in (PLAN if options.plan else (choice,))]
    sound = all(run_grid(cells, store, place, retry=options.retry) for cells in wanted)
    known = store.read()
    keys = {cell_key(*pair) for cells in wanted for pair in cells}
    failed = sum("failed" in known[key].result for key in keys & set(known))
    print(json.dumps({"cells": len(keys), "done": len(keys & set(known)) - failed, "failed": failed}))
    sys.exit(0 if sound else 3)


if __name__ == "__main__":
    main()
