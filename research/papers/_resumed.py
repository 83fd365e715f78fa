"""Training on one schedule that survives an interruption."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from research.papers._runner import Bench

__all__ = ["train_resumed"]

OFTEN = 200
"""Steps between two checkpoints."""


def train_resumed(training: Any, steps: int, file: Path, bench: Bench) -> float:
    """Trains up to so many steps, from the checkpoint beside `file` where there is one; the last loss.

    `training` has `step(progress)`, `step_number`, `state()` and `load(state)`.
    """
    import torch

    state = file.with_name(f"{file.stem.replace('_', '-')}-state.pt")
    if state.is_file():
        training.load(torch.load(state, map_location=bench.device, weights_only=True))
    loss = torch.zeros(())
    while training.step_number < steps:
        loss = training.step(training.step_number / steps)
        if training.step_number % OFTEN == 0:
            partial_file = state.with_suffix(".partial")
            torch.save(training.state(), partial_file)
            os.replace(partial_file, state)
            bench.say(f"step {training.step_number}, loss {loss.item():.4f}")
    state.unlink(missing_ok=True)
    return float(loss)
