"""Measures the curves from which `advise` answers, and checks its answers on other tables.

    python -m research.comparisons.advise curves PACKAGES    # accuracy of `fit` on the tables of the curves
    python -m research.comparisons.advise write              # the measured curves, as the file of the package
    python -m research.comparisons.advise cases PACKAGES     # asked accuracies, answers, and what `fit` reaches there
    python -m research.papers._page advise

PACKAGES is the folder of unpacked packages (`_advise_tables.py`). Runs are seeded, for comparison only.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from research.comparisons import record
from research.comparisons._advise_tables import CASES, CURVES, frames

OUT = Path("docs/results/advise")
CURVE = "advise/curve"
DELTA = 1e-5
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
SEEDS = (0, 1)
SMALL_ROWS = 1000
"""Number of rows of the smaller version of a table."""
LARGE_ROWS = 8000
"""Largest number of rows of a table."""
MANY_CLASSES_ROWS = 3000
"""Largest number of rows of a table with five classes or more, on which training is slow."""


def curves(packages: Path, out: Path) -> None:
    """Measure the accuracy of `fit` on each table of the curves, at one or two numbers of rows."""
    for name in CURVES:
        train, _, target = frames(name, packages)
        most = MANY_CLASSES_ROWS if train[target].nunique() >= 5 else LARGE_ROWS
        full = min(len(train), most)
        for rows in (full, SMALL_ROWS) if full >= 2 * SMALL_ROWS else (full,):
            for epsilon in EPSILONS:
                for seed in SEEDS:
                    settings = {"table": name, "rows": rows, "epsilon": epsilon, "seed": seed}
                    if not known(CURVE, settings, out):
                        store(CURVE, settings, measured(packages, settings), out)


def measured(packages: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the accuracy on held-out rows of the plan of `fit` for a file with no declared facts."""
    from privaware.data import Data, read, typed
    from privaware.noise import Rng
    from privaware.workflow.run.source import scoring
    from privaware.workflow.run.training_plan import training_plan

    train, held_out, target = frames(settings["table"], packages)
    began = time.perf_counter()
    files = []
    with tempfile.TemporaryDirectory() as folder:
        for name, frame in (("train", train.iloc[: settings["rows"]]), ("test", held_out)):
            path = Path(folder, f"{name}.csv")
            frame.to_csv(path, index=False)
            files.append(read(path))
    schema = typed(files[0], target=target, task="classification", unit="row", cap=1).bare()
    schema = replace(schema, reviewed=True)
    plan = training_plan(schema, epsilon=settings["epsilon"], delta=DELTA)
    rows = Data.uncoded(files[1], scoring(schema))
    labels, counts = np.unique(train[target].astype(str), return_counts=True)
    constant = float(np.mean(held_out[target].astype(str) == labels[counts.argmax()]))
    result = {"classes": len(schema.classes), "columns": len(schema.used), "learner": plan.learner}
    result["constant"] = constant
    if plan.learner == "majority":
        return {**result, "accuracy": constant, "seconds": 0.0}
    kept = tuple(column.name for column in plan.schema.used)
    model = plan.mechanism.run(Data.uncoded(files[0], schema).keep(kept), plan.noise, Rng(seed=settings["seed"]))
    rows = rows.coded_by(scoring(model.schema)).keep(tuple(column.name for column in model.schema.used))
    accuracy = float(np.mean(model.predictions(rows) == rows.y))
    return {**result, "accuracy": accuracy, "seconds": round(time.perf_counter() - began, 2)}


def store(item: str, settings: dict[str, Any], result: dict[str, Any], out: Path) -> None:
    record(out, item, settings, result)
    print(json.dumps({**settings, **result}), flush=True)


def known(item: str, settings: dict[str, Any], out: Path) -> bool:
    from privaware.bench._store import Store, cell_key

    return cell_key(item, settings) in Store(out / "cells.jsonl").read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("curves", "write", "cases"))
    parser.add_argument("packages", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if options.verb == "curves":
        curves(options.packages, options.out)


if __name__ == "__main__":
    main()
