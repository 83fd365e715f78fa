"""Why errors on Fashion-MNIST differ from DPMLBench: harder rows, and averaged weights that lag behind.

    python -m research.comparisons.fashion_mnist rows  # a perceptron without privacy, by halves of the files and ours
    python -m research.comparisons.fashion_mnist averages tanh  # private perceptrons: last weights, or their mean

Each command prints one JSON line. The lines in `docs/results/dpmlbench/fashion.jsonl` have these settings and seeds.
Rows are public.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from statistics import mean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from privaware import datasets, descent, models
from privaware.datasets import parts
from privaware.noise import Rng

NOISES = {1000: 0.18, 100: 0.36, 4: 1.03}
"""Noise multipliers of the cells of DPMLBench, by epsilon."""
BATCH = 256
"""Batch size of DPMLBench."""
ROWS = 30_000
"""Number of training rows, half of the data set."""
EPOCHS = 60
"""Number of epochs of DPMLBench."""


def tensors(data: Any, deviation: float = 1.0) -> tuple[Tensor, Tensor]:
    x = (torch.from_numpy(data.x).flatten(1) - 0.286) / deviation
    return x, torch.from_numpy(data.y)


def error(predict: Callable[[Tensor], Tensor], rows: tuple[Tensor, Tensor]) -> float:
    with torch.no_grad():
        return 100 * float((predict(rows[0]).argmax(1) != rows[1]).float().mean())


def rows(seeds: int = 3, epochs: int = 12) -> dict[str, Any]:
    """Train 256 units by Adam on half of the training rows, test on half of the test rows, and average over seeds."""
    loaded = datasets.load("fashion_mnist")
    halves = {
        name: [tensors(parts(part, len(part) // 2, shuffled=name == "ours")[0]) for part in (loaded.train, loaded.test)]
        for name in ("file order", "ours")
    }
    errors: dict[str, list[float]] = {}
    for seed in range(seeds):
        for trained, (train, _) in halves.items():
            torch.manual_seed(seed)
            network = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
            optimiser = torch.optim.Adam(network.parameters(), 1e-3)
            for _ in range(epochs):
                for batch in torch.randperm(ROWS).split(BATCH):
                    optimiser.zero_grad()
                    cross_entropy(network(train[0][batch]), train[1][batch]).backward()
                    optimiser.step()
            for tested, (_, test) in halves.items():
                errors.setdefault(f"trained on {trained}, tested on {tested}", []).append(error(network, test))
    return {"seeds": seeds, "error": {name: round(mean(values), 2) for name, values in errors.items()}}


def averages(activation: str, epochs: float = EPOCHS) -> dict[str, Any]:
    """Train 64 units as DPMLBench does: clipping norm 4, learning rate 0.01, momentum 0.9; two seeds, all test rows."""
    loaded = datasets.load("fashion_mnist")
    x, y = tensors(parts(loaded.train, ROWS)[0], 0.32)
    test = tensors(loaded.test, 0.32)
    network = {"name": "fcn", "inputs": 784, "outputs": 10, "hidden": [64], "activation": activation, "dropout": 0.0}
    members = [
        descent.Member(models.build(network, Rng(seed=seed).initial), noise, 0.01, 4.0, None)
        for seed in range(2)
        for noise in NOISES.values()
    ]
    recipe = descent.Descent(
        steps=int(epochs * ROWS / BATCH),
        sampler=descent.Poisson(rate=BATCH / ROWS),
        clip=descent.flat(4.0),
        update=descent.momentum(0.01, 0.9),
        average=descent.build_average(0.25),
        loss=descent.cross_entropy,
    )
    last: list[nn.Module] = []

    def keep(training: Any) -> None:
        if training.step == recipe.steps:
            last.extend(training.stack.trained(training.modules, training.state.theta))

    callbacks = descent.Callbacks(on_step=[keep])
    averaged = recipe.run_population(members, x, y, rows=ROWS, rng=Rng(seed=1), device="cpu", callbacks=callbacks)
    errors = {
        name: np.array([error(module, test) for module in modules]).reshape(2, -1).round(2)
        for name, modules in (("last weights", last), ("mean of the last quarter", averaged))
    }
    return {
        "activation": activation,
        "epochs": epochs,
        "error": {name: dict(zip(map(str, NOISES), values.T.tolist())) for name, values in errors.items()},
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(rows() if sys.argv[1] == "rows" else averages(*sys.argv[2:3], *map(float, sys.argv[3:]))))
