"""The study behind `--metric mae`: absolute errors with and without the settings for it, on skewed tables.

    python -m research.comparisons.metric_choice [--tables NAME ...] [--seeds N] [--rows N]

It prints one line for each cell: the error divided by the error of the exact median, without and with the metric.
Bounds are read from the rows and taken as public; runs are seeded.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from research.comparisons._development_tables import load
from research.comparisons._table_peers import DELTA
from research.comparisons.tables import as_data

SKEWED = ("gss_wages", "medical_cost", "flights", "diamonds", "car_prices", "SaratogaHouses")


def measured(name: str, epsilon: float, options: argparse.Namespace) -> dict[str, Any]:
    """Return the mean error of each learner for each metric over the seeds."""
    from privaware.noise import Rng
    from privaware.workflow._recipe import Recipe
    from privaware.workflow.run.training_plan import recipe_plan

    errors: dict[str, list[float]] = {}
    for seed in range(options.seeds):
        data, held_out = as_data(load(name, seed), options.rows)
        schema = data.schema
        unit = np.abs(held_out.y - np.median(data.y)).mean()
        errors.setdefault("mean", []).append(np.abs(held_out.y - data.y.mean()).mean() / unit)
        for learner in ("linear", "boosted"):
            for metric in ("r2", "mae"):
                recipe = Recipe(learner=learner, metric=metric, target_range=learner == "linear")
                plan = recipe_plan(schema, recipe, {"epsilon": epsilon, "delta": DELTA})
                predicted = plan.mechanism.run(data, plan.noise, Rng(seed=seed)).predictions(held_out)
                errors.setdefault(f"{learner}, {metric}", []).append(np.abs(predicted - held_out.y).mean() / unit)
    means = {each: round(float(np.mean(values)), 3) for each, values in errors.items()}
    return {"table": name, "rows": schema.rows, "epsilon": epsilon, **means}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(SKEWED))
    parser.add_argument("--epsilons", type=float, nargs="+", default=(0.2, 1.0))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=3000, help="training rows at most")
    options = parser.parse_args()
    for name in options.tables:
        for epsilon in options.epsilons:
            print(json.dumps(measured(name, epsilon, options)), flush=True)


if __name__ == "__main__":
    main()
