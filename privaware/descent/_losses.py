"""Losses with one value a row: what a private step may use, because no row's value depends on another row.

>>> import torch
>>> cross_entropy(torch.zeros(2, 4), torch.tensor([0, 3])).tolist()
[1.3862943649291992, 1.3862943649291992]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from privaware.errors import WrongInput

__all__ = ["cross_entropy", "focal", "losing_less", "row_losses", "squared"]


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """-log of the probability of the right class; with (rows, classes, ...) outputs the mean over what follows."""
    losses = F.cross_entropy(outputs, targets, reduction="none")
    return losses if losses.ndim == 1 else losses.flatten(1).mean(1)


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    """Half the squared distance, summed over the outputs of a row."""
    return (outputs.flatten(1) - targets.reshape(len(outputs), -1)).square().sum(1) / 2


@dataclass(frozen=True)
class focal:
    """Cross-entropy times (1 - p)^gamma, p the probability of the right class: hard rows count most.

    Paper: Lin et al. 2017, Focal Loss for Dense Object Detection; DPMLBench runs it with gamma 5.
    """

    gamma: float = 5.0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        log_p = F.log_softmax(outputs, 1).gather(1, targets[:, None]).squeeze(1)
        return -((-torch.expm1(log_p)).clamp_min(0) ** self.gamma) * log_p


@dataclass(frozen=True)
class losing_less:
    """Squared error on raw logits early, focal loss late, and a penalty on pre-activations meanwhile.

    Paper: Shamsabadi and Papernot, Losing Less: A Loss for Differentially Private Deep Learning.
    The share of the focal part is sigmoid(epoch - turn * epochs); `watch` names the modules whose inputs are penalised.
    The paper gives neither beta nor the turning epoch: 10 and half-way are ours.
    """

    epochs: float
    gamma: float = 5.0
    beta: float = 10.0
    turn: float = 0.5
    done: Any = 0.0
    watch: tuple[str, ...] = ("ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "Tanh", "Hardtanh", "Sigmoid", "Tempered")

    def at(self, done: Any) -> losing_less:
        """This loss when the share `done` of the steps is over."""
        return losing_less(self.epochs, self.gamma, self.beta, self.turn, done, self.watch)

    @property
    def share(self) -> Any:
        """How much of the focal loss is in."""
        position = (self.done - self.turn) * self.epochs
        return position.sigmoid() if isinstance(position, Tensor) else _sigmoid(position)

    def __call__(self, outputs: Tensor, targets: Tensor, hidden: Sequence[Tensor] = ()) -> Tensor:
        near = F.one_hot(targets, outputs.shape[1]).to(outputs.dtype)
        early = (outputs - near).square().sum(1) / 2
        for inputs in hidden:
            early = early + inputs.reshape(len(outputs), -1).square().mean(1) / (2 * self.beta)
        return self.share * focal(self.gamma)(outputs, targets) + (1 - self.share) * early


def output_gradient(loss: Any, outputs: Any, targets: Any, rows: int) -> Tensor | None:
    """The gradient of the rows' losses by the outputs where it is known without a backward pass, else nothing.

    Cross-entropy: the probabilities, less 1 at the right class.
    """
    if loss is not cross_entropy or not isinstance(outputs, Tensor) or outputs.ndim != 2:
        return None
    alike = targets.ndim == 1 and len(targets) == len(outputs) and targets.dtype == torch.int64
    if not alike or rows == 0 or len(outputs) % rows:
        return None
    with torch.no_grad():
        gradient = _probabilities(outputs)
        ones = torch.full_like(targets, -1, dtype=outputs.dtype)
        gradient.scatter_add_(1, targets[:, None], ones[:, None])
        return gradient if len(outputs) == rows else gradient.div_(len(outputs) // rows)


def _probabilities(outputs: Tensor) -> Tensor:
    """Softmax; on a CPU rows of a few classes are faster side by side."""
    if outputs.device.type == "cpu" and outputs.shape[1] < 8:
        return outputs.t().contiguous().softmax(0).t().contiguous()
    return outputs.softmax(1)


def row_losses(loss: Any, outputs: Any, targets: Any, hidden: list[Tensor], rows: int) -> Tensor:
    """The losses, one a row; several values a row (its augmented copies) count by their mean."""
    losses = loss(outputs, targets, hidden=hidden) if hidden else loss(outputs, targets)
    if not isinstance(losses, Tensor) or losses.ndim != 1 or rows == 0 or len(losses) % rows:
        shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise WrongInput(f"expected a loss with one value a row ({rows} values), got {shape}; use reduction='none'")
    return losses / (len(losses) // rows) if len(losses) != rows else losses


def _sigmoid(position: float) -> float:
    return 0.5 * (1 + math.tanh(position / 2))
