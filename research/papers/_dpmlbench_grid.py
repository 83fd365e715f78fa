"""Runs the grid of DPMLBench on a GPU within a limit of seconds, the most informative cells first.

    python -m research.papers._dpmlbench_grid --plan --device cuda --limit 560 --out OUT  # goes on where it ended
    python -m research.papers._dpmlbench_grid --tiny --limit 60 --out OUT                 # a trial: few rows
    python -m research.papers._dpmlbench_grid --merge OUT/cells.jsonl                     # into docs/results/dpmlbench

Each cell goes to OUT/cells.jsonl at once. Cells that docs/results/dpmlbench has are not run again. A cell begins only
if it will end within the limit, by the seconds of finished cells of its network and algorithm; others that fit are run
instead. What failed before is left out unless `--retry`. `--data`, `--networks`, `--algorithms`, `--items`,
`--epsilons` and `--seeds` choose cells; `--plan` takes the choices of `_dpmlbench_plan.py` one after another, as far as
the options allow them. `--order FILE` takes the cells of a file instead, in its order: each line has the item, the
data set, the learner, the network, epsilon and the seed, with tabs between. Processes that run beside each other have
folders of their own; `--part 2/3` takes every third cell from the second on, and with `--claims FOLDER` each process
takes the next cell of its list that no other process has taken. `--wait` waits for data sets whose files are not here
yet. After an error of CUDA that spoils the process it ends with code 3, and the same command goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from privaware import datasets
from privaware.bench import Settings
from privaware.bench._cells import TrainingPlace, unattacked
from privaware.bench._run import cell_name, run_cells
from privaware.bench._store import Cell, Store, cell_key
from privaware.errors import WrongInput
from research.papers import RESULTS, Item
from research.papers._dpmlbench_cells import ALGORITHMS, DATA, EPSILONS, NETWORKS, quick
from research.papers._dpmlbench_plan import FIRST, PLAN, GridChoice
from research.papers._dpmlbench_twins import add_twins, settle
from research.papers._prices import PaperPrices
from research.papers.dpmlbench import ITEMS

__all__ = ["GridRun", "merge", "ordered_cells", "run_grid"]

STORED = RESULTS / "dpmlbench" / "cells.jsonl"
GUESSES = {"resnet20": 60.0, "inception": 190.0, "vgg": 100.0}
"""Seconds a cell before one was measured; of a smaller network SMALL."""
SMALL = 8.0
SLOW = {"rgp": 3.0, "gep": 8.0, "alibi": 4.0, "label_mst": 6.0, "pate": 20.0, "private_knn": 20.0, "dpgen": 3.0}
"""How much longer an algorithm takes than others; `private_set` takes SLOWEST."""
SLOWEST = 150.0
PAUSE = 2.0
"""Seconds between two looks for files of data sets."""
GRADIENT = ("dpsgd", "tanh", "quantile_clip", "noise_decay", "focal", "hand_dp", "rgp", "gep")
Wanted = tuple[str, Settings]
"""A cell with the item it belongs to."""


@dataclass(frozen=True, kw_only=True)
class GridRun:
    """How cells are run.

    `known` are keys of cells that are stored elsewhere. `retry` tries failed cells again, and `wait` waits for files.
    Processes with the same folder of `claims` run each cell once: who makes a cell's folder in it, runs the cell.
    """

    known: frozenset[str] = frozenset()
    retry: bool = False
    wait: bool = False
    claims: Path | None = None

    def claim(self, pair: Wanted) -> bool:
        """Return whether this process may run the cell; after that no other process may."""
        if self.claims is None:
            return True
        try:
            (self.claims / hashlib.sha256(cell_key(*pair).encode()).hexdigest()[:24]).mkdir(parents=True)
        except FileExistsError:
            return False
        return True


def ordered_cells(choice: GridChoice, tiny: bool = False) -> list[Wanted]:
    """Cells with their items: gradient algorithms first; then data, networks, algorithms, epsilons and seeds."""
    chosen = [(item, cell) for item in ITEMS if item.runnable for cell in item.runs if choice.has(item, cell)]
    order = list(ALGORITHMS)

    def rank(pair: tuple[Item, Settings]) -> tuple[int, ...]:
        cell = pair[1]
        size = NETWORKS.index(cell["network"]) if cell["network"] in NETWORKS else 0
        late = cell["algorithm"] not in GRADIENT
        epsilon = EPSILONS.index(cell["epsilon"]) if size and cell["epsilon"] in EPSILONS else 0
        return (late, size > 1, DATA.index(cell["data"]), size, epsilon, order.index(cell["algorithm"]))

    ranked = [(item.id, cell) for item, cell in sorted(chosen, key=rank)]
    return [(id, {**quick(cell), "epsilon": cell["epsilon"]}) for id, cell in ranked] if tiny else ranked


def listed_cells(file: Path) -> list[Wanted]:
    """Cells in the order of a file with lines of `line_of`; a line that names no cell of `ITEMS` is refused."""
    known = {line_of(item.id, cell): (item.id, cell) for item in _grid_items() for cell in item.runs}
    lines = [line for line in file.read_text().splitlines() if line.strip()]
    unknown = [line for line in lines if line not in known]
    if unknown:
        raise WrongInput(f"--order: expected cells of the paper's items, got {unknown[0]!r}; see --list")
    return [known[line] for line in lines]


def _grid_items() -> list[Item]:
    """Items over cells of the benchmark; others draw figures and judge findings from them."""
    return [item for item in ITEMS if item.run_population is not None]


def line_of(item: str, cell: Settings) -> str:
    """Return the line of a cell in a file of `listed_cells`."""
    names = ("data", "learner", "network", "epsilon", "seed")
    return "\t".join([item, *(str(cell[name]) for name in names)])


def run_grid(wanted: Sequence[Wanted], store: Store, place: TrainingPlace, how: GridRun | None = None) -> bool:
    """Every cell that will end before the deadline, stored as soon as it ends; a failing one with its reason.

    Parameters
    ----------
    wanted : sequence of (str, Settings)
        Items and cells, the most important first.
    store : Store
        Where results go, and where finished cells are known from.
    place : TrainingPlace
        The device and the deadline.
    how : GridRun, optional
        What else is known, and what is retried.

    Returns
    -------
    bool
        Whether the process may go on: false after an error of CUDA that later cells would meet too.
    """
    how = how or GridRun()
    known = store.read()
    todo = [
        pair
        for pair in wanted
        if (key := cell_key(*pair)) not in how.known
        and _missing(cell := known.get(key))
        and (how.retry or cell is None)
    ]
    say(f"{len(todo)} of {len(wanted)} cells to run")
    while todo and time.time() < place.deadline:
        pair = next((pair for pair in todo if _rows_are_here(pair[1])), None)
        if pair is None and not how.wait:
            break
        if pair is None:
            time.sleep(PAUSE)
            continue
        todo.remove(pair)
        if _missing(store.read().get(cell_key(*pair))) and not _run_one(pair, store, place, how):
            return False
    for name in sorted({cell["data"] for _, cell in todo if not _rows_are_here(cell)}):
        say(f"{name}: left out, its files are not here")
    return True


def _run_one(pair: Wanted, store: Store, place: TrainingPlace, how: GridRun) -> bool:
    """Runs one cell if it will end before the deadline and can be claimed; whether the process may go on."""
    seconds, left = _seconds_a_cell(store.read().values(), pair[1]), place.deadline - time.time()
    if seconds > left:
        say(f"{cell_name(pair[1])}: left out, about {seconds:.0f} s would not fit into {left:.0f} s")
        return True
    if not how.claim(pair):
        return True
    began = time.time()
    state = run_cells([pair], store, place)
    result = store.read()[cell_key(*pair)].result
    outcome = result.get("failed") or result.get("attack_failures") or f"error {result.get('error', float('nan')):.2f}"
    say(f"{cell_name(pair[1])}: {outcome} in {time.time() - began:.1f} s")
    add_twins(store)
    reasons = [failure.reason for failure in (*state.failures, *state.attack_failures)]
    if any("CUDA error" in reason or "AcceleratorError" in reason for reason in reasons):
        say("an error of CUDA: later cells would fail too, so this process ends")
        return False
    return True


def _missing(cell: Cell | None) -> bool:
    return cell is None or "failed" in cell.result or unattacked(cell.settings, cell.result)


def _rows_are_here(cell: Settings) -> bool:
    return datasets.source(cell["rows"]["dataset"]).folder() is not None


def _seconds_a_cell(known: Iterable[Cell], cell: Settings) -> float:
    """By the usual finished cell of the same network and algorithm, or of the same network, or a guess."""
    finished = [one for one in known if "failed" not in one.result and one.settings["network"] == cell["network"]]
    same = [one for one in finished if one.settings["algorithm"] == cell["algorithm"]]
    if same:
        return 1.1 * median(float(one.run["seconds"]) + float(one.run.get("attack_seconds", 0)) for one in same)
    tiny = 0.05 if "train" in cell["rows"] else 1.0
    slow = SLOWEST if cell["algorithm"] == "private_set" else SLOW.get(cell["algorithm"], 1.0)
    return tiny * slow * GUESSES.get(cell["network"], SMALL)


def merge(source: Path, target: Path = STORED) -> int:
    """Adds the finished cells of a file that another lacks, leaving one run of each training; how many were added."""
    store = Store(target)
    known = store.read()
    added = 0
    for key, cell in Store(source).read().items():
        if not _missing(cell) and _missing(known.get(key)):
            store.add(cell)
            added += 1
    added += add_twins(store)
    settle(store, {cell_key(item.id, run) for item in ITEMS for run in item.runs})
    return added


def say(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/dpmlbench"))
    parser.add_argument("--merge", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--retry", action="store_true", help="try failed cells again")
    parser.add_argument("--wait", action="store_true", help="wait for files of data sets until the limit")
    parser.add_argument("--again", action="store_true", help="run cells that docs/results/dpmlbench has, too")
    parser.add_argument("--list", action="store_true", help="print what would be run")
    parser.add_argument("--part", default="1/1", help="which of how many processes this is")
    parser.add_argument("--commit", help="of the source, where there is no clone")
    parser.add_argument("--order", type=Path, help="a file of cells, the most important first")
    parser.add_argument("--claims", type=Path, help="a folder that processes share, so that each cell is run once")
    parser.add_argument("--plan", action="store_true", help="the choices of the plan, in its order")
    parser.add_argument("--epsilons", nargs="+", type=float)
    parser.add_argument("--seeds", nargs="+", type=int)
    for name, values in (("data", DATA), ("networks", NETWORKS), ("algorithms", tuple(ALGORITHMS))):
        parser.add_argument(f"--{name}", nargs="+", default=values)
    parser.add_argument("--items", nargs="+", help=f"default: {' '.join(FIRST)}, or those of the plan")
    return parser


def _wanted(options: argparse.Namespace) -> list[Wanted]:
    """The cells of the options, each once, in the order of a file, the plan or `ordered_cells`; of a part only."""
    if options.order is not None:
        return listed_cells(options.order)
    own = GridChoice(
        data=options.data,
        networks=options.networks,
        algorithms=options.algorithms,
        items=options.items or FIRST,
        epsilons=options.epsilons,
        seeds=options.seeds,
    )
    choices = [each.within(own, options.items) for each in PLAN] if options.plan else [own]
    cells = {cell_key(*pair): pair for choice in choices for pair in ordered_cells(choice, options.tiny)}
    number, count = map(int, options.part.split("/"))
    return list(cells.values())[number - 1 :: count]


def main() -> None:
    options = _parser().parse_args()
    if options.merge is not None:
        print(json.dumps({"added": merge(options.merge)}))
        return
    wanted = _wanted(options)
    how = GridRun(
        known=frozenset() if options.again else frozenset(Store(STORED).read()),
        retry=options.retry,
        wait=options.wait,
        claims=options.claims,
    )
    if options.list:
        for pair in wanted:
            if cell_key(*pair) not in how.known:
                print(pair[0], cell_name(pair[1]))
        return
    place = TrainingPlace(
        device=options.device,
        deadline=time.time() + options.limit,
        prices=PaperPrices("dpmlbench").path,
        progress=False,
        commit=options.commit,
        command=" ".join(["python -m research.papers._dpmlbench_grid", *sys.argv[1:]]),
    )
    store = Store(options.out / "cells.jsonl")
    sound = run_grid(wanted, store, place, how)
    known = store.read()
    keys = {cell_key(*pair) for pair in wanted}
    failed = sum("failed" in known[key].result for key in keys & set(known))
    print(json.dumps({"cells": len(keys), "done": len(keys & set(known)) - failed, "failed": failed}))
    sys.exit(0 if sound else 3)


if __name__ == "__main__":
    main()
