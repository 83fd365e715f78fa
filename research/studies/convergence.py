"""Convergence with and without noise: the same descent at a low and at a high learning rate.

At a low rate, noise hardly changes the curve. At a high rate, the model without noise learns fast and the noisy model
does not. Features that learn fast at a low rate suit private training.

Paper: Tramer and Boneh 2021, arXiv:2011.11660, Figure 3 (CIFAR-10) and Figure 11 (MNIST, Fashion-MNIST), settings in
their Table 14: batch 512, clipping at 0.1, rates (1/4, 4), (1/2, 8) and (1, 16).
Privacy: every model is released at every reported epoch, and models without noise have no guarantee: an evaluation on
public rows.
Use when: you want to know whether features or an architecture are easy enough for private training.

>>> from research.studies._trials import Setting, synthetic_examples
>>> rows = synthetic_examples()
>>> one = Setting(architecture={"name": "linear", "inputs": 5, "outputs": 2}, batch=30, steps=20, lr=1.0, noise=1.0)
>>> study = convergence(rows, {"linear": one}, (0.1, 1.0), epochs=2, repeats=2)
>>> len(study.points), study.points[0].curve
(8, 'linear, rate 0.1, with noise')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from privaware.errors import WrongInput
from privaware.workflow._curves import Point, lines, point
from research.studies._result import Curves
from research.studies._sweep import sweep
from research.studies._trials import Outcome, Rows, Setting, Trial, note

__all__ = ["convergence", "Convergence", "by_epoch"]


@dataclass(frozen=True, kw_only=True)
class Convergence(Curves):
    """Accuracy by epoch; `lost` is the accuracy that each model loses to noise at each rate, at the end."""

    lost: dict[str, float]

    def chart(self) -> Any:
        return lines(self.points, x="epoch", log=False)


def convergence(
    rows: Rows,
    settings: Mapping[str, Setting],
    rates: Sequence[float],
    *,
    epochs: int,
    repeats: int = 5,
    **options: Any,
) -> Convergence:
    """Train each named setting at each of `rates`, with its noise and without, and score it after every epoch."""
    every = {setting.steps // epochs for setting in settings.values()}
    if len(every) != 1 or min(every) < 1:
        raise WrongInput(f"expected settings of the same steps, at least one an epoch, got {every}")
    trials = [
        Trial(curve=_name(name, rate, bool(noise)), x=rate, seed=seed, setting=replace(setting, lr=rate, noise=noise))
        for name, setting in settings.items()
        for rate in rates
        for noise in (setting.noise, 0.0)
        for seed in range(repeats)
    ]
    outcomes = sweep(trials, rows, every=min(every), **options)
    measured = by_epoch(outcomes)
    last = {p.curve: p.mean for p in measured if p.x == max(q.x for q in measured)}
    lost = {
        f"{name}, rate {rate:g}": last[_name(name, rate, False)] - last[_name(name, rate, True)]
        for name in settings
        for rate in rates
    }
    return Convergence(points=measured, note=note(rows, trials), lost=lost)


def _name(name: str, rate: float, noisy: bool) -> str:
    return f"{name}, rate {rate:g}, {'with noise' if noisy else 'without'}"


def by_epoch(outcomes: Sequence[Outcome]) -> tuple[Point, ...]:
    """Group the scores during training by curve; x is the number of the score, starting at 1."""
    curves: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        curves.setdefault(outcome.trial.curve, []).append(outcome)
    return tuple(
        point(name, epoch + 1, [outcome.scores[epoch] for outcome in repeats], share=True)
        for name, repeats in curves.items()
        for epoch in range(min(len(outcome.scores) for outcome in repeats))
    )
