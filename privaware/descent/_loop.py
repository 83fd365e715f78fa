"""The training loop: every remaining step, with checkpoints, progress and observers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import nn

from privaware.descent._checkpoint import Checkpoint
from privaware.descent._cuda_graph import CapturedStep
from privaware.descent._training import Training
from privaware.noise import Rng

__all__ = ["Callbacks", "Observer", "Progress", "every", "train_to_end"]

Progress = Callable[[int, int, float], None]
"""Called after each step with steps taken, steps in all and the seconds that are left."""

Observer = Callable[[Training], None]
"""Called after each step; it may read the training's state, and must not change it."""


@dataclass(frozen=True)
class Callbacks:
    """What happens beside the steps: a file to resume from, progress for a person, observers of the state.

    Observers see exact parameters: with private examples, what they read must not be published without a charge.
    """

    checkpoint: Checkpoint | None = None
    progress: Progress | None = None
    on_step: Sequence[Observer] = ()

    def for_stack(self, turn: int, turns: int) -> Callbacks:
        """Those of one stack of several, trained one after another: a file of its own, progress over all."""
        if turns == 1:
            return self
        checkpoint, progress = self.checkpoint, self.progress
        if checkpoint is not None:
            checkpoint = replace(checkpoint, path=f"{checkpoint.path}.{turn}")
        return Callbacks(checkpoint, None if progress is None else _part(progress, turn, turns), self.on_step)


def _part(progress: Progress, turn: int, turns: int) -> Progress:
    return lambda step, steps, left: progress(turn * steps + step, turns * steps, left * (turns - turn))


def every(count: int, observer: Observer) -> Observer:
    """An observer that is called every `count` steps, and after the last."""

    def on_step(training: Training) -> None:
        if training.step % count == 0 or training.step == training.recipe.steps:
            observer(training)

    return on_step


def train_to_end(training: Training, callbacks: Callbacks | None = None) -> list[nn.Module]:
    """All remaining steps; the trained copies of the modules."""
    callbacks = callbacks or Callbacks()
    checkpoint, state, steps = callbacks.checkpoint, training.state, training.recipe.steps
    if checkpoint is not None:
        checkpoint.load(state)
    step = stepper(training) if state.step < steps else training.one_step
    began, first = time.monotonic(), state.step
    while state.step < steps:
        step()
        if checkpoint is not None and checkpoint.is_due(state.step, steps):
            checkpoint.save(state)
        for observer in callbacks.on_step:
            observer(training)
        if callbacks.progress is not None:
            seconds_per_step = (time.monotonic() - began) / (state.step - first)
            callbacks.progress(state.step, steps, seconds_per_step * (steps - state.step))
    return training.released()


def stepper(training: Training) -> Callable[[], None]:
    """The step: captured as a graph on CUDA, unless a recorder listens to the generator or there is no example."""
    if training.stack.device.type != "cuda" or type(training.rng) is not Rng or not training.examples:
        return training.one_step
    return CapturedStep(training).one_step
