"""Scores during training: an observer that scores all models of a population at regular intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privaware.descent._precision import matmul_precision
from privaware.descent._training import Training

__all__ = ["AllReached", "ScoreRecorder", "scorer"]

EXAMPLES = 5000
"""Largest number of test rows that are scored together."""


class AllReached(Exception):
    """Raised when every model of a population has reached the requested score."""


@dataclass(frozen=True)
class ScoreRecorder:
    """An observer that calls `measure` after every `every` steps and after the last step.

    `measure` returns one value for each model. If `reach` is given, training ends when every model has reached it.
    """

    every: int
    measure: Callable[[Training], list[Any]]
    reach: float | None = None
    records: list[tuple[int, list[Any]]] = field(default_factory=list)

    @torch.no_grad()
    def __call__(self, training: Training) -> None:
        if training.step % self.every and training.step != training.recipe.steps:
            return
        self.records.append((training.step, self.measure(training)))
        if self.reach is None:
            return
        best = np.max([values for _, values in self.records], axis=0)
        if bool((best >= self.reach).all()):
            raise AllReached

    def columns(self) -> list[list[tuple[int, Any]]]:
        """Return the steps and values of each model."""
        return [[(step, values[at]) for step, values in self.records] for at in range(len(self.records[0][1]))]


def scorer(x_test: Tensor, y_test: Tensor) -> Callable[[Training], list[float]]:
    """Return a function that computes each model's accuracy, or `1 - mean absolute error` for targets in [0, 1]."""
    classes = not y_test.is_floating_point()

    def score(training: Training) -> list[float]:
        outputs = _outputs(training, x_test).nan_to_num(0.0)
        if classes:
            return (outputs.argmax(2) == y_test).double().mean(1).tolist()  # type: ignore[no-any-return]
        error = outputs[:, :, 0].clamp(0, 1).double() - y_test.double().clamp(0, 1)
        return (1 - error.abs().mean(1)).tolist()  # type: ignore[no-any-return]

    return score


def _outputs(training: Training, x_test: Tensor) -> Tensor:
    """Return the outputs of each model for every row, computed in microbatches, with shape (models, rows, outputs)."""
    models, parts = training.models, []
    with _as_released(training):
        for part in x_test.split(max(1, min(EXAMPLES, training.microbatch))):
            many = part.expand(models, *part.shape).flatten(0, 1)
            outputs, _ = training.stack.forward((many,), len(many))
            parts.append(outputs.detach().view(models, len(part), -1))
    return torch.cat(parts, 1)


@contextmanager
def _as_released(training: Training) -> Iterator[None]:
    """Use the parameters that would be released, without dropout and in float32, inside the block."""
    theta, module = training.state.theta, training.stack.module
    was_training = module.training
    current = theta.clone() if training.state.averages else None
    if current is not None:
        theta.copy_(training.state.averages["average"])
    module.eval()
    try:
        with matmul_precision("float32"):
            yield
    finally:
        module.train(was_training)
        if current is not None:
            theta.copy_(current)
