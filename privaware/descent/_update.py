"""Updates by a noisy gradient, and averages of the parameters: post-processing, no privacy cost.

An update keeps its state in a dictionary of tensors shaped like the parameters, so that one step of a population is a
handful of operations and a checkpoint is a plain file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from privaware.errors import WrongInput

__all__ = ["Average", "Update", "adam", "ema", "momentum", "sgd", "tail", "two_rates"]

State = dict[str, Tensor]


class Update(Protocol):
    """Moves parameters along a noisy mean gradient."""

    @property
    def lr(self) -> float: ...

    def initial_state(self, theta: Tensor) -> State: ...

    def apply(self, theta: Tensor, gradient: Tensor, state: State, lr: Any, deviation: Any, /) -> None: ...


def _checked(name: str, lr: float) -> None:
    if not (isinstance(lr, (int, float)) and lr > 0):
        raise WrongInput(f"{name}: expected lr > 0, got {lr!r}")


@dataclass(frozen=True)
class sgd:
    """theta - lr (gradient + decay theta)."""

    lr: float
    decay: float = 0.0

    def __post_init__(self) -> None:
        _checked("sgd", self.lr)

    def initial_state(self, theta: Tensor) -> State:
        return {}

    def apply(self, theta: Tensor, gradient: Tensor, state: State, lr: Any, deviation: Any) -> None:
        if self.decay:
            gradient = gradient + self.decay * theta
        _descend(theta, gradient, lr)


@dataclass(frozen=True)
class momentum:
    """Gradients add up in a velocity that decays by `beta`."""

    lr: float
    beta: float = 0.9
    decay: float = 0.0

    def __post_init__(self) -> None:
        _checked("momentum", self.lr)
        if not 0 <= self.beta < 1:
            raise WrongInput(f"momentum: expected beta in [0, 1), got {self.beta!r}")

    def initial_state(self, theta: Tensor) -> State:
        return {"velocity": torch.zeros_like(theta)}

    def apply(self, theta: Tensor, gradient: Tensor, state: State, lr: Any, deviation: Any) -> None:
        if self.decay:
            gradient = gradient + self.decay * theta
        velocity = state["velocity"].mul_(self.beta).add_(gradient)
        _descend(theta, velocity, lr)


@dataclass(frozen=True)
class two_rates:
    """Gradient descent whose last `count` parameters, such as an output layer's, have `ratio` times the rate."""

    lr: float
    ratio: float
    count: int

    def __post_init__(self) -> None:
        _checked("two_rates", self.lr)
        if not (self.ratio >= 0 and self.count >= 0):
            raise WrongInput(f"two_rates: expected ratio and count >= 0, got {self.ratio!r} and {self.count!r}")

    def initial_state(self, theta: Tensor) -> State:
        return {}

    def apply(self, theta: Tensor, gradient: Tensor, state: State, lr: Any, deviation: Any) -> None:
        if self.ratio != 1 and self.count:
            gradient = torch.cat([gradient[:, : -self.count], self.ratio * gradient[:, -self.count :]], 1)
        _descend(theta, gradient, lr)


@dataclass(frozen=True)
class adam:
    """Adam with the noise's variance subtracted from the second moment.

    Paper: Tang, Shpilevskiy, Lecuyer 2024, DP-AdamBC. `deviation` is that of the noise in the mean gradient; the
    corrected second moment is held above `floor` times the noise's variance, because it is itself noisy.
    """

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    correct: bool = True
    floor: float = 0.1

    def __post_init__(self) -> None:
        _checked("adam", self.lr)
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
    """What is released instead of the last parameters: a mean over steps."""

    def initial_state(self, theta: Tensor) -> State: ...

    def update(self, theta: Tensor, state: State, weight: Any) -> None: ...

    def weight(self, step: int, steps: int) -> float: ...


class _Mean:
    """A running mean: at each step the mean moves towards the parameters by `weight`."""

    def initial_state(self, theta: Tensor) -> State:
        return {"average": theta.clone()}

    def update(self, theta: Tensor, state: State, weight: Any) -> None:
        state["average"].add_((theta - state["average"]) * weight)


@dataclass(frozen=True)
class tail(_Mean):
    """The mean of the parameters over the last fraction `share` of the steps."""

    share: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise WrongInput(f"tail: expected share in (0, 1], got {self.share!r}")

    def weight(self, step: int, steps: int) -> float:
        first = min(steps - 1, steps - round(self.share * steps))
        return 1.0 if step <= first else 1 / (step - first + 1)


@dataclass(frozen=True)
class ema(_Mean):
    """An exponential moving average, warmed up so that early steps are forgotten."""

    decay: float = 0.99

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise WrongInput(f"ema: expected decay in [0, 1), got {self.decay!r}")

    def weight(self, step: int, steps: int) -> float:
        return 1 - min(self.decay, (step + 1) / (step + 10)) if step else 1.0
