"""Random weights training against full training: where freezing the first layers stops paying.

Both trainings of the same network run at each noise (that is, epsilon), from the same starts; told are the curves and
the crossover epsilon, with training of the last layers as the simple model.

Paper: Bao, Bauer and Bindschaedler, Tables VI, VII and IX and Figure 10: crossover at 0.6 (CNN) and 1.4 (FCN) on MNIST.
Privacy: a release of every model, see `privaware.studies`. Frozen weights come from public randomness.
Use when: the network is given and the budget is small.

>>> from privaware.studies._trials import made_up
>>> rows = made_up()
>>> deep = {"name": "fcn", "inputs": 5, "hidden": [8, 8], "outputs": 2, "dropout": 0.0}
>>> made = random_weights(rows, deep, {0.5: 4.0, 5.0: 0.8}, last=1, batch=30, steps=5, lr=0.5, repeats=2)
>>> sorted({point.curve for point in made.points})
['all layers', 'last 1 layers']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privaware import models
from privaware.errors import WrongInput
from privaware.studies._result import Curves, points
from privaware.studies._sweep import sweep
from privaware.studies._trials import Rows, Setting, Trial, note
from privaware.workflow._crossing import Crossing, crossing

__all__ = ["random_weights", "RandomWeights", "layers"]

Rates = float | Sequence[float]


@dataclass(frozen=True, kw_only=True)
class RandomWeights(Curves):
    """Both curves, the number of parameters that each trains, and the crossover."""

    parameters: dict[str, int]
    crossover: Crossing


def random_weights(
    rows: Rows,
    architecture: dict[str, Any],
    noises: Mapping[float, float],
    *,
    last: int = 2,
    batch: int,
    steps: int,
    lr: float,
    frozen_lr: float | None = None,
    norm: float = 1.0,
    momentum: float = 0.0,
    repeats: int = 5,
    **how: Any,
) -> RandomWeights:
    """`noises` maps each epsilon to its noise; `frozen_lr` is the rate where only the last layers are trained."""
    sizes = layers(architecture)
    if not 1 <= last < len(sizes):
        raise WrongInput(f"expected last from 1 to {len(sizes) - 1}, got {last!r}")
    flags = tuple(at >= len(sizes) - last for at in range(len(sizes)))
    some, every = f"last {last} layers", "all layers"
    ways: list[tuple[str, tuple[bool, ...] | None, float]] = [(every, None, lr), (some, flags, frozen_lr or lr)]
    trials = [
        Trial(
            curve=name,
            x=epsilon,
            seed=seed,
            setting=Setting(
                architecture=architecture,
                batch=batch,
                steps=steps,
                lr=rate,
                noise=noise,
                norm=norm,
                momentum=momentum,
                trainable=trained,
            ),
        )
        for name, trained, rate in ways
        for epsilon, noise in sorted(noises.items())
        for seed in range(repeats)
    ]
    found = points(sweep(trials, rows, **how))
    made = Curves(points=found, note="")
    epsilons, full = made.table(every)
    return RandomWeights(
        points=found,
        note=note(rows, trials),
        parameters={every: sum(sizes), some: sum(sizes[-last:])},
        crossover=crossing(epsilons, made.table(some)[1], full),
    )


def layers(architecture: dict[str, Any]) -> list[int]:
    """The number of parameters of each layer that has some, first to last.

    >>> layers({"name": "fcn", "inputs": 784, "hidden": [1024, 512, 64], "outputs": 10})[-2:]
    [32832, 650]
    """
    module = models.build(architecture, device="meta")
    counts = [sum(p.numel() for p in part.parameters(False)) for part in module.modules()]
    return [count for count in counts if count]
