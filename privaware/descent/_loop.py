"""Run the training loop: take every remaining step, save checkpoints, report progress and call observers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import nn

from privaware._validate import expect_count
from privaware.descent._checkpoint import Checkpoint
from privaware.descent._cuda_graph import CapturedStep
from privaware.descent._optimizer import TorchOptimizer
from privaware.descent._training import Training
from privaware.noise import Rng

Progress = Callable[[int, int, float], None]
"""A function that is called after each step with (steps taken, total steps, estimated remaining seconds)."""

Observer = Callable[[Training], None]
"""A function that is called with the `Training` after each step. It may read the training but must not change it."""


@dataclass(frozen=True)
class Callbacks:
    """What a training does in addition to its steps.

    Privacy: observers see every intermediate state. What they read from a training on private examples must not be
    published unless its privacy cost is charged.

    Parameters
    ----------
    checkpoint : Checkpoint, optional
        The file to save to and resume from.
    progress : callable, optional
        Called after each step with (steps taken, total steps, estimated remaining seconds).
    on_step : sequence of callables
        Observers: functions that are called after each step with the `Training` object.
    """

    checkpoint: Checkpoint | None = None
    progress: Progress | None = None
    on_step: Sequence[Observer] = ()

    def for_stack(self, turn: int, turns: int) -> Callbacks:
        """Return the callbacks for stack number `turn` (from 0) of `turns` stacks that are trained one after another.

        Each stack has its own checkpoint file, whose name is the path of the checkpoint followed by `.` and `turn`.
        Progress is reported over all stacks together. If `turns` is 1, `self` is returned.
        """
        if turns == 1:
            return self
        checkpoint, progress = self.checkpoint, self.progress
        if checkpoint is not None:
            checkpoint = replace(checkpoint, path=f"{checkpoint.path}.{turn}")
        return Callbacks(checkpoint, None if progress is None else _part(progress, turn, turns), self.on_step)


def _part(progress: Progress, turn: int, turns: int) -> Progress:
    return lambda step, steps, left: progress(turn * steps + step, turns * steps, left * (turns - turn))


def every(count: int, observer: Observer) -> Observer:
    """Return an observer that calls another one after each step number divisible by `count`, and after the last step.

    Parameters
    ----------
    count : int
        Number of steps between two calls.
    observer : callable
        The observer, called with the `Training` object.

    Returns
    -------
    callable
        The observer for `Callbacks.on_step`.
    """

    expect_count("every", count=count)

    def on_step(training: Training) -> None:
        if training.step % count == 0 or training.step == training.recipe.steps:
            observer(training)

    return on_step


def train_to_end(training: Training, callbacks: Callbacks | None = None) -> list[nn.Module]:
    """Take all remaining steps and return the trained copies of the modules.

    If `callbacks` has a checkpoint whose file exists, the training resumes from this file. After each step a due
    checkpoint is saved, then observers are called, then progress is reported. The checkpoint file stays at the end.
    """
    callbacks = callbacks or Callbacks()
    checkpoint, state, steps = callbacks.checkpoint, training.state, training.recipe.steps
    if checkpoint is not None:
        checkpoint.load(state, steps)
    if training.ranks is not None:
        state.share(training.ranks)
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
    """Return the function, without arguments, that takes one step of `training`.

    On CUDA the function replays a captured CUDA graph. It is the plain `training.one_step` in each of these cases: the
    device is not a GPU; the training has `ranks`; there are no examples; the update is an optimiser of PyTorch, which
    may run code on the host; or `training.rng` is of a subclass of `Rng`, such as a recorder.
    """
    if isinstance(training.recipe.update, TorchOptimizer) or training.ranks is not None:
        return training.one_step
    if training.stack.device.type != "cuda" or type(training.rng) is not Rng or not training.examples:
        return training.one_step
    return CapturedStep(training).one_step
