"""Width against depth: one hidden layer with more and more units, and more and more layers of the same width.

Each network is trained with noise and without noise, with several seeds, and is reported by its number of parameters.

Paper: Bao, Bauer and Bindschaedler, Figure 1 (accuracy against parameters) and Figure 12 (SVHN: 4 to 2,048 units in one
layer; 1 to 12 layers of 128 units): noise hurts depth far more than width.
Privacy: each model is released, see `research.studies`. Models without noise have no guarantee, so private rows with
`plain_lr` raise.
Use when: you choose the size of a network for a budget.

>>> from research.studies._trials import Setting, synthetic_examples
>>> setting = Setting(batch=30, steps=5, lr=0.5, noise=1.0)
>>> study = width_depth(synthetic_examples(), setting, widths=(2, 8), depths=(2,), units=4, plain_lr=0.5, repeats=2)
>>> sorted({point.curve for point in study.points})
['deeper, DP-SGD', 'deeper, SGD', 'wider, DP-SGD', 'wider, SGD']
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privaware import models
from privaware.workflow._curves import lines
from research.studies._result import Curves, points
from research.studies._sweep import sweep
from research.studies._trials import Rows, Setting, Trial, note

__all__ = ["width_depth", "WidthDepth"]


@dataclass(frozen=True, kw_only=True)
class WidthDepth(Curves):
    """Accuracy by number of parameters."""

    def chart(self) -> Any:
        return lines(self.points, x="parameters")


def width_depth(
    rows: Rows,
    setting: Setting,
    *,
    widths: Sequence[int] = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048),
    depths: Sequence[int] = (1, 2, 3, 4, 6, 8, 10, 12),
    units: int = 128,
    plain_lr: float | None = None,
    repeats: int = 5,
    **options: Any,
) -> WidthDepth:
    """Train the networks with noise by `setting`; with `plain_lr`, also without noise at that learning rate.

    Of the architecture in `setting`, only the activation is used.
    """
    inputs, outputs = int(np.prod(rows.x.shape[1:])), int(rows.y.max()) + 1
    networks = [("wider", [width]) for width in widths] + [("deeper", [units] * count) for count in depths]
    trainings = {"DP-SGD": setting}
    if plain_lr is not None:
        trainings["SGD"] = replace(setting, noise=0.0, norm=math.inf, lr=plain_lr)
    trials = []
    for kind, hidden in networks:
        network = {"name": "fcn", "inputs": inputs, "hidden": hidden, "outputs": outputs, "dropout": 0.0}
        network["activation"] = setting.architecture.get("activation", "relu")
        size = models.count(network)
        trials += [
            Trial(curve=f"{kind}, {name}", x=size, seed=seed, setting=replace(training, architecture=network))
            for name, training in trainings.items()
            for seed in range(repeats)
        ]
    return WidthDepth(points=points(sweep(trials, rows, **options)), note=note(rows, trials))
