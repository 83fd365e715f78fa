"""`fit` without options on tables on which no default was chosen: nothing is declared, the whole budget is charged.

    python -m research.comparisons.unseen_tables run PACKAGES [--half check] [--limit SECONDS]
    python -m research.comparisons.unseen_tables merge CELLS.jsonl           # cells measured on another machine
    python -m research.papers._page unseen_tables

PACKAGES is the folder of unpacked packages (`_carried_tables.py`). `auto` is compared with the private constant at the
same budget, the constant without noise, and boosted trees without privacy (scikit-learn, with early stopping). Runs are
seeded, for comparison only.
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
from research.comparisons._carried_tables import TABLES, frames

ITEM = "benchmarks/unseen_tables"
OUT = Path("docs/results/unseen_tables")
EPSILONS = (1.0, 0.1, 0.3)
METHODS = ("auto", "private constant", "constant", "plain trees")
PRIVATE = METHODS[:2]
SEEDS = (0, 1, 2)
DELTA = 1e-5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "merge"))
    parser.add_argument("source", type=Path, help="the folder of packages, or cells that were measured elsewhere")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--half", choices=("look", "check"))
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    options = parser.parse_args()
    if options.verb == "merge":
        for line in options.source.read_text().splitlines():
            cell = json.loads(line)
            store(cell["settings"], cell["result"], options.out)
        return
    deadline = time.time() + options.limit
    for name in (name for name, table in TABLES.items() if options.half in (None, table.half)):
        for settings in cells(name, options.seeds):
            if time.time() < deadline and not _known(settings, options.out):
                store(settings, measured(options.source, settings), options.out)


def cells(name: str, seeds: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return the settings of every cell of a table; methods without privacy have neither epsilon nor seed."""
    runs = [
        {"table": name, "epsilon": epsilon, "seed": seed, "method": method}
        for seed in seeds
        for epsilon in EPSILONS
        for method in PRIVATE
    ]
    return [*({"table": name, "method": method} for method in METHODS if method not in PRIVATE), *runs]


def store(settings: dict[str, Any], result: dict[str, Any], out: Path) -> None:
    """Record a cell that is not stored yet."""
    if not _known(settings, out):
        record(out, ITEM, settings, {**result, "half": TABLES[settings["table"]].half})
        print(json.dumps({**settings, **result}), flush=True)


def measured(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the score on held-out rows: accuracy or R2."""
    train, held_out, target = frames(settings["table"], folder)
    task = TABLES[settings["table"]].task
    facts = {"rows": len(train), "columns": train.shape[1] - 1, "task": task}
    if settings["method"] not in PRIVATE:
        return {**facts, "score": _plain(train, held_out, target, task, settings["method"])}
    began = time.perf_counter()
    learner, score = _private(train, held_out, target, task, settings)
    return {**facts, "score": score, "learner": learner, "seconds": round(time.perf_counter() - began, 2)}


def _private(train: Any, held_out: Any, target: str, task: str, settings: dict[str, Any]) -> tuple[str, float]:
    """Return the learner and the score of the plan of `fit` for a file with no declared facts."""
    from privaware.data import Data, read, typed
    from privaware.noise import Rng
    from privaware.workflow.run.source import scoring
    from privaware.workflow.run.training_plan import training_plan

    files = []
    with tempfile.TemporaryDirectory() as folder:
        for name, frame in (("train", train), ("test", held_out)):
            path = Path(folder, f"{name}.csv")
            frame.to_csv(path, index=False)
            files.append(read(path))
    schema = replace(typed(files[0], target=target, task=task, unit="row", cap=1).bare(), reviewed=True)
    constant = "majority" if schema.classes else "mean"
    learner = "auto" if settings["method"] == "auto" else constant
    plan = training_plan(schema, epsilon=settings["epsilon"], delta=DELTA, learner=learner)
    kept = tuple(column.name for column in plan.schema.used)
    model = plan.mechanism.run(Data.uncoded(files[0], schema).keep(kept), plan.noise, Rng(seed=settings["seed"]))
    rows = Data.uncoded(files[1], scoring(schema))
    if model.schema.used:
        rows = rows.coded_by(scoring(model.schema)).keep(tuple(column.name for column in model.schema.used))
    else:
        rows = replace(rows, x=np.zeros((len(rows), 0)), schema=model.schema)
    return plan.learner, _score(model.predictions(rows), rows.y, classes=bool(schema.classes))


def _plain(train: Any, held_out: Any, target: str, task: str, method: str) -> float:
    """Return the score of the most frequent class or the mean of the training rows, or of boosted trees."""
    from pandas.api.types import is_numeric_dtype
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    classes = task == "classification"
    y, truth = (part[target].astype(str if classes else float).to_numpy() for part in (train, held_out))
    if method == "constant":
        labels, counts = np.unique(y, return_counts=True)
        return _score(np.full(len(truth), labels[counts.argmax()] if classes else y.mean()), truth, classes=classes)
    named = [name for name in train.columns if name != target and not is_numeric_dtype(train[name])]
    parts = [part.drop(columns=target).copy() for part in (train, held_out)]
    for name in named:
        common = {word: at for at, word in enumerate(train[name].astype(str).value_counts().index[:200])}
        for part in parts:
            part[name] = part[name].astype(str).map(common)
    make = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    trees = make(
        early_stopping=True, max_iter=500, learning_rate=0.07, random_state=0, categorical_features=named or None
    )
    return _score(trees.fit(parts[0].astype(float), y).predict(parts[1].astype(float)), truth, classes=classes)


def _score(predicted: np.ndarray, truth: np.ndarray, *, classes: bool) -> float:
    return float(np.mean(predicted == truth) if classes else 1 - np.mean((predicted - truth) ** 2) / np.var(truth))


def _known(settings: dict[str, Any], out: Path) -> bool:
    from privaware.bench._store import Store, cell_key

    return cell_key(ITEM, settings) in Store(out / "cells.jsonl").read()


if __name__ == "__main__":
    main()
