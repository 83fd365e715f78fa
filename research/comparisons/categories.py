"""`auto` and single learners on tables of categories: every learner at every budget, with and without a schema.

    python -m research.comparisons.categories run PACKAGES [--half look] [--methods NAME ...] [--limit SECONDS]
    python -m research.comparisons.categories show [--half look]
    python -m research.papers._page categories

PACKAGES is the folder of unpacked packages (`_categorical_tables.py`). With a schema, bounds and categories are read
from the rows and taken as public; without one they are bought. Cells that are stored are not measured again. Runs are
seeded, for comparison only.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from privaware.bench._store import Store, cell_key
from privaware.data import Data, read, typed
from privaware.noise import Rng
from privaware.workflow.auto import Choice, constant_choice
from privaware.workflow.run.source import scoring
from privaware.workflow.run.training_plan import planned, training_plan
from privaware.workflow.run.trainings import with_releases
from research.comparisons import record
from research.comparisons._categorical_tables import TABLES, frame
from research.comparisons._development_tables import split
from research.comparisons.tables import as_data

ITEM = "benchmarks/categories"
OUT = Path("docs/results/categories")
DELTA = 1e-5
EPSILONS = (0.1, 0.3, 1.0, 3.0, 8.0)
BINNED = ("bins", "target_range")
METHODS: dict[str, dict[str, Any]] = {
    "auto": {},
    "constant": {},
    "linear": {"learner": "linear", "releases": BINNED},
    "additive": {"learner": "additive"},
    "boosted": {"learner": "boosted", "releases": ("bins",)},
    "fourier": {"learner": "fourier", "settings": {"count": 1024, "share": 0.4}, "releases": ("bins",)},
    "waves": {
        "learner": "linear",
        "settings": {"features": [{"name": "table_fourier"}], "centre": 0.05},
        "releases": BINNED,
    },
    "network": {"learner": "dpsgd", "releases": ("target_range",)},
}
"""What is compared: `auto`, the private constant, and the fields of a `Choice`."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "show"))
    parser.add_argument("packages", type=Path, nargs="?", default=Path())
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--half", choices=("look", "check"))
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--bought", action="store_true", help="buy bounds and categories instead of declaring them")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    options = parser.parse_args()
    options.tables = [name for name in options.tables if options.half in (None, TABLES[name].half)]
    run(options) if options.verb == "run" else show(options)


def run(options: argparse.Namespace) -> None:
    """Measure the cells that are not stored yet."""
    deadline = time.time() + options.limit
    for settings in _missing(options):
        if time.time() > deadline:
            break
        began = time.perf_counter()
        result = measured(settings, options.packages)
        result |= {"half": TABLES[settings["table"]].half, "seconds": round(time.perf_counter() - began, 2)}
        record(options.out, ITEM, settings, result)
        print(json.dumps({**settings, **result}), flush=True)


def _missing(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    known = Store(options.out / "cells.jsonl").read()
    schema = "bought" if options.bought else "declared"
    for name in options.tables:
        for seed in range(options.seeds):
            for epsilon in options.epsilons:
                for method in options.methods:
                    cell = {"table": name, "method": method, "epsilon": epsilon, "seed": seed, "schema": schema}
                    if cell_key(ITEM, cell) not in known:
                        yield cell


def measured(settings: dict[str, Any], packages: Path) -> dict[str, Any]:
    """Return the learner and the score on held-out rows: accuracy or R2."""
    declared = settings["schema"] == "declared"
    data, held_out = (_declared if declared else _bought)(settings["table"], settings["seed"], packages)
    plan = _plan(data.schema, settings["method"], settings["epsilon"])
    data = data if declared else data.keep(tuple(column.name for column in plan.schema.used))
    model = plan.mechanism.run(data, plan.noise, Rng(seed=settings["seed"]))
    if not declared:
        held_out = _read_by(model, held_out, data.schema)
    predicted, truth = model.predictions(held_out), held_out.y
    if data.schema.classes:
        score = float(np.mean(predicted == truth))
    else:
        score = float(1 - np.mean((predicted - truth) ** 2) / np.var(truth))
    return {"score": round(score, 5), "learner": plan.learner, "rows": data.schema.rows}


def _plan(schema: Any, method: str, epsilon: float) -> Any:
    if method == "auto":
        return training_plan(schema, epsilon=epsilon, delta=DELTA)
    budget = {"epsilon": epsilon, "delta": DELTA}
    if method == "constant":
        return planned(schema, constant_choice(schema, "compared"), budget, None, {})
    return planned(schema, with_releases(Choice(**METHODS[method]), schema), budget, None, {})


@lru_cache(maxsize=1)
def _declared(name: str, seed: int, packages: Path) -> tuple[Any, Any]:
    return as_data(split(*frame(name, seed, packages)))


def _bought(name: str, seed: int, packages: Path) -> tuple[Any, Any]:
    """Return training and held-out rows as a file without a schema gives them."""
    columns, target, task = frame(name, seed, packages)
    rows, cut = columns.assign(target=target), len(columns) * 4 // 5
    files = []
    with tempfile.TemporaryDirectory() as folder:
        for at, part in enumerate((rows.iloc[:cut], rows.iloc[cut:])):
            path = Path(folder, f"{at}.csv")
            part.to_csv(path, index=False)
            files.append(read(path))
    schema = replace(typed(files[0], target="target", task=task, unit="row", cap=1).bare(), reviewed=True)
    return Data.uncoded(files[0], schema), files[1]


def _read_by(model: Any, file: Any, schema: Any) -> Any:
    """Return the held-out rows of a file as a model reads them."""
    rows = Data.uncoded(file, scoring(schema))
    if not model.schema.used:
        return replace(rows, x=np.zeros((len(rows), 0)), schema=model.schema)
    return rows.coded_by(scoring(model.schema)).keep(tuple(column.name for column in model.schema.used))


def show(options: argparse.Namespace) -> None:
    """Print the mean scores."""
    scores: dict[Any, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell in Store(options.out / "cells.jsonl").read().values():
        key = (cell.settings["schema"], cell.settings["table"], cell.settings["epsilon"])
        scores[key][cell.settings["method"]].append(cell.result["score"])
    for (schema, table, epsilon), by_method in scores.items():
        if table in options.tables and schema == ("bought" if options.bought else "declared"):
            means = {method: float(np.mean(values)) for method, values in by_method.items()}
            shown = "  ".join(f"{method} {means[method]:.3f}" for method in options.methods if method in means)
            print(f"{table:15} {epsilon:4g}  {shown}")


if __name__ == "__main__":
    main()
