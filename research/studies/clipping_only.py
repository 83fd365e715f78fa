"""Clipping without noise against plain gradient descent and against DP-SGD, at the same learning rates.

At a very large epsilon DP-SGD can beat plain descent. The study shows whether clipping is the reason: the same network
is trained plainly, with clipping only, and with clipping and noise.

Paper: Bao, Bauer and Bindschaedler, Appendix C-E: their FCN on CIFAR-10 has accuracy 45.36% plainly and about 50% at
epsilon 1e7.
Privacy: without noise there is no guarantee, so private rows raise; an evaluation on public rows.
Use when: private training looks too good beside plain training, or too bad.

>>> from research.studies._trials import Setting, synthetic_examples
>>> rows = synthetic_examples()
>>> one = Setting(architecture={"name": "linear", "inputs": 5, "outputs": 2}, batch=30, steps=20, lr=1.0, noise=1.0)
>>> study = clipping_only(rows, one, (0.1, 1.0), repeats=2)
>>> sorted({point.curve for point in study.points})
['DP-SGD', 'SGD', 'SGD with clipping']
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from privaware.workflow._curves import lines
from research.studies._result import Curves, points
from research.studies._sweep import sweep
from research.studies._trials import Rows, Setting, Trial, note

__all__ = ["clipping_only", "Clipping"]


@dataclass(frozen=True, kw_only=True)
class Clipping(Curves):
    """Accuracy by learning rate of the three trainings; `best` is the highest mean of each training."""

    best: dict[str, float]

    def chart(self) -> Any:
        return lines(self.points, x="learning rate")


def clipping_only(
    rows: Rows, setting: Setting, rates: Sequence[float], *, repeats: int = 5, **options: Any
) -> Clipping:
    """Train the setting with its noise, with its clipping only, and with neither, at each of `rates`."""
    trainings = {"SGD": replace(setting, noise=0.0, norm=math.inf)}
    trainings["SGD with clipping"] = replace(setting, noise=0.0)
    if setting.noise:
        trainings["DP-SGD"] = setting
    trials = [
        Trial(curve=name, x=rate, seed=seed, setting=replace(training, lr=rate))
        for name, training in trainings.items()
        for rate in rates
        for seed in range(repeats)
    ]
    measured = points(sweep(trials, rows, **options))
    best = {name: max(point.mean for point in measured if point.curve == name) for name in trainings}
    return Clipping(points=measured, note=note(rows, trials), best=best)
