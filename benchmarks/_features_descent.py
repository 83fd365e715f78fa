"""Tables II and XVIII of Bao et al.: softmax of two units by noisy gradient descent, on the package's own engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks._features_data import Table, adult, breast, prefix, shared, summary
from privaware.noise import Rng
from privaware.selectors._merit import best_first

CASES: dict[str, Any] = {
    "breast": {"sizes": (2, 10, 20, 30, 40), "rate": 1.0, "steps": 40, "noise": {0.236: 88.60911, 0.014: 1145.3884}},
    "adult": {
        "sizes": (2, 28, 48, 68, 88),
        "rate": 250 / 22_750,
        "steps": 3640,
        "noise": {0.0196: 89.01568, 0.00817: 193.09555},
    },
}
"""The noise of each epsilon is what `accounting.calibrate` says at delta 1e-5, written down for machines without it."""
LRS = (0.05, 0.5, 5.0)


def descent_piece(done: dict[str, Any], repeats: int, device: str = "cpu") -> Iterator[tuple[str, Any]]:
    for name, facts in CASES.items():
        table = breast() if name == "breast" else adult()
        order, _ = best_first(shared(table, bins=2 if name == "breast" else 8))
        width = len(order)
        for epsilon, noise in {**facts["noise"], None: 0.0}.items():
            for size in (*facts["sizes"], width):
                key = f"{name} {epsilon} {size}"
                if key not in done:
                    mask = prefix(order, size, width)
                    yield key, descend(table, mask, noise, facts, repeats, device)


def descend(
    table: Table, mask: np.ndarray, noise: float, facts: dict[str, Any], repeats: int, device: str
) -> dict[str, Any]:
    """Every learning rate with every seed as one population; the rate is chosen by training accuracy."""
    import torch
    from torch import nn

    from privaware.descent import Descent, FullBatch, Poisson, flat, sgd

    x, x_test = (torch.from_numpy(part[:, mask]).float() for part in (table.x, table.x_test))
    y = torch.from_numpy(table.y.astype(np.int64))
    pairs = [(lr, seed) for lr in LRS for seed in range(repeats)]
    networks = []
    for _ in pairs:
        layer = nn.Linear(x.shape[1], 2)
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
        networks.append(layer)
    descent = Descent(
        steps=facts["steps"],
        update=sgd(LRS[0]),
        clip=flat(1.0 if noise else 1e6),
        sampler=FullBatch() if facts["rate"] == 1 else Poisson(rate=facts["rate"]),
        overflow=1e-10 if device == "cuda" else 0.0,
    )
    trained = descent.run_population(
        networks,
        x,
        y,
        noise=[noise] * len(pairs),
        rows=len(x),
        rng=Rng(seed=int(mask.sum())),
        lr=[lr for lr, _ in pairs],
        device=device,
    )
    fit, tested = (
        np.array([_right(one, rows, goal) for one in trained]).reshape(len(LRS), repeats)
        for rows, goal in ((x, table.y), (x_test, table.y_test))
    )
    best = int(fit.mean(axis=1).argmax())
    return {"score": summary(tested[best]), "lr": LRS[best], "noise": noise}


def _right(network: Any, rows: Any, goal: np.ndarray) -> float:
    found = network.to("cpu")(rows).argmax(dim=1).numpy()
    return float((found == goal).mean())
