"""Batch size against noise and learning rate: at a fixed budget and number of epochs the batch size hardly matters.

For a fixed (epsilon, delta) after T epochs, the noise multiplier grows about as `sqrt(sampling_rate)`. If the learning
rate is proportional to the batch size, the training curves are then nearly the same. `batch_noise` computes the noise
multiplier of each batch size, `curves_by_batch` trains with each, and `by_setting` returns median and maximum of a grid
when one setting is fixed.

Paper: Tramer and Boneh 2021, arXiv:2011.11660, appendix D.1 and D.2: Claim D.1 and Figures 6, 7 and 8.
Privacy: `batch_noise` only computes; `curves_by_batch` releases every model, see `research.studies`.
Use when: you choose a batch size: take the largest that is fast, and scale the learning rate with it.

>>> study = batch_noise(50_000, (512, 1024, 2048), epochs=60, epsilon=3.0, delta=1e-5)
>>> [round(point.mean, 2) for point in study.points], round(study.slope, 2)
([1.3, 1.72, 2.33], 0.42)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privaware import accounting
from privaware.errors import WrongInput
from privaware.workflow._curves import Point, lines, point
from research.studies._result import Curves, Result
from research.studies._sweep import sweep
from research.studies._trials import Outcome, Rows, Setting, Trial, note

__all__ = ["batch_noise", "BatchNoise", "BatchCurves", "by_setting", "curves_by_batch"]


@dataclass(frozen=True, kw_only=True)
class BatchNoise(Result):
    """The noise multiplier of each batch size, and the slope of log noise over log sampling rate (1/2 in the claim)."""

    points: tuple[Point, ...]
    slope: float

    def chart(self) -> Any:
        return lines(self.points, x="sampling rate", y="noise")

    def noise(self, rate: float) -> float:
        """Return the noise multiplier at one of the sampling rates."""
        return next(point.mean for point in self.points if math.isclose(point.x, rate))


@dataclass(frozen=True, kw_only=True)
class BatchCurves(Curves):
    """Accuracy by epoch for each batch size; `apart` is the largest difference between two of them at the end."""

    apart: float

    def chart(self) -> Any:
        return lines(self.points, x="epoch", log=False)


def batch_noise(rows: int, batches: Sequence[int], *, epochs: float, epsilon: float, delta: float) -> BatchNoise:
    """Compute the noise multiplier at which `epochs` epochs with each Poisson batch size cost (epsilon, delta)."""
    if len(batches) < 2 or max(batches) > rows:
        raise WrongInput(f"expected at least two batches of at most {rows} rows, got {batches!r}")
    runs = [accounting.dpsgd(rows, batch, str(epochs)) for batch in batches]
    noises = [accounting.calibrate(run.event, epsilon, delta) for run in runs]
    slope = np.polyfit(np.log([run.rate for run in runs]), np.log(noises), 1)[0]
    return BatchNoise(
        points=tuple(point("noise", run.rate, [noise]) for run, noise in zip(runs, noises)), slope=float(slope)
    )


def curves_by_batch(
    rows: Rows, setting: Setting, noises: Mapping[int, float], *, epochs: int, repeats: int = 5, **options: Any
) -> BatchCurves:
    """Train the setting with each batch size in `noises`, with a proportional learning rate, and score each epoch."""
    curve_points: list[Point] = []
    trials: list[Trial] = []
    for batch, noise in noises.items():
        every = len(rows.x) // batch
        scaled = replace(setting, batch=batch, noise=noise, lr=setting.lr * batch / setting.batch, steps=epochs * every)
        batch_trials = [Trial(curve=f"batch {batch}", x=batch, seed=seed, setting=scaled) for seed in range(repeats)]
        outcomes = sweep(batch_trials, rows, every=every, **options)
        trials += batch_trials
        for epoch in range(epochs):
            scores = [outcome.scores[epoch] for outcome in outcomes]
            curve_points.append(point(f"batch {batch}", epoch + 1, scores, share=True))
    ends = [p.mean for p in curve_points if p.x == epochs]
    return BatchCurves(points=tuple(curve_points), note=note(rows, trials), apart=max(ends) - min(ends))


def by_setting(outcomes: Sequence[Outcome], of: Mapping[str, Any]) -> dict[str, dict[float, dict[str, float]]]:
    """Return median and maximum of the scores for each value of each setting in `of`.

    `of` maps a name to a function of a setting.
    """
    summary: dict[str, dict[float, dict[str, float]]] = {}
    for name, get in of.items():
        values: dict[float, list[float]] = {}
        for outcome in outcomes:
            values.setdefault(get(outcome.trial.setting), []).append(outcome.score)
        summary[name] = {
            value: {"median": float(np.median(scores)), "maximum": float(max(scores))}
            for value, scores in sorted(values.items())
        }
    return summary
