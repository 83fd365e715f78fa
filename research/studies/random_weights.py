"""Training of the last layers against full training: the epsilon up to which freezing random layers pays.

Both trainings of the same network run at each epsilon from the same initial weights. The study reports the curves and
the crossover epsilon, with training of the last layers as the simple model.

Paper: Bao, Bauer and Bindschaedler, Tables VI, VII and IX and Figure 10: crossover at 0.6 (CNN) and 1.4 (FCN) on MNIST.
Privacy: a release of every model, see `research.studies`. Frozen weights come from public randomness.
Use when: the network is fixed and the budget is small.

>>> from research.studies._trials import Setting, synthetic_examples
>>> deep = {"name": "fcn", "inputs": 5, "hidden": [8, 8], "outputs": 2, "dropout": 0.0}
>>> setting = Setting(architecture=deep, batch=30, steps=5, lr=0.5)
>>> study = random_weights(synthetic_examples(), setting, {0.5: 4.0, 5.0: 0.8}, last=1, repeats=2)
>>> sorted({point.curve for point in study.points})
['all layers', 'last 1 layers']
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from privaware import models
from privaware.errors import WrongInput
from privaware.workflow._crossing import Crossing, crossing
from research.studies._result import Curves, points
from research.studies._sweep import sweep
from research.studies._trials import Rows, Setting, Trial, note

__all__ = ["random_weights", "RandomWeights", "layers"]


@dataclass(frozen=True, kw_only=True)
class RandomWeights(Curves):
    """Both curves, the number of parameters that each training changes, and the crossover."""

    parameters: dict[str, int]
    crossover: Crossing


def random_weights(
    rows: Rows,
    setting: Setting,
    noises: Mapping[float, float],
    *,
    last: int = 2,
    frozen_lr: float | None = None,
    repeats: int = 5,
    **options: Any,
) -> RandomWeights:
    """Train the last layers, and all layers, at each epsilon.

    `noises` maps each epsilon to its noise multiplier. `frozen_lr` is the learning rate if only `last` layers train.
    """
    sizes = layers(setting.architecture)
    if not 1 <= last < len(sizes):
        raise WrongInput(f"expected last from 1 to {len(sizes) - 1}, got {last!r}")
    trainable = tuple(at >= len(sizes) - last for at in range(len(sizes)))
    partial, complete = f"last {last} layers", "all layers"
    trainings = {complete: setting, partial: replace(setting, trainable=trainable, lr=frozen_lr or setting.lr)}
    trials = [
        Trial(curve=name, x=epsilon, seed=seed, setting=replace(training, noise=noise))
        for name, training in trainings.items()
        for epsilon, noise in sorted(noises.items())
        for seed in range(repeats)
    ]
    curves = Curves(points=points(sweep(trials, rows, **options)), note=note(rows, trials))
    epsilons, full = curves.table(complete)
    return RandomWeights(
        points=curves.points,
        note=curves.note,
        parameters={complete: sum(sizes), partial: sum(sizes[-last:])},
        crossover=crossing(epsilons, curves.table(partial)[1], full),
    )


def layers(architecture: dict[str, Any]) -> list[int]:
    """Return the number of parameters of each layer that has parameters, in order.

    >>> layers({"name": "fcn", "inputs": 784, "hidden": [1024, 512, 64], "outputs": 10})[-2:]
    [32832, 650]
    """
    module = models.build(architecture, device="meta")
    counts = [sum(p.numel() for p in part.parameters(False)) for part in module.modules()]
    return [count for count in counts if count]
