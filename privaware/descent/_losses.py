"""Losses with one value an example: what a private step may use, because none depends on another example.

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

__all__ = ["cross_entropy", "example_losses", "focal", "losing_less", "output_gradient", "squared"]


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """-log of the probability of the right class; with (examples, classes, ...) outputs the mean over what follows."""
    losses = F.cross_entropy(outputs, targets, reduction="none")
    return losses if losses.ndim == 1 else losses.flatten(1).mean(1)


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    """Half the squared distance, summed over the outputs of an example."""
    return (outputs.flatten(1) - targets.reshape(len(outputs), -1)).square().sum(1) / 2


@dataclass(frozen=True)
class focal:
    """Cross-entropy times (1 - p)^gamma, p the probability of the right class: hard examples count most.

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
    The focal part weighs sigmoid(epoch - turn * epochs); `watch` names the modules whose inputs are penalised.
    The paper gives neither beta nor the turning epoch: 10 and half-way are ours.
    """

    epochs: float
    gamma: float = 5.0
    beta: float = 10.0
    turn: float = 0.5
    progress: Any = 0.0
    watch: tuple[str, ...] = ("ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "Tanh", "Hardtanh", "Sigmoid", "Tempered")

    def at(self, progress: Any) -> losing_less:
        """This loss after the fraction `progress` of the steps."""
        return losing_less(self.epochs, self.gamma, self.beta, self.turn, progress, self.watch)

    @property
    def focal_weight(self) -> Any:
        position = (self.progress - self.turn) * self.epochs
        return position.sigmoid() if isinstance(position, Tensor) else _sigmoid(position)

    def __call__(self, outputs: Tensor, targets: Tensor, hidden: Sequence[Tensor] = ()) -> Tensor:
        near = F.one_hot(targets, outputs.shape[1]).to(outputs.dtype)
        early = (outputs - near).square().sum(1) / 2
        for inputs in hidden:
            early = early + inputs.reshape(len(outputs), -1).square().mean(1) / (2 * self.beta)
        return self.focal_weight * focal(self.gamma)(outputs, targets) + (1 - self.focal_weight) * early


def output_gradient(loss: Any, outputs: Any, targets: Any, examples: int) -> Tensor | None:
    """The gradient of the examples' losses by the outputs where it is known without a backward pass, else None.

    Cross-entropy: the probabilities, less 1 at the right class.
    """
    if loss is not cross_entropy or not isinstance(outputs, Tensor) or outputs.ndim != 2:
        return None
    alike = targets.ndim == 1 and len(targets) == len(outputs) and targets.dtype == torch.int64
    if not alike or examples == 0 or len(outputs) % examples:
        return None
    with torch.no_grad():
        gradient = _probabilities(outputs)
        ones = torch.full_like(targets, -1, dtype=outputs.dtype)
        gradient.scatter_add_(1, targets[:, None], ones[:, None])
        return gradient if len(outputs) == examples else gradient.div_(len(outputs) // examples)


def _probabilities(outputs: Tensor) -> Tensor:
    """Softmax; on a CPU a few classes are faster in the first dimension."""
    if outputs.device.type == "cpu" and outputs.shape[1] < 8:
        return outputs.t().contiguous().softmax(0).t().contiguous()
    return outputs.softmax(1)


def example_losses(loss: Any, outputs: Any, targets: Any, hidden: list[Tensor], examples: int) -> Tensor:
    """The losses, one an example; its augmented copies count by their mean."""
    losses = loss(outputs, targets, hidden=hidden) if hidden else loss(outputs, targets)
    if not isinstance(losses, Tensor) or losses.ndim != 1 or examples == 0 or len(losses) % examples:
        shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise WrongInput(
            f"expected a loss with one value an example ({examples} values), got {shape}; use reduction='none'"
        )
    return losses / (len(losses) // examples) if len(losses) != examples else losses


def _sigmoid(position: float) -> float:
    return 0.5 * (1 + math.tanh(position / 2))
