"""The study behind the choice of `auto` for a table: every candidate on every development table, at several budgets.

    python -m research.comparisons.table_choice [--tables NAME ...] [--seeds N] [--rows N] [--packages FOLDER]

It writes `privaware/workflow/auto/table.json`. Bounds are read from the rows and taken as public; runs are seeded.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from research.comparisons import _many_classes
from research.comparisons._development_tables import TABLES, load
from research.comparisons._table_peers import DELTA
from research.comparisons.tables import as_data

CHOSEN_ON = (
    *("credit_data", "hpc_data", "TitanicSurvival", "MplsStops"),
    *("diamonds", "gss_wages", "flights", "car_prices", "SaratogaHouses"),
)
"""The tables that the rule was chosen on; the others check it (two decisions saw both: see docs/results/tables.md)."""
EVIDENCE = Path("privaware/workflow/auto/table.json")
CANDIDATES: dict[str, dict[str, Any]] = {
    "linear": {"learner": "linear", "releases": ("target_range",)},
    "linear with bins": {"learner": "linear", "releases": ("bins", "target_range")},
    "boosted": {"learner": "boosted"},
    "boosted waves": {"learner": "fourier", "settings": {"count": 1024, "share": 0.4}},
    "amortised": {"learner": "amortised"},
    "waves": {
        "learner": "linear",
        "settings": {"features": [{"name": "table_fourier"}], "centre": 0.05},
        "releases": ("bins",),
    },
}
"""What is compared: the fields of a `Choice`."""
MANY_CLASSES = 5
"""The fewest classes for which the candidate `waves` is compared."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=[*TABLES, *_many_classes.TABLES])
    parser.add_argument("--epsilons", type=float, nargs="+", default=(0.1, 1.0, 8.0))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=5000, help="training rows at most")
    parser.add_argument("--packages", type=Path, help="the folder of `_carried_tables.py`, for three of the tables")
    options = parser.parse_args()
    for name in options.tables:
        for epsilon in options.epsilons:
            cell = measured(name, epsilon, options)
            known = json.loads(EVIDENCE.read_text())
            kept = [each for each in known if (each["table"], each["epsilon"]) != (name, epsilon)]
            lines = ",\n".join(json.dumps(each) for each in [*kept, cell])
            EVIDENCE.write_text(f"[\n{lines}\n]\n")
            print(json.dumps(cell), file=sys.stderr, flush=True)


def measured(name: str, epsilon: float, options: argparse.Namespace, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the mean score over the seeds of the constant and of each candidate, or of the candidates in `only`."""
    from privaware.noise import Rng
    from privaware.workflow.auto import Choice, constant_choice
    from privaware.workflow.run.training_plan import planned
    from privaware.workflow.run.trainings import with_releases

    scores: dict[str, list[float]] = {}
    for seed in range(options.seeds):
        table = load(name, seed) if name in TABLES else _many_classes.load(name, seed, options.packages)
        data, held_out = as_data(table, options.rows)
        schema = data.schema
        able = [each for each in able_candidates(schema) if not only or each in only]
        choices = {each: with_releases(Choice(**CANDIDATES[each]), schema) for each in able}
        for each, choice in {"constant": constant_choice(schema, "compared"), **choices}.items():
            plan = planned(schema, choice, {"epsilon": epsilon, "delta": DELTA}, None, {})
            predicted = plan.mechanism.run(data, plan.noise, Rng(seed=seed)).predictions(held_out)
            error = np.mean((predicted - held_out.y) ** 2) / np.var(held_out.y)
            score = np.mean(predicted == held_out.y) if schema.classes else 1 - error
            scores.setdefault(each, []).append(float(score))
    chosen_on = (*CHOSEN_ON, *_many_classes.TABLES)
    facts = {"table": name, "half": "choose" if name in chosen_on else "check", "rows": schema.rows, "epsilon": epsilon}
    means = {each: round(float(np.mean(values)), 4) for each, values in scores.items()}
    return {**facts, "columns": len(schema.used), "classes": len(schema.classes), "scores": means}


def able_candidates(schema: Any) -> list[str]:
    """The candidates that are compared for the target of a table."""
    from privaware.learners import find_learner

    if len(schema.classes) >= MANY_CLASSES:
        return ["linear with bins", "boosted", "waves"]
    able = [name for name, each in CANDIDATES.items() if schema.task in find_learner(each["learner"]).tasks]
    return [name for name in able if name != "waves"]


if __name__ == "__main__":
    main()
