"""`auto` beside other private learners on development tables: the same rows, bounds, splits and budgets.

    python -m research.comparisons.tables write FOLDER  # tables as files; needs the extra `benchmarks`
    python research/comparisons/_table_peers.py PEER --tables FOLDER --out PEERS.jsonl  # each in its own environment
    python -m research.comparisons.tables run FOLDER --out docs/results/tables [--limit SECONDS]
    python -m research.comparisons.tables merge PEERS.jsonl --out docs/results/tables
    python -m research.papers._page tables

Bounds and categories are read from the rows and taken as public for every method. Runs are seeded, for comparison only.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from research.comparisons import record
from research.comparisons._development_tables import TABLES, read, write
from research.comparisons._table_peers import DELTA, EPSILONS, scores

ITEM = "benchmarks/tables"
SEEDS = (0, 1, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("write", "run", "merge"))
    parser.add_argument("source", type=Path, help="a folder of tables, or the cells of a peer")
    parser.add_argument("--out", type=Path, default=Path("docs/results/tables"))
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--learner", default="auto")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    options = parser.parse_args()
    if options.verb == "write":
        write(options.source, tuple(options.tables), tuple(options.seeds))
    elif options.verb == "merge":
        merge(options.source, options.out)
    else:
        run(options)


def run(options: argparse.Namespace) -> None:
    """Measure the cells of this package that are not stored yet."""
    deadline = time.time() + options.limit
    for settings in _missing(options):
        if time.time() > deadline:
            break
        table = SimpleNamespace(**read(options.source / f"{settings['table']}-{settings['seed']}.npz"))
        began = time.perf_counter()
        learner, result = fit_auto(table, settings["epsilon"], settings["seed"], options.learner)
        result |= {"learner": learner, "seconds": round(time.perf_counter() - began, 2)}
        print(json.dumps({**settings, **result}), flush=True)
        record(options.out, ITEM, settings, result)


def _missing(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    from privaware.bench._store import Store, cell_key

    known = Store(options.out / "cells.jsonl").read()
    for seed in options.seeds:
        for name in options.tables:
            for epsilon in options.epsilons:
                settings = {"table": name, "epsilon": epsilon, "seed": seed, "method": options.learner}
                if cell_key(ITEM, settings) not in known:
                    yield settings


def fit_auto(table: Any, epsilon: float, seed: int, learner: str = "auto") -> tuple[str, dict[str, Any]]:
    """Return the learner of the plan, and the scores of its model on held-out rows."""
    from privaware.noise import Rng
    from privaware.workflow.run.training_plan import training_plan

    data, held_out = as_data(table)
    plan = training_plan(data.schema, epsilon=epsilon, delta=DELTA, learner=learner)
    model = plan.mechanism.run(data, plan.noise, Rng(seed=seed))
    answers = model.probabilities(held_out) if table.classes else model.predictions(held_out)
    return plan.learner, scores(answers, table)


def as_data(table: Any, rows: int | None = None) -> tuple[Any, Any]:
    """Return training rows, at most `rows` of them, and held-out rows."""
    from privaware.data import Data

    schema = replace(declared(table), rows=len(table.y[:rows]))
    data = Data(schema=schema, x=table.x[:rows], y=table.y[:rows])
    return data, Data(schema=schema, x=table.test_x, y=table.test_y)


def declared(table: Any) -> Any:
    """Return the schema of a table."""
    from privaware.schema import Column, Schema

    columns = []
    for name, low, high, levels in zip(table.names, table.low, table.high, table.levels):
        if levels:
            categories = tuple(f"level {level}" for level in range(levels))
            columns.append(
                Column(name=str(name), kind="category", categories=categories, unseen="other", missing="category")
            )
        else:
            columns.append(Column(name=str(name), low=float(low), high=float(high), missing="category"))
    if table.classes:
        return Schema(
            columns=tuple(columns), classes=tuple(f"class {label}" for label in range(table.classes)), rows=len(table.y)
        )
    return Schema(columns=tuple(columns), low=float(table.y_low), high=float(table.y_high), rows=len(table.y))


def merge(source: Path, out: Path) -> None:
    """Store the cells in a peer's file that the store lacks."""
    from privaware.bench._store import Store, cell_key

    known = Store(out / "cells.jsonl").read()
    for line in source.read_text().splitlines():
        cell = json.loads(line)
        settings = {key: cell.pop(key) for key in ("table", "epsilon", "seed", "method")}
        if cell_key(ITEM, settings) not in known:
            record(out, ITEM, settings, cell)


if __name__ == "__main__":
    main()
