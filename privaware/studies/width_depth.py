"""Width against depth: one hidden layer of more and more units, and more and more layers of the same width.

Each network is trained with noise and without, as often as asked, and told by its number of parameters.

Paper: Bao, Bauer and Bindschaedler, Figure 1 (accuracy against parameters) and Figure 12 (SVHN: 4 to 2,048 units in one
layer; 1 to 12 layers of 128 units): noise hurts depth far more than width.
Privacy: each model is released, see `privaware.studies`. The plain ones have no guarantee, so private rows are refused
with `plain`.
Use when: you choose the size of a network for a budget.

>>> from privaware.studies._trials import made_up
>>> rows = made_up()
>>> made = width_depth(rows, widths=(2, 8), depths=(2,), units=4, noise=1.0, batch=30, steps=5, lr=0.5, repeats=2)
>>> sorted({point.curve for point in made.points})
['deeper, DP-SGD', 'deeper, SGD', 'wider, DP-SGD', 'wider, SGD']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware import models
from privaware.studies._result import Curves, points
from privaware.studies._sweep import sweep
from privaware.studies._trials import Rows, Setting, Trial, note
from privaware.workflow._curves import lines

__all__ = ["width_depth", "WidthDepth"]


@dataclass(frozen=True, kw_only=True)
class WidthDepth(Curves):
    """Accuracy by number of parameters."""

    def chart(self) -> Any:
        return lines(self.points, x="parameters")


def width_depth(
    rows: Rows,
    *,
    widths: Sequence[int] = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048),
    depths: Sequence[int] = (1, 2, 3, 4, 6, 8, 10, 12),
    units: int = 128,
    noise: float,
    batch: int,
    steps: int,
    lr: float,
    plain_lr: float | None = None,
    norm: float = 1.0,
    momentum: float = 0.0,
    activation: str = "relu",
    plain: bool = True,
    repeats: int = 5,
    **how: Any,
) -> WidthDepth:
    """`lr` is for training with noise, `plain_lr` for that without (left out: the same)."""
    inputs, outputs = int(np.prod(rows.x.shape[1:])), int(rows.y.max()) + 1
    nets = [("wider", [width]) for width in widths] + [("deeper", [units] * n) for n in depths]
    ways = [("DP-SGD", noise, norm, lr)]
    ways += [("SGD", 0.0, float("inf"), plain_lr or lr)] if plain else []
    trials = []
    for kind, hidden in nets:
        network = {"name": "fcn", "inputs": inputs, "hidden": hidden, "outputs": outputs}
        network |= {"activation": activation, "dropout": 0.0}
        size = models.count(network)
        for way, level, bound, speed in ways:
            setting = Setting(
                architecture=network, batch=batch, steps=steps, lr=speed, noise=level, norm=bound, momentum=momentum
            )
            trials += [Trial(curve=f"{kind}, {way}", x=size, seed=seed, setting=setting) for seed in range(repeats)]
    return WidthDepth(points=points(sweep(trials, rows, **how)), note=note(rows, trials))
