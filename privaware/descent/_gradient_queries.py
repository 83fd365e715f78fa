"""Noisy gradients of networks that change between the steps as the caller likes, each at the price of one step.

Algorithms that do not descend along a noisy gradient but match it, or draw something public before each step, ask for
it here. Sampling, clipping, exact sums and noise are those of `Descent`; what the caller does with a gradient is
post-processing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from privaware.descent._descent import seeded
from privaware.descent._loop import stepper
from privaware.descent._population import Member
from privaware.descent._precision import matmul_precision
from privaware.descent._recipe import DescentRecipe
from privaware.descent._training import Training, prepare
from privaware.errors import Refused
from privaware.noise import Rng

__all__ = ["GradientQueries", "gradient_queries", "keep_gradient"]


@dataclass(frozen=True)
class keep_gradient:
    """An update that moves nothing: the noisy mean gradient is kept for the caller."""

    lr: float = 1.0

    def initial_state(self, theta: Tensor) -> dict[str, Tensor]:
        return {"gradient": torch.zeros_like(theta)}

    def apply(self, theta: Tensor, gradient: Tensor, state: dict[str, Tensor], lr: Any, deviation: Any) -> None:
        state["gradient"].copy_(gradient)


class GradientQueries:
    """Called with a network, it returns the noisy mean of the clipped per-example gradients, by parameter name."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.step = stepper(training)
        self.buffers = dict(training.stack.module.named_buffers())

    def __call__(self, module: nn.Module) -> dict[str, Tensor]:
        """One query at the parameters and buffers of `module`; one more than were priced is refused."""
        training = self.training
        if training.step >= training.recipe.steps:
            raise Refused(f"expected at most {training.recipe.steps} gradient queries, which were priced, got another")
        training.stack.load([module])
        for name, values in module.named_buffers():
            self.buffers[name].copy_(values)
        self.step()
        kept = training.state.update["gradient"]
        return {slot.name: training.stack.view(kept, slot)[0].clone() for slot in training.stack.slots}


@contextlib.contextmanager
def gradient_queries(
    recipe: DescentRecipe,
    module: nn.Module,
    inputs: Any,
    targets: Any,
    *,
    noise: float,
    rows: int,
    rng: Rng,
    device: str = "cpu",
) -> Iterator[GradientQueries]:
    """As many queries as the `recipe` has steps; together they cost `recipe.cost(noise)`. Its update is not used.

    `module` is any network of the architecture; `rows` is the declared number of rows, which sets the divisor.

    >>> from privaware.descent import Descent, FullBatch, flat, gradient_queries, sgd
    >>> net, half_square = nn.Linear(2, 1, bias=False), lambda outputs, targets: (outputs[:, 0] - targets) ** 2 / 2
    >>> _ = nn.init.zeros_(net.weight)
    >>> recipe = Descent(steps=1, sampler=FullBatch(), clip=flat(10.0), update=sgd(1.0), loss=half_square)
    >>> rows = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.ones(2)
    >>> with gradient_queries(recipe, net, *rows, noise=0.0, rows=2, rng=Rng(seed=0)) as query:
    ...     query(net)
    {'weight': tensor([[-0.5000, -0.5000]])}
    """
    kept = replace(recipe, update=keep_gradient())
    with seeded(rng, device), matmul_precision(recipe.precision):
        prepared = prepare([module], recipe.loss, inputs, targets, device)
        yield GradientQueries(Training(kept, [Member(module, noise)], prepared, rows=rows, rng=rng))
