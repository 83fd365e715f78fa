"""Canaries in gradient space as examples, each with a parameter of its own: their clipped gradients are orthogonal.

They go through the whole engine, sampling, clipping, sums and noise included, beside the examples of a network. What
the last release of a parameter says is the sum of all noisy gradients there.
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

STEEP = 1e4
"""The gradient of a canary: far above any clipping norm."""


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
    """Trains once, with each of `canaries` examples by a coin flip; how each scores.

    The update is plain descent without average: updates are post-processing, and so the parameters tell the sums.
    """
    coins = rng.initial.random(canaries) < 0.5
    chosen = torch.from_numpy(1 + np.flatnonzero(coins))
    blank = torch.zeros((len(chosen), *inputs.shape[1:]), dtype=inputs.dtype)
    labels = torch.zeros((len(chosen), *targets.shape[1:]), dtype=targets.dtype)
    index = torch.cat([torch.zeros(len(inputs), dtype=torch.int64), chosen])
    recipe = replace(descent, update=sgd(LR), average=None, loss=_CanaryLoss(descent.loss))
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


LR = 1e-3
"""Small, so that the network stays where it is: the audit is about the sums."""


class _WithCanaries(nn.Module):
    """A network, and a table with one parameter for each canary; examples that are no canary look up the padding."""

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
    """The network's loss, and a steep slope in the canary's parameter."""

    inner: Callable[..., Tensor]

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.inner(outputs[:, :-1], targets) + STEEP * outputs[:, -1]
