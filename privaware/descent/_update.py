"""Update parameters by a noisy gradient, and average parameters over steps. Both are post-processing.

The state of an update is a dictionary of tensors for all models together. So a step of a population takes few
operations, and a checkpoint is a plain file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from privaware._validate import expect_in, expect_nonnegative, expect_positive
from privaware.errors import WrongInput

State = dict[str, Tensor]


class Update(Protocol):
    """The interface of an update, which moves parameters along a noisy mean gradient.

    The field `lr` is the learning rate before any schedule. `initial_state(theta)` returns the tensors that the update
    keeps, before the first step. `apply(theta, gradient, state, lr, deviation)` changes `theta` and `state` in place.
    `theta` and `gradient` are (models, parameters). The arguments `lr`, the learning rate of this step, and
    `deviation`, the standard deviation of the noise in the mean gradient, are floats or (models, 1) tensors.
    """

    @property
    def lr(self) -> float: ...

    def initial_state(self, theta: Tensor) -> State: ...

    def apply(self, theta: Tensor, gradient: Tensor, state: State, lr: Any, deviation: Any, /) -> None: ...


@dataclass(frozen=True)
class sgd:
    """Gradient descent: `theta - lr * (gradient + decay * theta)`.

    Parameters
    ----------
    lr : float
        The learning rate.
    decay : float
        The weight decay.
    """

    lr: float
    decay: float = 0.0

    def __post_init__(self) -> None:
        expect_positive("sgd", lr=self.lr)

    def initial_state(self, theta: Tensor) -> State:
        return {}

    def apply(self, theta: Tensor, gradient: Tensor, state: State, lr: Any, deviation: Any) -> None:
        if self.decay:
            gradient = gradient + self.decay * theta
        _descend(theta, gradient, lr)


@dataclass(frozen=True)
class momentum:
    """Gradient descent with momentum: `velocity = beta * velocity + gradient`, then `theta - lr * velocity`.

    Parameters
    ----------
    lr : float
        The learning rate.
    beta : float
        The factor of the velocity at each step, in [0, 1).
    decay : float
        The weight decay, added to the gradient as `decay * theta`.
    """

    lr: float
    beta: float = 0.9
    decay: float = 0.0

    def __post_init__(self) -> None:
        expect_positive("momentum", lr=self.lr)
        expect_in("momentum", "[0, 1)", beta=self.beta)

    def initial_state(self, theta: Tensor) -> State:
        return {"velocity": torch.zeros_like(theta)}

    def apply(self, theta: Tensor, gradient: Tensor, state: State, lr: Any, deviation: Any) -> None:
        if self.decay:
            gradient = gradient + self.decay * theta
        velocity = state["velocity"].mul_(self.beta).add_(gradient)
        _descend(theta, velocity, lr)


@dataclass(frozen=True)
class two_rates:
    """Gradient descent with another learning rate for the last parameters, such as an output layer's.

    Parameters
    ----------
    lr : float
        The learning rate.
    ratio : float
        The learning rate of the last parameters is `ratio * lr`.
    count : int
        How many numbers at the end of a model's flat parameter vector get the other learning rate.
    """

    lr: float
    ratio: float
    count: int

    def __post_init__(self) -> None:
        expect_positive("two_rates", lr=self.lr)
        expect_nonnegative("two_rates", ratio=self.ratio, count=self.count)

    def initial_state(self, theta: Tensor) -> State:
        return {}

    def apply(self, theta: Tensor, gradient: Tensor, state: State, lr: Any, deviation: Any) -> None:
        if self.ratio != 1 and self.count:
            gradient = torch.cat([gradient[:, : -self.count], self.ratio * gradient[:, -self.count :]], 1)
        _descend(theta, gradient, lr)


@dataclass(frozen=True)
class adam:
    """Adam, with the variance of the noise subtracted from the second moment.

    Paper: Tang, Shpilevskiy, Lecuyer 2024, DP-AdamBC.

    Parameters
    ----------
    lr : float
        The learning rate.
    betas : tuple of float
        Decay rates of the first and of the second moment, in [0, 1).
    eps : float
        Added to the root of the second moment.
    correct : bool
        Whether to subtract the variance of the noise in the mean gradient from the second moment.
    floor : float
        The corrected second moment is at least `floor` times the variance of the noise, because it is itself noisy.
    """

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    correct: bool = True
    floor: float = 0.1

    def __post_init__(self) -> None:
        expect_positive("adam", lr=self.lr)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise WrongInput(f"adam: expected betas in [0, 1), got {self.betas!r}")

    def initial_state(self, theta: Tensor) -> State:
        one = theta[:, :1]
        return {
            "mean": torch.zeros_like(theta),
            "square": torch.zeros_like(theta),
            "noise": torch.zeros_like(one),
            "powers": torch.ones(2, dtype=theta.dtype, device=theta.device),
        }

    def apply(self, theta: Tensor, gradient: Tensor, state: State, lr: Any, deviation: Any) -> None:
        first, second = self.betas
        state["powers"][0].mul_(first)
        state["powers"][1].mul_(second)
        mean = state["mean"].lerp_(gradient, 1 - first)
        square = state["square"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        noise = state["noise"].mul_(second).add_((1 - second) * deviation * deviation)
        weights = 1 - state["powers"]
        second_moment = square / weights[1]
        if self.correct:
            second_moment = torch.maximum(second_moment - noise / weights[1], self.floor * noise / weights[1])
        _descend(theta, (mean / weights[0]) / (second_moment.sqrt_() + self.eps), lr)


def _descend(theta: Tensor, direction: Tensor, lr: Any) -> None:
    if isinstance(lr, float):
        theta.sub_(direction, alpha=lr)
    else:
        theta.addcmul_(direction, lr, value=-1)


class Average(Protocol):
    """The interface of an average of parameters over steps, which is released instead of the last parameters.

    `initial_state(theta)` returns the state before the first step. After step number `step` (from 0) of `steps`,
    `update(theta, state, weight)` changes the average in place to `average + weight * (theta - average)`.
    `weight(step, steps)` returns this weight; a weight of 1 replaces the average by the parameters.
    """

    def initial_state(self, theta: Tensor) -> State: ...

    def update(self, theta: Tensor, state: State, weight: Any) -> None: ...

    def weight(self, step: int, steps: int) -> float: ...


class _Mean:
    """A running mean: at each step it changes by `weight * (theta - mean)`."""

    def initial_state(self, theta: Tensor) -> State:
        return {"average": theta.clone()}

    def update(self, theta: Tensor, state: State, weight: Any) -> None:
        state["average"].add_((theta - state["average"]) * weight)


@dataclass(frozen=True)
class tail(_Mean):
    """The mean of the parameters over the last steps.

    Parameters
    ----------
    share : float
        The fraction of the steps to average over, in (0, 1]. The last `max(1, round(share * steps))` steps are
        averaged.
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        expect_in("tail", "(0, 1]", share=self.share)

    def weight(self, step: int, steps: int) -> float:
        first = min(steps - 1, steps - round(self.share * steps))
        return 1.0 if step <= first else 1 / (step - first + 1)


@dataclass(frozen=True)
class ema(_Mean):
    """An exponential moving average of the parameters, whose decay is smaller in early steps.

    After the first step the average is set to the parameters. After each later step it becomes
    `d * average + (1 - d) * parameters` with `d = min(decay, (step + 1) / (step + 10))`, where `step` counts from 0.

    Parameters
    ----------
    decay : float
        The largest factor of the average at a step, in [0, 1).
    """

    decay: float = 0.99

    def __post_init__(self) -> None:
        expect_in("ema", "[0, 1)", decay=self.decay)

    def weight(self, step: int, steps: int) -> float:
        return 1 - min(self.decay, (step + 1) / (step + 10)) if step else 1.0
