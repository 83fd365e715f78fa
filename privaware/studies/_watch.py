"""Numbers on the way: every so many steps a population is looked at, all its models at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privaware.descent import Checkpoint

__all__ = ["Reached", "Watch", "scorer"]

EXAMPLES = 5000


class Reached(Exception):
    """Every model of a population has scored what it was to score."""


@dataclass(frozen=True)
class Watch(Checkpoint):
    """In the place of a checkpoint: keeps no file, but `measure`s the run, one number a model, and remembers."""

    measure: Callable[[Any], list[Any]] = list
    reach: float | None = None
    seen: list[tuple[int, list[Any]]] = field(default_factory=list)

    def load(self, run: Any) -> None:
        """Runs begin at their beginning."""

    @torch.no_grad()
    def save(self, run: Any) -> None:
        self.seen.append((run.step, self.measure(run)))
        if self.reach is None:
            return
        best = np.max([values for _, values in self.seen], axis=0)
        if bool((best >= self.reach).all()):
            raise Reached

    def columns(self) -> list[list[tuple[int, Any]]]:
        """For each model its steps and numbers."""
        return [[(step, them[at]) for step, them in self.seen] for at in range(len(self.seen[0][1]))]


def scorer(x_test: Tensor, y_test: Tensor) -> Callable[[Any], list[float]]:
    """Each model's accuracy on the rows to score on, or 1 - mean absolute error of numbers in [0, 1]."""
    classes = not y_test.is_floating_point()

    def score(run: Any) -> list[float]:
        outputs = _outputs(run, x_test).nan_to_num(0.0)
        if classes:
            return (outputs.argmax(2) == y_test).double().mean(1).tolist()  # type: ignore[no-any-return]
        error = outputs[:, :, 0].clamp(0, 1).double() - y_test.double().clamp(0, 1)
        return (1 - error.abs().mean(1)).tolist()  # type: ignore[no-any-return]

    return score


def _outputs(run: Any, x_test: Tensor) -> Tensor:
    """(models, rows, outputs): what each model says of every row, as many rows at once as a batch may have."""
    models, parts = run.models, []
    with _as_released(run):
        for part in x_test.split(max(1, min(EXAMPLES, run.physical))):
            many = part.expand(models, *part.shape).flatten(0, 1)
            outputs, _ = run.stack.forward((many,), len(many))
            parts.append(outputs.detach().view(models, len(part), -1))
    return torch.cat(parts, 1)


@contextmanager
def _as_released(run: Any) -> Iterator[None]:
    """The parameters that would be released, without dropout and with whole mantissas."""
    from privaware.descent._probe import mantissas

    theta, training = run.stack.theta, run.stack.module.training
    kept = theta.clone() if run.averages else None
    if kept is not None:
        theta.copy_(run.averages["average"])
    run.stack.module.eval()
    try:
        with mantissas("float32"):
            yield
    finally:
        run.stack.module.train(training)
        if kept is not None:
            theta.copy_(kept)
