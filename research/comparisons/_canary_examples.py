"""Canaries in gradient space as examples, each with its own parameter, so that their clipped gradients are orthogonal.

They pass through the whole training engine, including sampling, clipping, sums and noise, beside the examples of a
network. The final value of a canary's parameter is a multiple of the sum of all its noisy gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privaware.attacks._gradient_canaries import CanaryScores
from privaware.descent import Descent, sgd
from privaware.noise import Rng

__all__ = ["canary_examples"]

CANARY_GRADIENT = 1e4
"""Gradient of a canary, far above any clipping norm."""


def canary_examples(
    descent: Descent,
    network: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    noise: float,
    rows: int,
    rng: Rng,
    canaries: int = 1000,
) -> CanaryScores:
    """Train `network` once, with each of `canaries` more examples included with probability 1/2; return their scores.

    The score is minus the final value of the canary's parameter. `descent` has the settings of DP-SGD. `inputs` and
    `targets` are the ordinary examples. `noise` is the noise multiplier. `rows` is the declared number of rows, as for
    `Descent.run`. The update is plain SGD without averaging, whatever `descent` says. Updates are post-processing, so
    the parameters reveal the noisy sums.
    """
    coins = rng.initial.random(canaries) < 0.5
    chosen = torch.from_numpy(1 + np.flatnonzero(coins))
    blank = torch.zeros((len(chosen), *inputs.shape[1:]), dtype=inputs.dtype)
    labels = torch.zeros((len(chosen), *targets.shape[1:]), dtype=targets.dtype)
    index = torch.cat([torch.zeros(len(inputs), dtype=torch.int64), chosen])
    recipe = replace(descent, update=sgd(LEARNING_RATE), average=None, loss=_CanaryLoss(descent.loss))
    trained = recipe.run(
        _WithCanaries(network, canaries),
        (torch.cat([inputs, blank]), index),
        torch.cat([targets, labels]),
        noise=noise,
        rows=rows,
        rng=rng,
    )
    table: Any = trained.table
    return CanaryScores(inside=coins, scores=-table.weight.detach().double().numpy()[1:, 0])


LEARNING_RATE = 1e-3
"""Learning rate, small so that the network hardly changes: the audit is about the noisy sums."""


class _WithCanaries(nn.Module):
    """A network, and a table with one trainable number for each canary, initially 0.

    `forward` takes inputs and the index of each example: its canary's number from 1, or 0 for an ordinary example. It
    returns the network's outputs (0 for canaries) with the canary's number as a last column (0 for ordinary examples).
    """

    def __init__(self, network: nn.Module, canaries: int) -> None:
        super().__init__()
        self.network = network
        self.table = nn.Embedding(canaries + 1, 1, padding_idx=0)
        nn.init.zeros_(self.table.weight)

    def forward(self, inputs: Tensor, index: Tensor) -> Tensor:
        outputs = self.network(inputs)
        real = (index == 0).to(outputs.dtype)[:, None]
        return torch.cat([outputs * real, self.table(index)], 1)


@dataclass(frozen=True)
class _CanaryLoss:
    """The loss `inner` of the network, plus `CANARY_GRADIENT` times the last output, which is the canary's parameter.

    The last output is the constant 0 for ordinary examples. `inner(outputs, targets)` gets the other outputs; for a
    canary these are constant zeros, without a gradient.
    """

    inner: Callable[..., Tensor]

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.inner(outputs[:, :-1], targets) + CANARY_GRADIENT * outputs[:, -1]
