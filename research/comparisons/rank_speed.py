"""Measure a step of training with several ranks: CPU seconds of each rank, and how much of them communication takes.

Run `python -m research.comparisons.rank_speed` for a process of its own, and `torchrun --nproc-per-node 2 -m
research.comparisons.rank_speed` for two ranks. Each rank prints one JSON object for each network. CPU seconds do not
depend on how busy the machine is, and leave out the time for which a rank waits for another one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from privaware.descent import Descent, Poisson, flat, momentum
from privaware.noise import Rng
from privaware.ranks import Ranks, on_all_ranks

ROWS = 20_000
"""Number of synthetic rows."""
BATCH = 1024
"""Expected batch size."""
FEW, MANY = 2, 14
"""Numbers of steps of two trainings; their difference gives the time of a step without preparation."""


def convolutional() -> nn.Module:
    """Return the network of Tramer and Boneh for images of 28 x 28 pixels: 26,010 parameters."""
    first = [nn.Conv2d(1, 16, 8, 2, 3), nn.Tanh(), nn.MaxPool2d(2, 1)]
    second = [nn.Conv2d(16, 32, 4, 2), nn.Tanh(), nn.MaxPool2d(2, 1)]
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10))


def wide() -> nn.Module:
    """Return a network of two wide layers: 1.9 million parameters."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 1024), nn.Tanh(), nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 10)
    )


class Clock:
    """CPU seconds of this process in trainings, by their number of steps, and inside communication."""

    def __init__(self) -> None:
        self.training: list[float] = []
        self.communication: list[float] = []

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function`, which adds its CPU seconds to `communication` of the present training."""

        def call(*arguments: Any) -> Any:
            began = time.process_time()
            try:
                return function(*arguments)
            finally:
                self.communication[-1] += time.process_time() - began

        return call

    def trained(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function`, which adds its CPU seconds as one training."""

        def call(*arguments: Any, **more: Any) -> Any:
            began = time.process_time()
            self.communication.append(0.0)
            try:
                return function(*arguments, **more)
            finally:
                self.training.append(time.process_time() - began)

        return call

    def step(self, values: list[float]) -> float:
        """Return the CPU seconds of one step, from the last two trainings."""
        return (values[-1] - values[-2]) / (MANY - FEW)


def trainings(module: nn.Module) -> None:
    draw = torch.Generator().manual_seed(0)
    images, labels = torch.rand(ROWS, 1, 28, 28, generator=draw), torch.randint(10, (ROWS,), generator=draw)
    for steps in (FEW, MANY):
        settings: dict[str, Any] = {"sampler": Poisson(rate=BATCH / ROWS), "clip": flat(0.1), "update": momentum(0.5)}
        Descent(steps=steps, **settings).run(module, images, labels, noise=1.0, rows=ROWS, rng=Rng(0))


def main() -> None:
    clock = Clock()
    Descent.train_together = clock.trained(Descent.train_together)  # type: ignore[method-assign]
    for name in ("add_up", "broadcast", "exchanged"):
        setattr(Ranks, name, clock.timed(getattr(Ranks, name)))
    for network in (convolutional, wide):
        on_all_ranks(lambda: trainings(network()))  # noqa: B023
        facts = {
            "network": network.__name__,
            "rank": os.environ.get("RANK"),
            "ranks": os.environ.get("WORLD_SIZE", "plain"),
        }
        facts |= {
            "step": f"{clock.step(clock.training):.3f}",
            "communication": f"{clock.step(clock.communication):.3f}",
        }
        print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
