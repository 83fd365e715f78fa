"""About how long a cell takes on one H200: what it asks for is written down in a dry run and priced.

A population takes a set-up and, for each step, its launches and its arithmetic. The constants are read off
docs/results/descent.md and a run of the first cell; they are meant to be right within a factor of two.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from privaware import models
from privaware.studies._population import grouped
from privaware.studies._trials import Trial

SET_UP = 0.5
LAUNCHES = {"linear": 1e-4, "fcn": 1.4e-4, "lstm": 8e-3}
CONVOLUTIONAL = 3e-4
"""Seconds a step at least, by the kind of network."""
DENSE, LSTM = 1.5e-13, 1e-12
"""Seconds a row and parameter, in tf32; the recurrent ones see a row word by word."""
ROW, PRODUCT = 1.2e-7, 2.2e-13
"""Convolutions: seconds a row, and a row and multiply-add."""
FROZEN = 0.4
"""What is left where the first layers are not trained: nothing goes back through them."""


def seconds(asked: Sequence[Sequence[Trial]]) -> float:
    """Of all sweeps of a cell together."""
    total = 0.0
    for trials in asked:
        keyed = {str(at): trial for at, trial in enumerate(trials)}
        total += sum(_population([keyed[key] for key in own]) for own in grouped(keyed, "cuda"))
    return total


def _population(trials: Sequence[Trial]) -> float:
    first = trials[0].setting
    rows = first.batch + 10 * first.batch**0.5  # samples are padded to a fixed shape
    each = max(_row(json.dumps(trial.setting.architecture)) for trial in trials)
    if first.trainable is not None and not first.trainable[0]:
        each *= FROZEN
    kind = first.architecture["name"]
    least = LAUNCHES.get(kind, CONVOLUTIONAL)
    return SET_UP + first.steps * (least + len(trials) * rows * each)


@cache
def _row(architecture: str) -> float:
    """Seconds a row of one model."""
    described = json.loads(architecture)
    kind = described["name"]
    if kind in LAUNCHES:
        return models.count(described) * (LSTM if kind == "lstm" else DENSE)
    return ROW + _products(described) * PRODUCT


def _products(described: dict[str, Any]) -> int:
    """Multiply-adds of one row through convolutions and dense layers."""
    import torch
    from torch import nn

    found: list[int] = []

    def hear(part: nn.Module, inputs: Any, output: torch.Tensor) -> None:
        if isinstance(part, nn.Conv2d):
            found.append(output[0, 0].numel() * part.weight.numel())
        elif isinstance(part, nn.Linear):
            found.append(part.weight.numel())

    net = models.build(described, np.random.default_rng(0)).eval()
    for part in net.modules():
        part.register_forward_hook(hear)
    net(torch.zeros(1, *described["inputs"]))
    return sum(found)
