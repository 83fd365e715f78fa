"""Query noisy gradients of networks that the caller may change between queries; a query costs as much as one step.

This serves algorithms that match a noisy gradient instead of descending along it, or that draw something public before
each step. Sampling, clipping, exact sums and noise are the same as in `Descent`. Whatever the caller does with a noisy
gradient is post-processing.
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
from privaware.descent._ranks import TrainingJob, followed, prepared_training
from privaware.descent._recipe import DescentRecipe
from privaware.descent._training import Training
from privaware.errors import Refused
from privaware.noise import Rng
from privaware.ranks import Ranks


@dataclass(frozen=True)
class keep_gradient:
    """An update that changes no parameter and keeps the noisy mean gradient, as `state["gradient"]`.

    `lr` has no effect; every update has this field.
    """

    lr: float = 1.0

    def initial_state(self, theta: Tensor) -> dict[str, Tensor]:
        return {"gradient": torch.zeros_like(theta)}

    def apply(self, theta: Tensor, gradient: Tensor, state: dict[str, Tensor], lr: Any, deviation: Any) -> None:
        state["gradient"].copy_(gradient)


class GradientQueries:
    """A callable that returns the noisy mean of the clipped per-example gradients of a network.

    `gradient_queries` makes instances.

    Parameters
    ----------
    training : Training
        The prepared training; each query takes one of its steps.
    """

    def __init__(self, training: Training) -> None:
        self.training = training
        self.step = stepper(training)
        self.buffers = dict(training.stack.module.named_buffers())

    def load(self, module: nn.Module) -> None:
        """Copy the parameters and buffers of `module`, of the prepared architecture, to the network that is queried."""
        self.training.stack.load([module])
        for name, values in module.named_buffers():
            self.buffers[name].copy_(values)

    def __call__(self, module: nn.Module | None = None) -> dict[str, Tensor]:
        """Return one noisy mean gradient, at the parameters and buffers of `module`, which is not changed.

        Parameters
        ----------
        module : nn.Module, optional
            A network of the prepared architecture. By default the values of the previous query are used again, or, in
            the first query, those of the network that the queries were prepared with.

        Returns
        -------
        dict of str to Tensor
            The noisy gradient sum divided by `recipe.sampler.rate * rows`, by the name of each trainable parameter.

        Raises
        ------
        Refused
            If all `recipe.steps` charged queries were made before.
        """
        training = self.training
        if training.step >= training.recipe.steps:
            raise Refused(
                f"expected at most {training.recipe.steps} gradient queries, whose cost was charged, got one more; "
                "raise the steps of the recipe, which raises its cost"
            )
        if training.ranks is not None:
            state = {} if module is None else module.state_dict()
            training.ranks.shared({name: values.detach().cpu() for name, values in state.items()})
        if module is not None:
            self.load(module)
        self.step()
        kept = training.state.update["gradient"].clone()
        return {segment.name: training.stack.view(kept, segment)[0] for segment in training.stack.segments}


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
    """Open a context for `recipe.steps` gradient queries, which together cost `recipe.cost(noise)`.

    Nothing is charged here: the caller charges this cost before. Raise `Refused` if `module` cannot be trained
    privately.

    Parameters
    ----------
    recipe : DescentRecipe
        The settings, such as a `Descent`. Its update is not used.
    module : nn.Module
        A network of the architecture; its values are used only by queries before the first that is given a network.
    inputs, targets : array, tensor or tuple of them
        The private examples. Only `inputs` may be a tuple, for a module with several inputs.
    noise : float
        The noise multiplier.
    rows : int
        The declared number of rows. Gradient sums are divided by `recipe.sampler.rate * rows`.
    rng : Rng
        Source of sampling and noise.
    device : str
        Where to compute.

    Returns
    -------
    context manager of GradientQueries
        The callable whose calls are the queries.

    Examples
    --------
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
    job = TrainingJob([Member(module, noise)], inputs, targets, rows, device)
    with seeded(rng, device), matmul_precision(recipe.precision), job.sent(_follow_queries, kept, rng) as (own, ranks):
        yield GradientQueries(prepared_training(kept, own, rng, ranks)[0])
        if ranks is not None:
            ranks.shared(None)


def _follow_queries(ranks: Ranks, recipe: DescentRecipe, job: TrainingJob, streams: dict[str, Any]) -> None:
    """Take part in the gradient queries that rank 0 leads, until it sends None instead of weights.

    Empty weights mean the network of the query before. Rank 0 sends all arguments but `ranks`; `streams` is the state
    of its `Rng` without the stream of noise.
    """
    with followed(ranks, job, recipe.precision) as own:
        module: Any = own.members[0].module
        queries = GradientQueries(prepared_training(recipe, own, Rng.restore(streams), ranks)[0])
        while (weights := ranks.shared(None)) is not None:
            if weights:
                module.load_state_dict(weights)
                queries.load(module)
            queries.step()
