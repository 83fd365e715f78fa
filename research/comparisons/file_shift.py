"""Whether members of DPMLBench's data sets are told from others without any model.

    python -m research.comparisons.file_shift

Members are rows of the training file, and non-members are rows of the test file. A logistic regression learns to tell
them apart from the attacker's rows: by their classes, or by brightness, contrast and edges of the image. It is then
used on the rows of the attacked model. An area of 0.5 means that the files are alike. One JSON line for each data set
is printed; they are in `docs/results/dpmlbench/shift.jsonl`. Rows are public.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from privaware.bench._rows import bench_rows
from privaware.learners import find_learner

DATA = ("mnist", "fashion_mnist", "svhn", "cifar10")
ROWS = 5_000
"""Number of members, and of others."""


def classes(data: Any) -> np.ndarray:
    """Return the class of each row, one-hot."""
    return np.eye(10)[data.y[:ROWS]]


def looks(data: Any) -> np.ndarray:
    """Return brightness, contrast and edges of each image, and products of them."""
    images = np.asarray(data.x[:ROWS], np.float32)
    mean, deviation = images.mean((1, 2, 3)), images.std((1, 2, 3))
    edges = np.abs(np.diff(images, axis=3)).mean((1, 2, 3))
    return np.stack([mean, deviation, edges, mean * deviation, mean**2, deviation**2, edges / deviation], 1)


def area(rows: Any, facts: Any) -> float:
    """Return the area under the curve of a regression on `facts` that the attacker's rows have taught."""
    known = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    pairs = (rows.shadow_train, rows.shadow_test), (rows.train, rows.test)
    (taught, answers), (asked, truth) = (
        (np.concatenate([facts(one), facts(other)]), np.repeat([1, 0], [len(facts(one)), len(facts(other))]))
        for one, other in pairs
    )
    return float(roc_auc_score(truth, known.fit(taught, answers).decision_function(asked)))


def main() -> None:
    for name in DATA:
        rows = bench_rows({"dataset": name, "protocol": "dpmlbench"}, find_learner("dpsgd"))
        areas = {"classes": round(area(rows, classes), 3), "looks": round(area(rows, looks), 3)}
        print(json.dumps({"study": "file shift", "data": name, "rows": ROWS, "area": areas}), flush=True)


if __name__ == "__main__":
    main()
