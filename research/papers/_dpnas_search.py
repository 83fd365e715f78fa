"""Searches of DPNAS: on benchmark rows as public ones, and on digits with everything charged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware import models
from privaware._files import atomic_file
from privaware.bench import Result, Settings
from privaware.data import Data
from privaware.noise import Rng
from research.papers._dpnas_runs import CASES, HELD_OUT, halves, rows
from research.papers._runner import Bench

if TYPE_CHECKING:
    from privaware.strategies._dpnas.cells import Cell
    from privaware.strategies.dpnas import DpNas

__all__ = ["charged", "search"]

PROPOSED = 20
NETWORK_BATCH = 300
"""The paper's batch for a step on the shared weights."""
CONTROLLER_BATCH = 64
"""The paper's batch for an update of the controller."""
SGD_RATES = (0.1, 0.03, 0.01, 0.003)


def search(bench: Bench, settings: Settings, *, data: str) -> Result:
    """One search on benchmark rows as public ones, and what its controller proposes.

    `variant` is the search as it is ("dp"), with the batches, learning rates and updates that the paper prints
    ("paper_controller"), with cells at random throughout ("uniform"), or with plain SGD ("sgd").
    """
    from privaware.strategies._dpnas.cells import uniform_cells
    from privaware.strategies._strategy import Runtime

    variant, seed = settings["variant"], settings["seed"]
    strategy, parts, rates = _strategy(data, variant), halves(data, seed), dict[float, float]()
    if variant == "sgd":
        rates = _sgd_rates(strategy, parts, seed, bench.device)
        strategy = replace(strategy, lr=max(rates, key=lambda lr: rates[lr]))
    saved = None if bench.out is None else bench.out / f"search-{data}-{variant}-{seed}.npz"
    kept = None if saved is None else saved.with_suffix(".json")
    recorder = SharedAccuracy(data, bench.device, every=max(1, strategy.epochs // 50), file=kept)
    runtime = Runtime(device=bench.device, checkpoint=saved, on_epoch=recorder)
    best = strategy.search(*parts, strategy.aware, Rng(seed=seed), public=True, runtime=runtime)
    generator = np.random.default_rng(seed)
    uniform = variant == "uniform"
    thousand = uniform_cells(1000, strategy.nodes, generator) if uniform else best.proposals(1000, generator)
    for file in (saved, kept):
        if file is not None:
            file.unlink(missing_ok=True)
    return {
        "cell": list(best.cell),
        "score": best.score,
        "cells": [list(cell) for cell in best.cells[:PROPOSED]],
        "scores": list(best.scores),
        "shares": operation_shares(thousand),
        "curve": recorder.curve,
        "rates": {f"{lr:g}": score for lr, score in rates.items()},
        "settings": repr(strategy),
    }


def operation_shares(cells: Iterable[Cell]) -> dict[str, dict[str, float]]:
    """Return the relative frequency of each operation in `cells`, by kind and name of the operation.

    "operations" has all operations, "activations" the convolutions (each named after its activation), and "pools" the
    pooling operations. Frequencies of a kind add up to 1, or are 0 if `cells` have no operation of the kind.
    """
    from privaware.models.dpnas import OPERATIONS

    counted = Counter(op for cell in cells for op in cell)
    kinds = {"operations": OPERATIONS, "activations": OPERATIONS[4:], "pools": ("max_pool", "average_pool")}
    return {
        kind: {op: counted[op] / max(sum(counted[other] for other in ops), 1) for op in ops}
        for kind, ops in kinds.items()
    }


def _strategy(data: str, variant: str) -> DpNas:
    from privaware.strategies.dpnas import DpNas

    strategy = DpNas(**CASES[data].search, network=CASES[data].network)
    if variant == "uniform":
        return replace(strategy, policy="uniform")
    if variant == "paper_controller":
        return _as_printed(strategy, len(rows(data)[0]))
    return replace(strategy, norm=float("inf"), aware=0.0) if variant == "sgd" else strategy


def _as_printed(strategy: DpNas, count: int) -> DpNas:
    """`strategy` with the paper's settings: one update of the controller, on one cell, for each batch of held-out rows.

    `count` is the number of training rows of the data set. The paper's learning rate of 0.02 for the shared weights is
    that of the authors' clipping norm of 1: 0.2 at 0.1.
    """
    held_out = round(HELD_OUT * count)
    return replace(
        strategy,
        rate=min(1.0, NETWORK_BATCH / (count - held_out)),
        lr=0.2,
        updates=max(1, held_out // CONTROLLER_BATCH),
        cells=1,
        held_rate=min(1.0, CONTROLLER_BATCH / held_out),
        controller_lr=3e-4,
    )


def _sgd_rates(strategy: DpNas, parts: tuple[Data, Data], seed: int, device: str) -> dict[float, float]:
    """Held-out accuracy of cells at random after a few epochs of plain SGD, by learning rate.

    Clipped gradients can bear a rate of 2; without clipping the shared weights diverge at 0.1.
    """
    from privaware.strategies._strategy import Runtime

    short, runtime = replace(strategy, epochs=12, warm_up=12, policy="uniform"), Runtime(device=device)
    return {
        lr: float(
            np.mean(replace(short, lr=lr).search(*parts, 0.0, Rng(seed=seed), public=True, runtime=runtime).scores)
        )
        for lr in SGD_RATES
    }


class SharedAccuracy:
    """Figure 3 (c): after epochs, test accuracy with the shared weights of ten cells proposed and ten at random.

    The curve is kept in `file`, so that a search that resumes from its checkpoint has all of it.
    """

    def __init__(self, data: str, device: str, every: int, file: Path | None = None) -> None:
        from privaware.strategies._dpnas.weights import tensors_of

        test = rows(data)[1]
        self.test = tensors_of(test.take(np.arange(min(2000, len(test)))), device)
        self.every, self.file, self.curve = every, file, list[dict[str, Any]]()
        if file is not None and file.is_file():
            self.curve = json.loads(file.read_text(encoding="utf-8"))

    def __call__(self, epoch: int, weights: Any, controller: Any) -> None:
        import torch

        from privaware.strategies._dpnas.cells import cells_from_indices, uniform_cells

        if (epoch + 1) % self.every and epoch:
            return
        with torch.no_grad():
            proposed = controller(10, torch.Generator().manual_seed(epoch))
        point: dict[str, Any] = {"epoch": epoch + 1, "entropy": round(float(proposed.entropies.sum(1).mean()), 2)}
        at_random = uniform_cells(10, controller.nodes, np.random.default_rng(epoch))
        for name, cells in (("controller", cells_from_indices(proposed.cells)), ("uniform", at_random)):
            correct = weights.count_correct(cells, *self.test, len(self.test[1])) / len(self.test[1])
            point[name] = [round(float(share), 4) for share in correct]
        self.curve = [*(one for one in self.curve if one["epoch"] <= epoch), point]
        if self.file is not None:
            with atomic_file(self.file) as file:
                file.write(json.dumps(self.curve).encode())


def charged(bench: Bench, settings: Settings) -> Result:
    """Digits within one budget: a search and its training, both charged, or a cell at random with all of the budget."""
    from privaware.models.dpnas import OPERATIONS
    from privaware.models.spaces import Space
    from privaware.workflow.fit import fit
    from privaware.workflow.search import search as search_space

    network, seed = {"channels": [8], "squeeze": 8, "hidden": 16, "groups": 4}, settings["seed"]
    edges = ["edge_0_1", "edge_0_2", "edge_1_2"]
    architecture = {"name": "dpnas", "activation": "selu", **network, "cell": [f"${edge}" for edge in edges]}
    recipe = {"architecture": architecture, "norm": 0.5, "lr": 2.0, "batch": 128, "epochs": 8.0}
    space = Space.load({"choices": {edge: list(OPERATIONS) for edge in edges}, "build": recipe})
    if settings["what"] == "search":
        options: dict[str, Any] = {
            "epochs": 8,
            "warm_up": 4,
            "rate": 0.1,
            "updates": 1,
            "lr": 4.0,
            "reward_noise": 4.0,
            "derived": 6,
        }
        options |= {"nodes": 2, "network": network}
        more: dict[str, Any] = {"space": space, "strategy": "dpnas", "options": options, "held_out": 0.3}
        result: Any = search_space("digits", epsilon=settings["epsilon"], seed=seed, **more)
        point = result.best
    else:
        point = space.draw(np.random.default_rng(seed))
        chosen = space.settings(point)
        result = fit("digits", epsilon=settings["epsilon"], seed=seed, learner="dpsgd", settings=chosen)
    size = models.count({**space.settings(point)["architecture"], "inputs": [1, 8, 8], "outputs": 10})
    return {"score": result.internal["test_score"], "cell": point, "parameters": size}
