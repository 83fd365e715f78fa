"""Noise against input size: the same task with each feature split into more and more parts.

Each row has ten numbers drawn from [0, 1], and its class is whether their sum exceeds 5. A model with more inputs gets
each number as equal parts that add up to it, so every model can learn the same rule. Each model is one logistic unit,
trained with noise and, from the same initial weights, without noise. The study reports its accuracy and the cosine
distance between the two coefficient vectors.

Paper: Bao, Bauer and Bindschaedler, section VI-A, Table III and Figure 5 (epsilon 0.0355, 50 epochs, 100 repeats). The
paper does not state the number of rows, the noise, how a number is split or the learning rate. Here: 12,000 rows, batch
300, noise multiplier 100 (which gives that epsilon), equal parts and learning rate 0.3. `PLAIN` is the training without
noise: no clipping, larger batches and momentum, because the fluctuation of small batches moves the offset.
Privacy: the rows are synthetic, so there is nothing to protect.
Use when: you want to see the cost of extra inputs that carry no information.

>>> setting = Setting(batch=50, steps=8, lr=0.3, noise=5.0)
>>> study = input_size((10, 40), setting, rows=200, test_rows=200, repeats=2)
>>> [point.x for point in study.points]
[10.0, 40.0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privaware import models
from privaware.errors import WrongInput
from privaware.noise import Rng
from privaware.workflow._curves import Point, lines, point
from research.studies._result import Result
from research.studies._trials import Setting

__all__ = ["input_size", "InputSize"]

NUMBERS = 10
"""Number of numbers in a row, before they are split."""
PAPER = Setting(batch=300, steps=2000, lr=0.3, noise=100.0)
"""Settings that cost the epsilon of the paper, 0.0355: 50 epochs of 12,000 rows."""
PLAIN = Setting(batch=3000, steps=2000, lr=1.0, norm=math.inf, momentum=0.9)
"""Settings without noise."""


@dataclass(frozen=True, kw_only=True)
class InputSize(Result):
    """Accuracy with and without noise for each input size, and the cosine distances after each epoch."""

    points: tuple[Point, ...]
    plain: tuple[Point, ...]
    distances: tuple[Point, ...]
    rate: float
    steps: int
    noise: float
    note: str = "synthetic rows"

    def chart(self) -> Any:
        return lines(self.distances, x="epoch", y="cosine distance", log=False)


def input_size(
    sizes: Sequence[int] = (10, 50, 100, 500, 1000),
    setting: Setting = PAPER,
    *,
    plain: Setting = PLAIN,
    rows: int = 12_000,
    test_rows: int = 2000,
    repeats: int = 10,
    seed: int = 0,
    device: str = "cpu",
) -> InputSize:
    """Train one population of `repeats` for each size, with and without noise, from the same initial weights.

    `setting` is the training with noise. `plain` is the training without, which takes as many steps. `seed` draws the
    rows.
    """
    if any(size % NUMBERS or size < NUMBERS for size in sizes):
        raise WrongInput(f"expected input sizes as multiples of {NUMBERS}, got {list(sizes)!r}")
    rng = np.random.default_rng(seed)
    numbers, test_numbers = rng.random((rows, NUMBERS)), rng.random((test_rows, NUMBERS))
    noisy, exact, distances = [], [], []
    every = math.ceil(rows / setting.batch)
    for size in sizes:
        train, test = _split_numbers(numbers, size), _split_numbers(test_numbers, size)
        with_noise = _coefficients_by_epoch(train, setting, every, repeats, device)
        without = _coefficients_by_epoch(train, replace(plain, steps=setting.steps), every, repeats, device)
        name = f"{size} inputs"
        noisy.append(point(name, size, [_accuracy(vector, test) for vector in with_noise[-1]]))
        exact.append(point(name, size, [_accuracy(vector, test) for vector in without[-1]]))
        for epoch, pairs in enumerate(zip(with_noise, without), start=1):
            distances.append(point(name, epoch, [_cosine_distance(a, b) for a, b in zip(*pairs)]))
    return InputSize(
        points=tuple(noisy),
        plain=tuple(exact),
        distances=tuple(distances),
        rate=setting.batch / rows,
        steps=setting.steps,
        noise=setting.noise,
    )


def _split_numbers(numbers: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs, with every number split into equal parts, and classes."""
    parts = size // NUMBERS
    classes = (numbers.sum(axis=1) > NUMBERS / 2).astype(np.int64)
    return np.repeat(numbers / parts, parts, axis=1).astype(np.float32), classes


def _coefficients_by_epoch(
    data: tuple[np.ndarray, np.ndarray], setting: Setting, every: int, repeats: int, device: str
) -> list[list[np.ndarray]]:
    """Return the coefficients (offset last) of every repeat after every `every` steps."""
    import torch

    from privaware import descent
    from research.studies._scoring import ScoreRecorder

    x, y = data
    description = {"name": "linear", "inputs": x.shape[1], "outputs": 1}
    modules = [models.build(description, np.random.default_rng(seed)) for seed in range(repeats)]
    rate = min(1.0, setting.batch / len(x))
    recorder = ScoreRecorder(every, _coefficients)
    logistic_descent = descent.Descent(
        steps=setting.steps,
        sampler=descent.Poisson(rate=rate) if rate < 1 else descent.FullBatch(),
        clip=descent.flat(setting.norm),
        update=descent.momentum(setting.lr, setting.momentum) if setting.momentum else descent.sgd(setting.lr),
        loss=logistic,
        overflow=1e-10 if device != "cpu" and rate < 1 else 0.0,
    )
    logistic_descent.run_population(
        descent.members(modules, noise=[setting.noise] * repeats),
        torch.from_numpy(x),
        torch.from_numpy(y),
        rows=len(x),
        rng=Rng(seed=len(x[0])),
        device=device,
        callbacks=descent.Callbacks(on_step=[recorder]),
    )
    return [values for _, values in recorder.records]


def logistic(outputs: Any, targets: Any) -> Any:
    """Return the negative log-probability of the true class, for two classes and one output."""
    from torch.nn import functional

    return functional.softplus((1 - 2 * targets) * outputs[:, 0])


def _coefficients(training: Any) -> list[np.ndarray]:
    """Return one coefficient vector for each model."""
    return list(training.state.theta.cpu().numpy().copy())


def _accuracy(coefficients: np.ndarray, data: tuple[np.ndarray, np.ndarray]) -> float:
    x, y = data
    return float(np.mean((x @ coefficients[:-1] + coefficients[-1] > 0) == y))


def _cosine_distance(first: np.ndarray, second: np.ndarray) -> float:
    """Return `1 - cos(angle)` between the coefficients, without offsets."""
    a, b = first[:-1], second[:-1]
    return 1 - float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-30))
