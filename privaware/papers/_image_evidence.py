"""Measures the table that `auto` cites for images, workflow/image_evidence.json: representations with a linear head.

python -m privaware.papers._image_evidence digits mnist fashion_mnist svhn cifar10

Rows are a fixed sample of each data set's training part, scores are of a sample of its test part; `constant` is the
share of the most frequent class there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from privaware import datasets, metrics
from privaware.data import Data
from privaware.noise import Rng
from privaware.workflow._image_choice import scattering
from privaware.workflow._training_plan import training_plan

__all__ = ["measured"]

FILE = Path(__file__).parents[1] / "workflow" / "image_evidence.json"
ROWS = 1000
EPSILONS = (1.0, 3.0)
SEEDS = 2


def measured(name: str, rows: int = ROWS, seeds: int = SEEDS) -> list[dict[str, Any]]:
    """One record for each epsilon: the mean score of pixels and of scattering, and of a constant."""
    parts = datasets.load(name)
    train, test = _sample(parts.train, rows), _sample(parts.test, rows)
    settings: dict[str, dict[str, Any]] = {
        "pixels": {},
        "scattering": {"features": list(scattering(train.schema).features)},
    }
    records = []
    for epsilon in EPSILONS:
        scores: dict[str, float] = {}
        for words, chosen in settings.items():
            plan = training_plan(train.schema, epsilon=epsilon, delta=1e-5, learner="linear", settings=chosen)
            models = [plan.mechanism.run(train, plan.noise, Rng(seed)) for seed in range(seeds)]
            found = [metrics.internal("classification", test.y, model.predictions(test)) for model in models]
            scores[words] = round(float(np.mean([score["test_score"] or 0.0 for score in found])), 4)
        constant = round(float(np.bincount(test.y).max() / len(test)), 4)
        records.append({"data": name, "rows": len(train), "epsilon": epsilon, "scores": scores, "constant": constant})
    return records


def _sample(data: Data, rows: int) -> Data:
    chosen = data.take(np.random.default_rng(0).permutation(len(data))[:rows])
    return replace(chosen, schema=replace(chosen.schema, rows=len(chosen)))


def main(names: Sequence[str]) -> None:
    """Measures these data sets again, and keeps the records of others."""
    kept = json.loads(FILE.read_text()) if FILE.exists() else []
    for name in names:
        kept = [record for record in kept if record["data"] != name] + measured(name)
        lines = ",\n".join(json.dumps(record) for record in sorted(kept, key=lambda r: (r["data"], r["epsilon"])))
        FILE.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
