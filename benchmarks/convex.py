"""Thousands of private logistic regressions at once: python -m benchmarks.convex

Breast Cancer, one-hot by its schema: 1,000 repeats at 13 epsilons; 6,000 random subsets of columns at epsilon 0.1 (what
a genetic search of 600 x 10 trains); and scikit-learn, without privacy, on some of the same problems one at a time.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from privaware import datasets
from privaware.features.onehot import OneHot
from privaware.learn.objective import fit_many
from privaware.noise import Rng

EPSILONS = np.geomspace(0.5, 100, 13)
ALONE = 200


def measured(work: Callable[[], Any]) -> dict[str, float]:
    """Seconds by the clock and of the processors; the second run counts."""
    for _ in range(2):
        wall, before = time.perf_counter(), os.times()
        work()
        after = os.times()
    used = after.user - before.user + after.system - before.system
    return {"seconds": round(time.perf_counter() - wall, 3), "processor": round(used, 3)}


def main() -> None:
    from sklearn.linear_model import LogisticRegression

    train = datasets.load("breast_cancer").train
    rows, labels = OneHot()(train.x, train.schema).astype(float), train.y
    masks = np.random.default_rng(0).random((6000, rows.shape[1])) < 0.5
    repeats = np.repeat(EPSILONS, 1000)

    def alone() -> None:
        for mask in masks[:ALONE]:
            LogisticRegression(fit_intercept=False, tol=1e-8).fit(rows[:, mask], labels)

    results = {
        "rows": list(rows.shape),
        "13,000 repeats": measured(lambda: fit_many(rows, labels, epsilons=repeats, rng=Rng())),
        "6,000 subsets": measured(
            lambda: fit_many(rows, labels, masks=masks, epsilons=0.1, rng=Rng())
        ),
        f"scikit-learn, {ALONE} subsets": measured(alone),
    }
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
