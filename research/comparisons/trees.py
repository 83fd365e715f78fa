"""The time that `boosted` takes for thousands of trees on the rows of Adult, with a class or a number as target.

    python -m research.comparisons.trees [--trees 400 2000 4000] [--out docs/results/scale]
    python -m research.papers._page scale

Runs use one thread; the time includes no reading of files and no accounting. Runs are seeded, for comparison only.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from research.comparisons import record

ITEM = "benchmarks/trees"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, nargs="+", default=(400, 2000, 4000))
    parser.add_argument("--out", type=Path, default=Path("docs/results/scale"))
    options = parser.parse_args()

    from privaware import datasets
    from privaware.learners.boosted import Boosted
    from privaware.noise import Rng

    people = datasets.load("adult").train
    ages = replace(people, schema=replace(people.schema, classes=(), low=0.0, high=100.0), y=people.x[:, 0])
    Boosted(trees=1).run(people, 3.0, Rng(seed=0))  # the first run imports modules, so it is not timed
    for target, data in (("two classes", people), ("a number", ages)):
        for trees in options.trees:
            began, cpu = time.perf_counter(), time.process_time()
            Boosted(trees=trees).run(data, 3.0, Rng(seed=1))
            result = {
                "seconds": round(time.perf_counter() - began, 1),
                "cpu_seconds": round(time.process_time() - cpu, 1),
                "load": round(os.getloadavg()[0], 1),
            }
            settings = {"rows": len(data), "columns": int(np.shape(data.x)[1]), "target": target, "trees": trees}
            print(settings, result, flush=True)
            record(options.out, ITEM, settings, result)


if __name__ == "__main__":
    main()
