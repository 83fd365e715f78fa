"""`auto` on Adult with its declared schema, with everything charged, over ten seeds.

    python -m research.comparisons.adult [--out docs/results/tables] [--seeds 10]

The training rows are the 32,561 rows of the published split, and scores are on its 16,281 test rows. Runs are seeded,
for comparison only. Finished cells are not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from research.comparisons import record
from research.comparisons._table_peers import DELTA

ITEM = "benchmarks/adult"
EPSILONS = (0.05, 0.1, 1.0, 8.0)


def main() -> None:
    from privaware import datasets
    from privaware.bench._store import Store, cell_key
    from privaware.noise import Rng
    from privaware.workflow.run.training_plan import training_plan

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results/tables"))
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    data, known = datasets.load("adult"), Store(options.out / "cells.jsonl").read()
    for seed in range(options.seeds):
        for epsilon in EPSILONS:
            settings = {"table": "adult", "epsilon": epsilon, "seed": seed, "method": "auto"}
            if cell_key(ITEM, settings) in known:
                continue
            began = time.perf_counter()
            plan = training_plan(data.train.schema, epsilon=epsilon, delta=DELTA)
            model = plan.mechanism.run(data.train, plan.noise, Rng(seed=seed))
            accuracy = float(np.mean(model.predictions(data.test) == data.test.y))
            result = {"accuracy": accuracy, "learner": plan.learner, "seconds": round(time.perf_counter() - began, 2)}
            print(json.dumps({**settings, **result}), flush=True)
            record(options.out, ITEM, settings, result)


if __name__ == "__main__":
    main()
