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
import math
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from privaware.bench._store import Cell, Store, cell_key
from research.comparisons import record
from research.comparisons._advise_tables import CASES, CURVES, frames

OUT = Path("docs/results/advise")
FILE = Path("privaware/workflow/curves.json")
COMMAND = "python -m research.comparisons.advise write"
CURVE = "advise/curve"
FIT = "advise/fit"
CASE = "advise/case"
PILOT = 0.2
"""Epsilon of a pilot; a table with too few rows for it gets the pilot that the refusal recommends."""
ASKED_AT = (0.3, 1.0, 3.0, 10.0)
"""Epsilons whose accuracies are asked for."""
EACH = 3
"""Number of accuracies that are asked for on one table."""
CASES_WANTED = 60
CLEARLY = 0.005
"""Difference to the accuracy of a constant above which an accuracy is asked for."""
OTHER_SEEDS = (10, 11)
"""Seeds of the runs at the epsilon of an answer."""
FEWEST_POINTS = 2
"""Number of epsilons at which a curve must have a trained model."""
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


def cases(packages: Path, out: Path) -> None:
    """Ask `advise` for accuracies that `fit` reached, and measure what `fit` reaches at the epsilon of the answer.

    The accuracies are those of three epsilons at which `fit` trains a model, unless a constant reaches them, too.
    """
    number = 0
    for name in CASES:
        if number >= CASES_WANTED:
            break
        asked: dict[float, float] = {}
        for epsilon in ASKED_AT:
            if len(asked) == EACH:
                break
            runs = [_stored(packages, out, name, epsilon, seed) for seed in SEEDS]
            accuracy = round(float(np.mean([run["accuracy"] for run in runs])), 2)
            if runs[0]["learner"] != "majority" and accuracy > runs[0]["constant"] + CLEARLY:
                asked[epsilon] = accuracy
        if all(known(CASE, {"table": name, "asked_at": epsilon}, out) for epsilon in asked):
            number += len(asked)
            continue
        for epsilon, result in _answers(packages, out, name, asked).items():
            if number < CASES_WANTED:
                store_once(CASE, {"table": name, "asked_at": epsilon}, result, out)
                number += 1


def _answers(packages: Path, out: Path, name: str, asked: Mapping[float, float]) -> dict[float, dict[str, Any]]:
    """Return, for each asked accuracy, the answer after one pilot, and the accuracy of `fit` at its epsilon."""
    from privaware.workflow._answer import answer_for, least_epsilon
    from privaware.workflow.advise import HELD_OUT, INFORMATIVE, charged_pilot
    from privaware.workflow.run.options import RunOptions
    from privaware.workflow.run.source import resolve

    train, _, target = frames(name, packages)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.csv")
        train.to_csv(path, index=False)
        options = RunOptions(target=target, task="classification", seed=0, say=lambda sentence: None)
        schema = resolve(path, options).schema
        least = least_epsilon(schema, DELTA) / (1 - HELD_OUT)
        pilot = PILOT if least <= PILOT else math.ceil(10 * INFORMATIVE * least) / 10
        released, _ = charged_pilot(path, options, pilot=pilot, epsilon=1.0)
    found = {}
    for epsilon, accuracy in asked.items():
        estimate = answer_for(schema, DELTA, accuracy, released).estimate
        named = estimate["epsilon"]
        runs = [] if named is None else [_stored(packages, out, name, named, seed) for seed in OTHER_SEEDS]
        reached = float(np.mean([run["accuracy"] for run in runs])) if runs else None
        facts = {"rows": schema.rows, "classes": len(schema.classes), "pilot": pilot}
        found[epsilon] = {**facts, "asked": accuracy, **estimate, "reached": reached, "at_1": _at_one(out, name)}
    return found


def _stored(packages: Path, out: Path, name: str, epsilon: float, seed: int) -> Mapping[str, Any]:
    """Return the result of one run of `fit` on all training rows of a table, measured once."""
    settings = {"table": name, "epsilon": epsilon, "seed": seed}
    if not known(FIT, settings, out):
        store(FIT, settings, measured(packages, {**settings, "rows": None}), out)
    return _cells(out)[cell_key(FIT, settings)].result


def _at_one(out: Path, name: str) -> float:
    """Return the accuracy of `fit` at epsilon 1."""
    runs = [_cells(out)[cell_key(FIT, {"table": name, "epsilon": 1.0, "seed": seed})].result for seed in SEEDS]
    return float(np.mean([run["accuracy"] for run in runs]))


def write(out: Path) -> None:
    """Write the measured curves as the file of the package: the mean over seeds where `fit` trained a model."""
    groups: dict[tuple[str, int], dict[float, list[Mapping[str, Any]]]] = {}
    for cell in Store(out / "cells.jsonl").of(CURVE):
        table, rows, epsilon = (cell.settings[name] for name in ("table", "rows", "epsilon"))
        groups.setdefault((table, rows), {}).setdefault(epsilon, []).append(cell.result)
    lines = []
    for (table, rows), by_epsilon in groups.items():
        trained = {e: runs for e, runs in sorted(by_epsilon.items()) if runs[0]["learner"] != "majority"}
        if len(trained) < FEWEST_POINTS:
            continue
        first = next(iter(trained.values()))[0]
        curve = {"table": table, "rows": rows, "classes": first["classes"], "constant": round(first["constant"], 4)}
        accuracies = [round(float(np.mean([run["accuracy"] for run in runs])), 4) for runs in trained.values()]
        lines.append(json.dumps({**curve, "epsilons": list(trained), "accuracies": accuracies}))
    joined = ",\n".join(lines)
    FILE.write_text(f'{{"written_by": "{COMMAND}",\n"curves": [\n{joined}\n]}}\n')


def store(item: str, settings: dict[str, Any], result: dict[str, Any], out: Path) -> None:
    record(out, item, settings, result)
    print(json.dumps({**settings, **result}), flush=True)


def store_once(item: str, settings: dict[str, Any], result: dict[str, Any], out: Path) -> None:
    if not known(item, settings, out):
        store(item, settings, result, out)


def known(item: str, settings: dict[str, Any], out: Path) -> bool:
    return cell_key(item, settings) in _cells(out)


def _cells(out: Path) -> dict[str, Cell]:
    return Store(out / "cells.jsonl").read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("curves", "write", "cases"))
    parser.add_argument("packages", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if options.verb == "curves":
        curves(options.packages, options.out)
    elif options.verb == "write":
        write(options.out)
    else:
        cases(options.packages, options.out)


if __name__ == "__main__":
    main()
