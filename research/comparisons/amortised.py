"""`amortised` beside other learners of this package on the development tables with classes, at small budgets.

    python -m research.comparisons.tables write FOLDER  # tables as files; needs the extra `benchmarks`
    python -m research.comparisons.amortised run FOLDER [--methods NAME ...] [--limit SECONDS]
    python -m research.comparisons.amortised merge CELLS.jsonl  # cells measured on another machine
    python -m research.comparisons.amortised weights FOLDER --earlier FILE  # shipped weights beside earlier ones
    python -m research.papers._page amortised

Bounds and categories are read from the rows and taken as public; every method has the same budget. Runs are seeded.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from research.comparisons import record
from research.comparisons._development_tables import TABLES, read
from research.comparisons._table_peers import DELTA
from research.comparisons.table_choice import CHOSEN_ON
from research.comparisons.tables import as_data

ITEM = "benchmarks/amortised"
WEIGHTS = "benchmarks/amortised/weights"
OUT = Path("docs/results/amortised")
EPSILONS = (0.05, 0.1, 0.3, 1.0)
METHODS = ("auto", "amortised 1", "amortised 2", "amortised 3", "additive", "boosted", "linear", "constant")
"""Compared methods; the number after `amortised` is its number of rounds."""
SEEDS = (0, 1, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "merge", "weights"))
    parser.add_argument("source", type=Path, help="a folder of tables, or cells that were measured elsewhere")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--tables", nargs="+", default=[name for name, facts in TABLES.items() if "class" in facts[2]])
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--earlier", type=Path, help="other weights, for `weights`")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    options = parser.parse_args()
    if options.verb == "merge":
        for line in options.source.read_text().splitlines():
            cell = json.loads(line)
            store({key: cell.pop(key) for key in ("table", "epsilon", "seed", "method")}, cell, options.out)
        return
    if options.verb == "weights":
        compare_weights(options)
        return
    deadline = time.time() + options.limit
    for settings in _cells(options):
        if time.time() < deadline and not _known(settings, options.out):
            table = SimpleNamespace(**read(options.source / f"{settings['table']}-{settings['seed']}.npz"))
            store(settings, measured(table, settings["epsilon"], settings["seed"], settings["method"]), options.out)


def store(settings: dict[str, Any], result: dict[str, Any], out: Path) -> None:
    """Record a cell that is not stored yet, with the half of the tables to which it belongs."""
    if "failed" not in result and not _known(settings, out):
        half = "choose" if settings["table"] in CHOSEN_ON else "check"
        record(out, ITEM, settings, {**result, "half": half})
        print(json.dumps({**settings, **result}), flush=True)


def compare_weights(options: argparse.Namespace) -> None:
    """Measure two rounds with the shipped weights and with earlier weights, on every table."""
    for settings in _cells(argparse.Namespace(**{**vars(options), "methods": ("shipped", "earlier")})):
        table = SimpleNamespace(**read(options.source / f"{settings['table']}-{settings['seed']}.npz"))
        weights = options.earlier if settings["method"] == "earlier" else None
        result = measured(table, settings["epsilon"], settings["seed"], "amortised 2", weights)
        kept = {key: round(result[key], 5) for key in ("accuracy", "loss")}
        half = "choose" if settings["table"] in CHOSEN_ON else "check"
        record(options.out, WEIGHTS, settings, {**kept, "half": half})


def measured(table: Any, epsilon: float, seed: int, method: str, weights: Path | None = None) -> dict[str, Any]:
    """Return scores on held-out rows of a model trained by the plan of `fit --learner`."""
    from sklearn.metrics import roc_auc_score

    from privaware.noise import Rng
    from privaware.workflow.run.training_plan import training_plan

    began, (data, held_out) = time.perf_counter(), as_data(table)
    name, _, rounds = method.partition(" ")
    name, settings = ("majority" if name == "constant" else name), dict[str, Any](rounds=int(rounds)) if rounds else {}
    settings |= {"weights": str(weights)} if weights else {}
    plan = training_plan(data.schema, epsilon=epsilon, delta=DELTA, learner=name, settings=settings)
    model = plan.mechanism.run(data, plan.noise, Rng(seed=seed))
    chances = np.clip(model.probabilities(held_out), 1e-6, 1)
    y, classes = table.test_y.astype(int), range(1, 2) if table.classes == 2 else range(table.classes)
    return {
        "accuracy": float((chances.argmax(1) == y).mean()),
        "auc": float(
            np.mean([roc_auc_score(y == label, chances[:, label]) for label in classes if (y == label).any()])
        ),
        "loss": float(-np.log(chances[np.arange(len(y)), y]).mean()),
        "learner": plan.learner,
        "seconds": round(time.perf_counter() - began, 2),
    }


def _cells(options: argparse.Namespace) -> list[dict[str, Any]]:
    return [
        {"table": table, "epsilon": epsilon, "seed": seed, "method": method}
        for seed in options.seeds
        for epsilon in options.epsilons
        for method in options.methods
        for table in options.tables
    ]


def _known(settings: dict[str, Any], out: Path) -> bool:
    from privaware.bench._store import Store, cell_key

    return cell_key(ITEM, settings) in Store(out / "cells.jsonl").read()


if __name__ == "__main__":
    main()
