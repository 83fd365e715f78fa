"""Linear heads on the prior's weights in half precision and rounded to eight bits: docs/results/prior.md.

    mkdir HALF
    for name in prior prior_glyphs prior_small prior_views; do
        git show 4f6b488:privaware/features/$name.safetensors > HALF/$name.safetensors
    done
    python -m research.comparisons.rounded_weights HALF --feature small --data cifar10 --rows 10000 --test 10000

Both heads learn from the same training rows with the same noise and are scored on the same test rows. `kept` is the
head of the half-precision weights on rows of the rounded weights: a model that was fitted before the rounding.
`changed` is the share of test rows that this model then puts into another class, and `outputs` is the mean change of
an output over the mean spread of the outputs of a row.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from privaware import accounting, datasets
from privaware.events import Gaussian
from privaware.features._prior.shipped import SHIPPED
from privaware.features.prior import Prior
from privaware.features.prior_views import PriorViews
from privaware.learners.linear import Linear
from privaware.noise import Rng

STEPS = 100
DELTA = 1e-5


def feature(name: str, folder: Path) -> Prior | PriorViews:
    """The feature `name` with the weights in a folder."""
    files = {each: str(folder / f"prior{each}.safetensors") for each in ("", "_glyphs", "_small", "_views")}
    if name == "views":
        return PriorViews(weights=files[""], statistics=files["_views"], mirror=False)
    if name == "large":
        return Prior(weights=files[""])
    return Prior(network=name, weights=files[f"_{name}"])


def noise_for(epsilon: float) -> float:
    """The noise multiplier of a head; nearly none for an infinite epsilon."""
    if math.isinf(epsilon):
        return 1e-3
    return accounting.calibrate(lambda noise: STEPS * Gaussian(noise=noise), epsilon, DELTA)


def compare(args: argparse.Namespace) -> None:
    """Prints one line for each epsilon: mean accuracies over the seeds, in per cent."""
    loaded = datasets.load(args.data)
    parts = (loaded.train, args.rows), (loaded.test, args.test)
    sides = []
    for folder in (args.half, SHIPPED.parent):
        transform, rows = feature(args.feature, folder), []
        for part, count in parts:
            x = transform(part.x[:count])
            schema = replace(part.schema, shape=(1, 1, x.shape[1]), rows=len(x))
            rows.append(replace(part, schema=schema, x=x[:, None, None], y=part.y[:count]))
        sides.append(rows)
    (half, half_test), (rounded, rounded_test) = sides
    apart = np.linalg.norm(half_test.x - rounded_test.x, axis=-1) / np.linalg.norm(half_test.x, axis=-1)
    facts: dict[str, Any] = {"data": args.data, "feature": args.feature, "rows": args.rows, "test": args.test}
    print(json.dumps(facts | {"seeds": args.seeds, "mean change of a row": round(float(apart.mean()), 5)}), flush=True)
    learner = Linear(features=[{"name": "bounded"}], steps=STEPS)
    for epsilon in args.epsilon:
        table = []
        for seed in range(args.seeds):
            old, new = (learner.run(rows, noise_for(epsilon), Rng(seed=seed)) for rows in (half, rounded))
            before, after = (old.outputs(rows.x) for rows in (half_test, rounded_test))
            decided = [old.decide(before), new.decide(new.outputs(rounded_test.x)), old.decide(after)]
            right = [float((each == half_test.y).mean()) for each in decided]
            moved = float(np.abs(after - before).mean() / before.std(axis=1).mean())
            table.append([*right, float((decided[0] != decided[2]).mean()), moved])
        mean = 100 * np.mean(table, axis=0)
        difference = 100 * (np.array(table)[:, 1] - np.array(table)[:, 0])
        names = ("half", "rounded", "kept", "changed", "outputs")
        line = {"epsilon": epsilon} | {name: round(float(value), 3) for name, value in zip(names, mean, strict=True)}
        line |= {"difference": round(float(difference.mean()), 3), "spread": round(float(difference.std(ddof=1)), 3)}
        print(json.dumps(line), flush=True)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("half", type=Path, help="folder of the weights files in half precision")
    parser.add_argument("--feature", choices=("small", "glyphs", "large", "views"), default="small")
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--test", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, math.inf])
    compare(parser.parse_args())


if __name__ == "__main__":
    main()
