"""Noise against input size: the same task with each feature cut into more and more parts.

Ten numbers in [0, 1] are drawn for each row, and its class is whether their sum exceeds half of the most it can be. A
model with more inputs gets each number as equal parts that add up to it, so every model can learn the same rule. Each
is one logistic unit, trained with noise and, from the same start and on the same recipe, without; told are its accuracy
and the cosine distance between the two vectors of coefficients.

Paper: Bao, Bauer and Bindschaedler, section VI-A, Table III and Figure 5 (epsilon 0.0355, 50 epochs, 100 repeats). They
do not say how many rows, which noise, how a number is cut or what the rate was: 12,000 rows, batch 300, noise 100 (that
epsilon), equal parts and rate 0.3 here.
Privacy: the rows are made up, so nobody's privacy is at stake; `epsilon` is what the training would cost.
Use when: you want to see what extra inputs cost when they bring nothing.

>>> made = input_size((10, 40), rows=200, tested=200, batch=50, epochs=2, noise=5.0, repeats=2)
>>> [point.x for point in made.points]
[10.0, 40.0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware import models
from privaware.errors import WrongInput
from privaware.noise import Rng
from privaware.workflow._curves import Point, Result, lines, point

__all__ = ["input_size", "InputSize"]

NUMBERS = 10


@dataclass(frozen=True, kw_only=True)
class InputSize(Result):
    """Accuracy with noise for each input size, that without, and the cosine distances after each epoch."""

    points: tuple[Point, ...]
    plain: tuple[Point, ...]
    distances: tuple[Point, ...]
    rate: float
    steps: int
    noise: float
    note: str = "made-up rows"

    def chart(self) -> Any:
        return lines(self.distances, x="epoch", y="cosine distance", log=False)


def input_size(
    sizes: Sequence[int] = (10, 50, 100, 500, 1000),
    *,
    rows: int = 12_000,
    tested: int = 2000,
    batch: int = 300,
    epochs: int = 50,
    noise: float = 100.0,
    lr: float = 0.3,
    norm: float = 1.0,
    repeats: int = 10,
    device: str = "cpu",
) -> InputSize:
    """One population of `repeats` for each size, trained with and without noise from the same starts."""
    if any(size % NUMBERS or size < NUMBERS for size in sizes):
        raise WrongInput(f"expected input sizes as multiples of {NUMBERS}, got {list(sizes)!r}")
    drawn = np.random.default_rng(0)
    numbers, others = drawn.random((rows, NUMBERS)), drawn.random((tested, NUMBERS))
    made: dict[str, list[Point]] = {"noisy": [], "plain": [], "far": []}
    steps = epochs * math.ceil(rows / batch)
    for size in sizes:
        train, test = _cut(numbers, size), _cut(others, size)
        recipe = (batch / rows, steps, lr, norm, math.ceil(rows / batch))
        way = [_trained(train, recipe, level, repeats, device) for level in (noise, 0.0)]
        for name, weights in zip(("noisy", "plain"), way):
            last = [_accuracy(at, test) for at in weights[-1]]
            made[name].append(point(f"{size} inputs", size, last))
        for epoch, (some, rest) in enumerate(zip(*way), start=1):
            far = [_distance(a, b) for a, b in zip(some, rest)]
            made["far"].append(point(f"{size} inputs", epoch, far))
    return InputSize(
        points=tuple(made["noisy"]),
        plain=tuple(made["plain"]),
        distances=tuple(made["far"]),
        rate=batch / rows,
        steps=steps,
        noise=noise,
    )


def _cut(numbers: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    parts = size // NUMBERS
    classes = (numbers.sum(axis=1) > NUMBERS / 2).astype(np.int64)
    return np.repeat(numbers / parts, parts, axis=1).astype(np.float32), classes


def _trained(
    data: tuple[np.ndarray, np.ndarray],
    recipe: tuple[float, int, float, float, int],
    noise: float,
    repeats: int,
    device: str,
) -> list[list[np.ndarray]]:
    """The coefficients (offset last) of every repeat after each epoch."""
    import torch

    from privaware import descent
    from privaware.studies._watch import Watch

    rate, steps, lr, norm, every = recipe
    x, y = data
    description = {"name": "linear", "inputs": x.shape[1], "outputs": 1}
    modules = [models.build(description, np.random.default_rng(seed)) for seed in range(repeats)]
    watch = Watch("", every, _coefficients)
    way = descent.Descent(
        steps=steps,
        sampler=descent.Poisson(rate=rate),
        clip=descent.flat(norm),
        update=descent.sgd(lr),
        loss=logistic,
        overflow=1e-10 if device != "cpu" else 0.0,
    )
    way.run_population(
        modules,
        torch.from_numpy(x),
        torch.from_numpy(y),
        noise=[noise] * repeats,
        rows=len(x),
        rng=Rng(seed=len(x[0])),
        device=device,
        checkpoint=watch,
    )
    return [values for _, values in watch.seen]


def logistic(outputs: Any, targets: Any) -> Any:
    """-log of the probability of the right one of two classes, by one output."""
    from torch.nn import functional

    return functional.softplus((1 - 2 * targets) * outputs[:, 0])


def _coefficients(run: Any) -> list[np.ndarray]:
    """One vector a model: of a linear network that is its line of the stacked parameters."""
    return list(run.stack.theta.cpu().numpy().copy())


def _accuracy(coefficients: np.ndarray, data: tuple[np.ndarray, np.ndarray]) -> float:
    x, y = data
    return float(np.mean((x @ coefficients[:-1] + coefficients[-1] > 0) == y))


def _distance(some: np.ndarray, others: np.ndarray) -> float:
    """1 - the cosine of the angle between the coefficients; offsets are left out."""
    a, b = some[:-1], others[:-1]
    return 1 - float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-30))
