"""Thousands of private logistic regressions at once, beside scikit-learn without privacy, one at a time.

    python -m research.comparisons.convex --out docs/results/convex

Breast Cancer, one-hot by its schema: 1,000 repeats at 13 epsilons; 6,000 random subsets of columns at epsilon 0.1 (the
trainings of a genetic search of 600 x 10); and scikit-learn on some of the same subsets. Times are the best of three.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from privaware import datasets
from privaware.features.onehot import OneHot
from privaware.learners.objective_perturbation import fit_many
from privaware.noise import Rng
from research.comparisons import record
from research.papers._runner import best_seconds

ALONE = 200


def main() -> None:
    from sklearn.linear_model import LogisticRegression

    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--out", type=Path)
    options = arguments.parse_args()
    train = datasets.load("breast_cancer").train
    rows, labels = OneHot()(train.x, train.schema).astype(float), train.y
    masks = np.random.default_rng(0).random((6000, rows.shape[1])) < 0.5
    repeats = np.repeat(np.geomspace(0.5, 100, 13), 1000)

    def alone() -> None:
        for mask in masks[:ALONE]:
            LogisticRegression(fit_intercept=False, tol=1e-8).fit(rows[:, mask], labels)

    work: dict[str, Callable[[], Any]] = {
        "13,000 private models: 1,000 repeats at 13 epsilons": lambda: fit_many(
            rows, labels, epsilons=repeats, rng=Rng()
        ),
        "6,000 private models, each on columns of its own": lambda: fit_many(
            rows, labels, masks=masks, epsilons=0.1, rng=Rng()
        ),
        f"scikit-learn without privacy, {ALONE} of those, one at a time": alone,
    }
    for name, function in work.items():
        seconds, processor = best_seconds(lambda _, function=function: function(), 3)
        result = {"seconds": round(seconds, 3), "processor": round(processor, 3)}
        print(f"{name}: {result}", flush=True)
        record(options.out, "benchmarks/convex", {"work": name}, result)


if __name__ == "__main__":
    main()
