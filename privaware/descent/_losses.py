"""Losses that return one value for each example and depend on no other example, as private training requires.

>>> import torch
>>> cross_entropy(torch.zeros(2, 4), torch.tensor([0, 3])).tolist()
[1.3862943649291992, 1.3862943649291992]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from privaware.errors import WrongInput


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of each example, `-log(probability of the right class)`.

    Parameters
    ----------
    outputs : Tensor
        Logits (examples, classes) or (examples, classes, ...).
    targets : Tensor
        Class numbers (examples,) or (examples, ...).

    Returns
    -------
    Tensor
        One loss for each example; the mean over all dimensions after the class dimension.
    """
    losses = F.cross_entropy(outputs, targets, reduction="none")
    return losses if losses.ndim == 1 else losses.flatten(1).mean(1)


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return half the squared error of each example, summed over its outputs.

    Parameters
    ----------
    outputs, targets : Tensor
        Tensors with the same number of entries for each example.

    Returns
    -------
    Tensor
        One loss for each example.
    """
    return (outputs.flatten(1) - targets.reshape(len(outputs), -1)).square().sum(1) / 2


@dataclass(frozen=True)
class focal:
    """Focal loss: cross-entropy times `(1 - p)**gamma`, where p is the probability of the right class.

    Examples with a small p have the largest weight. Call it with logits (examples, classes) and class numbers
    (examples,), as `loss(outputs, targets)`.

    Paper: Lin et al. 2017, Focal Loss for Dense Object Detection; DPMLBench uses gamma 5.

    Parameters
    ----------
    gamma : float
        The exponent.
    """

    gamma: float = 5.0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        log_p = F.log_softmax(outputs, 1).gather(1, targets[:, None]).squeeze(1)
        return -((-torch.expm1(log_p)).clamp_min(0) ** self.gamma) * log_p


@dataclass(frozen=True)
class losing_less:
    """A mix of squared error on logits, a penalty on pre-activations, and focal loss, whose weights change in training.

    The loss is `w * focal + (1 - w) * (squared_error / 2 + penalty)` with `w = sigmoid((progress - turn) * epochs)`.
    The squared error is the sum of squared differences between logits and one-hot targets. The penalty is the mean
    square of a watched module's inputs for the example, divided by `2 * beta` and summed over the watched modules. Call
    it as `loss(outputs, targets, hidden=inputs of watched modules)`, with shapes as for `focal`.

    Paper: Shamsabadi and Papernot, Losing Less: A Loss for Differentially Private Deep Learning. The paper gives
    neither `beta` nor `turn`; their defaults are our choice.

    Parameters
    ----------
    epochs : float
        Length of the training in epochs.
    gamma : float
        The exponent of the focal loss.
    beta : float
        The larger `beta`, the smaller the penalty.
    turn : float
        The fraction of the training after which w is 1/2.
    progress : float or Tensor
        The fraction of the training that is over.
    watch : tuple of str
        Class names of the modules whose inputs are penalised.
    """

    epochs: float
    gamma: float = 5.0
    beta: float = 10.0
    turn: float = 0.5
    progress: Any = 0.0
    watch: tuple[str, ...] = ("ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "Tanh", "Hardtanh", "Sigmoid", "Tempered")

    def at(self, progress: Any) -> losing_less:
        """Return this loss after the fraction `progress` of the steps."""
        return replace(self, progress=progress)

    @property
    def focal_weight(self) -> Any:
        position = (self.progress - self.turn) * self.epochs
        return position.sigmoid() if isinstance(position, Tensor) else (1 + math.tanh(position / 2)) / 2

    def __call__(self, outputs: Tensor, targets: Tensor, hidden: Sequence[Tensor] = ()) -> Tensor:
        near = F.one_hot(targets, outputs.shape[1]).to(outputs.dtype)
        early = (outputs - near).square().sum(1) / 2
        for inputs in hidden:
            early = early + inputs.reshape(len(outputs), -1).square().mean(1) / (2 * self.beta)
        return self.focal_weight * focal(self.gamma)(outputs, targets) + (1 - self.focal_weight) * early


def output_gradient(loss: Any, outputs: Any, targets: Any, examples: int) -> Tensor | None:
    """Return the gradient of the losses with respect to `outputs` by a formula, or None if no formula is known.

    A formula is known if `loss` is `cross_entropy`, `outputs` are (n, classes), `targets` (n,) are int64 class numbers,
    and n is a multiple of `examples`. It is the class probabilities, minus 1 at the right class, divided by the number
    of augmented copies of an example. `examples` is the number of examples without augmented copies.
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
    """Return the softmax of `outputs`. On a CPU it is faster over the first dimension if there are few classes."""
    if outputs.device.type == "cpu" and outputs.shape[1] < 8:
        return outputs.t().contiguous().softmax(0).t().contiguous()
    return outputs.softmax(1)


def example_losses(loss: Any, outputs: Any, targets: Any, hidden: list[Tensor], examples: int) -> Tensor:
    """Return the losses of all augmented copies, each divided by the number of copies of an example.

    `outputs` and `targets` have a row for each copy. `hidden` are the recorded inputs of watched modules; if there are
    any, they are passed to `loss`.
    Raise `WrongInput` if `loss` does not return a vector of `examples` values, or of a multiple of `examples`.
    """
    losses = loss(outputs, targets, hidden=hidden) if hidden else loss(outputs, targets)
    if not isinstance(losses, Tensor) or losses.ndim != 1 or examples == 0 or len(losses) % examples:
        got = type(losses).__name__
        if isinstance(losses, Tensor):
            got = f"the shape {list(losses.shape)}" if losses.ndim else "one value for all of them together"
        raise WrongInput(
            f"expected a loss with one value for each example, got {got}; pass reduction='none' to a loss of PyTorch"
        )
    return losses / (len(losses) // examples) if len(losses) != examples else losses
