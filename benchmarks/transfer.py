"""CIFAR-10 with the frozen features of EfficientNet-Lite0 (ImageNet-1k) and a private linear head.

    python -m benchmarks.transfer extract --size 96 --folder FOLDER      # ten minutes of one processor
    python -m benchmarks.transfer train --size 96 --folder FOLDER        # prints docs/results/features/transfer.json

This is transfer from public photographs, recorded under its own name and never beside numbers without public data.
It is what `Linear(features=[{"name": "extractor", "size": 96}])` trains: rows of 1,280 features brought to length 1,
100 full-batch steps, gradients cut to length 0.5, momentum 0.9, the average of the last half, and a step size that
follows from rows and noise. Features are stored in between, and since every row's clipped gradient has a closed
form, all seeds are one matrix product a step.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from privaware import accounting, datasets
from privaware.features.extractor import Extractor
from privaware.learners.linear import Linear
from privaware.noise import Rng

EPSILONS = (1.0, 2.0, 3.0)
AT_ONCE = 5000


def extract(size: int, folder: Path) -> None:
    loaded = datasets.load("cifar10")
    feature, began = Extractor(size=size), time.process_time()
    for name, part in (("test", loaded.test), ("train", loaded.train)):
        made = [feature(part.x[at : at + 1000]) for at in range(0, len(part), 1000)]
        np.save(folder / f"eff{size}_{name}.npy", np.concatenate(made).astype(np.float16))
    print(f"{time.process_time() - began:.0f} processor seconds")


def rows(size: int, part: str, folder: Path) -> np.ndarray:
    """Rows of length 1 and the learner's constant at the end."""
    x = np.load(folder / f"eff{size}_{part}.npy").astype(np.float32)
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-6)
    return np.hstack([x, np.full((len(x), 1), 0.1, np.float32)])


def train(
    x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray, epsilon: float, seeds: int
) -> dict[str, Any]:
    schema = replace(datasets.schema("cifar10"), rows=len(x))
    learner = Linear(features=[{"name": "extractor"}])
    noise = accounting.calibrate(lambda z: learner.cost(schema, z), epsilon, 1e-5)
    lr, norm = learner.step_size(schema, noise), learner.norm
    width, rngs = x.shape[1], [Rng(seed=seed) for seed in range(seeds)]
    length = np.linalg.norm(x, axis=1)
    weights, speed, total = (np.zeros((width, seeds, 10), np.float32) for _ in range(3))
    late = learner.steps - round(learner.average * learner.steps)
    for step in range(learner.steps):
        exact = np.zeros_like(weights)
        for at in range(0, len(x), AT_ONCE):
            part, goal = x[at : at + AT_ONCE], y[at : at + AT_ONCE]
            apart = (part @ weights.reshape(width, -1)).reshape(-1, seeds, 10)
            apart = np.exp(apart - apart.max(axis=2, keepdims=True))
            apart /= apart.sum(axis=2, keepdims=True)
            apart[np.arange(len(goal)), :, goal] -= 1
            size = np.linalg.norm(apart, axis=2) * length[at : at + AT_ONCE, None]
            apart *= np.minimum(1, norm / np.maximum(size, 1e-12))[:, :, None]
            exact += (part.T @ apart.reshape(len(part), -1)).reshape(exact.shape)
        noisy = [rng.gaussian(exact[:, at], noise=noise, sensitivity=norm) for at, rng in enumerate(rngs)]
        speed = 0.9 * speed + np.stack(noisy, axis=1) / len(x)
        weights = weights - np.float32(lr) * speed
        total += weights if step >= late else 0
    logits = (x_test @ total.reshape(width, -1)).reshape(-1, seeds, 10)
    scores = 100 * (logits.argmax(axis=2) == y_test[:, None]).mean(axis=0)
    return {
        "epsilon": epsilon,
        "noise": noise,
        "lr": lr,
        "scores": scores.round(2).tolist(),
        "mean": round(float(scores.mean()), 2),
        "spread": round(float(scores.std(ddof=1)), 2),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("piece", choices=["extract", "train"])
    arguments.add_argument("--size", type=int, default=96)
    arguments.add_argument("--folder", type=Path, required=True)
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--commit", default="")
    given = arguments.parse_args()
    if given.piece == "extract":
        extract(given.size, given.folder)
        return
    loaded = datasets.load("cifar10")
    x, x_test = (rows(given.size, part, given.folder) for part in ("train", "test"))
    made = [train(x, loaded.train.y, x_test, loaded.test.y, epsilon, given.seeds) for epsilon in EPSILONS]
    facts = {"size": given.size, "repeats": given.seeds, "commit": given.commit, "date": time.strftime("%Y-%m-%d")}
    print(json.dumps({"run": facts, "rows": made}, indent=1))


if __name__ == "__main__":
    main()
