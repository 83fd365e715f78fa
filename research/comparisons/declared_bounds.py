"""`auto` on tables with declared bounds, with and without closer bounds and bins, and without a schema.

    python -m research.comparisons.declared_bounds [--tables NAME ...] [--epsilons E ...] [--seeds N ...]
        [--limit SECONDS]
    python -m research.papers._page tables

Tables are those of `_development_tables.py`, at most `MAX_ROWS` rows each, a fifth held out. Declared bounds
are those that `--accept-schema` drafts: the next 1, 2 or 5 times a power of ten beyond the rows. Runs are seeded, for
comparison only. Missing words become a word of their own, and rows with a missing number are left out, because the
draft of a schema refuses a missing value that only test rows have. `--limit` starts no further run after this many
seconds; a later call continues.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from research.comparisons import _development_tables, record

ITEM = "benchmarks/declared_bounds"
OUT = Path("docs/results/declared_bounds")
CLASSES = ("credit_data", "mlc_churn", "hpc_data", "TitanicSurvival", "attrition", "RandHIE", "adult")
NUMBERS = ("SaratogaHouses", "ames", "car_prices", "gss_wages", "diamonds", "medical_cost")
TABLES = (*CLASSES, *NUMBERS)
MAX_ROWS = 5_000
METHODS = ("no schema", "declared", "declared without bins")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(6)))
    parser.add_argument("--limit", type=float, default=float("inf"))
    options = parser.parse_args()
    began = time.monotonic()
    runs = [
        {"table": name, "epsilon": epsilon, "seed": seed, "method": method}
        for seed in options.seeds
        for epsilon in options.epsilons
        for name in options.tables
        for method in METHODS
    ]
    for settings in runs:
        if not _known(settings, options.out) and time.monotonic() - began < options.limit:
            result = measured(settings)
            record(options.out, ITEM, settings, result)
            print(json.dumps({**settings, **result}), flush=True)


def measured(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the learner, the score on held-out rows, and the score of the constant."""
    from privaware import fit

    frame, y, task = _development_tables._frame(settings["table"], settings["seed"])
    words = frame.select_dtypes(exclude="number")
    rows = frame.assign(**words.astype(object).fillna("absent"), outcome=y).dropna()[:MAX_ROWS]
    cut = len(rows) * 4 // 5
    more: dict[str, Any] = {} if settings["method"] == "no schema" else {"accept_schema": True}
    if settings["method"] == "declared without bins":
        more["policy"] = _without_bins()
    with tempfile.TemporaryDirectory() as place:
        rows[:cut].to_csv(Path(place, "train.csv"), index=False)
        rows[cut:].to_csv(Path(place, "test.csv"), index=False)
        fitted = fit(
            Path(place, "train.csv"),
            target="outcome",
            task=task,
            epsilon=settings["epsilon"],
            test=Path(place, "test.csv"),
            seed=settings["seed"],
            ledger=Path(place, "ledger"),
            **more,
        )
    scores = {name: fitted.internal.get(f"{name}_score") for name in ("test", "constant")}
    return {
        "learner": fitted.learner,
        "score": None if scores["test"] is None else round(scores["test"], 4),
        "constant": None if scores["constant"] is None else round(scores["constant"], 4),
        "rows": cut,
        "task": task,
    }


def _without_bins() -> dict[str, Any]:
    """Return the default policy without the release of bins before the learners of tables."""
    policy = tomllib.loads(files("privaware.workflow.auto").joinpath("policy.toml").read_text(encoding="utf-8"))
    for rule in policy["rule"]:
        if rule["when"].get("form") == "table":
            rule["use"].pop("before", None)
    return {**policy, "name": "without bins"}


def _known(settings: dict[str, Any], out: Path) -> bool:
    from privaware.bench._store import Store, cell_key

    return cell_key(ITEM, settings) in Store(out / "cells.jsonl").read()


if __name__ == "__main__":
    main()
