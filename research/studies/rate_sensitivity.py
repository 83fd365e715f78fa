"""Sensitivity to the learning rate: a comparison of models at one shared rate can mislead.

Every model is trained at every rate. The study reports the curves, the best rate of each model, the best model at each
shared rate, and the best model when each has its own best rate.

Paper: Bao, Bauer and Bindschaedler, section VII-C and Figure 9 (SVHN: 0.01 is too small and 0.1 too large as a shared
rate).
Privacy: each model is released, see `research.studies`. The best rate is chosen by scores, so the study is an
evaluation, or is charged as the entire sweep.
Use when: you compare architectures under noise, before you trust the comparison.

>>> from research.studies._trials import Setting, synthetic_examples
>>> rows = synthetic_examples()
>>> one = Setting(architecture={"name": "linear", "inputs": 5, "outputs": 2}, batch=30, steps=20, lr=1.0, noise=1.0)
>>> study = rate_sensitivity(rows, {"linear": one}, (1e-6, 1.0), repeats=2)
>>> study.best["linear"]
1.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from privaware.workflow._curves import lines
from research.studies._result import Curves, points
from research.studies._sweep import sweep
from research.studies._trials import Rows, Setting, Trial, note

__all__ = ["rate_sensitivity", "Rates"]


@dataclass(frozen=True, kw_only=True)
class Rates(Curves):
    """Accuracy by learning rate; `best` has each model's best rate, `winners` the best model at each rate."""

    best: dict[str, float]
    winners: dict[float, str]
    winner: str

    def chart(self) -> Any:
        return lines(self.points, x="learning rate")


def rate_sensitivity(
    rows: Rows, settings: Mapping[str, Setting], rates: Sequence[float], *, repeats: int = 5, **options: Any
) -> Rates:
    """Train each named setting at each of `rates`; the rate in the setting is not used."""
    trials = [
        Trial(curve=name, x=rate, seed=seed, setting=replace(setting, lr=rate))
        for name, setting in settings.items()
        for rate in rates
        for seed in range(repeats)
    ]
    measured = points(sweep(trials, rows, **options))
    means = {(point.curve, point.x): point.mean for point in measured}
    best = {name: max(rates, key=lambda rate: means[name, rate]) for name in settings}
    return Rates(
        points=measured,
        note=note(rows, trials),
        best=best,
        winners={rate: max(settings, key=lambda name: means[name, rate]) for rate in rates},
        winner=max(settings, key=lambda name: means[name, best[name]]),
    )
