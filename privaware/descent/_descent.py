"""Clipped noisy gradient descent: sample, clip, sum, add noise, divide by a public number, update."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from privaware.descent._clip import per_layer
from privaware.descent._code_facts import tensor_digest
from privaware.descent._layer_checks import check_layers
from privaware.descent._layers.padded_population import PaddedPopulation, stackable_groups
from privaware.descent._loop import Callbacks, train_to_end
from privaware.descent._population import Member
from privaware.descent._precision import matmul_precision
from privaware.descent._recipe import DescentRecipe
from privaware.descent._training import Training, prepare
from privaware.noise import Rng

__all__ = ["Descent"]


@dataclass(frozen=True, kw_only=True)
class Descent(DescentRecipe):
    """A recipe for private training. Fields are public; examples come only to `run`.

    A `microbatch` is computed at once (its size from the free memory unless given): the update is the same for any
    size, up to rounding. `copies` of each example are augmented and their mean gradient is clipped. `overflow` is a
    chance, charged to delta, that lets CUDA draw samples into batches of fixed shape. A lower `precision` ("tf32"
    rounds factors of products, "bf16" the outputs of layers too; with both, cells of `dpnas` store bf16) clips a little
    below `norm`, because it rounds. With a `projection` (`low_rank`, `anchored`) something else than the per-example
    gradient is clipped and released, and a gradient follows from that.

    Privacy: each step releases one Gaussian sum of clipped per-example gradients on the sampler's batch; everything
    else is post-processing. Sums are divided by rate x declared rows, never by the realised batch size. What rounding
    adds to the sensitivity is bounded in `_rounding.py` and covered by the noise.
    Dropout masks are a keyed function of the example's position in the data, the step and the layer, under a secret key
    of 128 bits (`_example_draws.py`), and are never released. Neighbours have the same masks on their common examples,
    so under each key the sums differ by one clipped gradient, and a mixture of releases of one price costs no more than
    each. The same holds for what `augment(inputs, draws)` draws from its `ExampleDraws`; it must not change an input by
    others or by its position in the batch. A module that draws random numbers in another way is refused.

    >>> from privaware.descent import Descent, Poisson, flat, sgd
    >>> descent = Descent(steps=100, sampler=Poisson(rate=0.01), clip=flat(1.0), update=sgd(0.1))
    >>> descent.cost(noise=1.1)
    Repeated(event=Sampled(event=Gaussian(noise=1.1), rate=0.01), count=100)
    """

    def run(
        self,
        module: nn.Module | Callable[[], nn.Module],
        inputs: Any,
        targets: Any,
        *,
        noise: float,
        rows: int,
        rng: Rng,
        device: str = "cpu",
        callbacks: Callbacks | None = None,
    ) -> nn.Module:
        """A trained copy of `module`. `rows` is the declared number of rows, which sets the divisor."""
        member = Member(module, noise)
        return self.run_population([member], inputs, targets, rows=rows, rng=rng, device=device, callbacks=callbacks)[0]

    def check(self, module: nn.Module, inputs: Any, targets: Any, *, device: str = "cpu") -> None:
        """Refuses a module that cannot be trained privately. Only shapes and types of the examples are used.

        Parameters
        ----------
        module : nn.Module
            The module that `run` would train.
        inputs, targets : array, tensor or tuple of them
            The examples that `run` would train it on.
        device : str
            Where it would be trained.
        """
        with seeded(Rng(seed=0), device), matmul_precision(self.precision):
            prepare([module], self.loss, inputs, targets, device)

    def run_population(
        self,
        members: Sequence[Member],
        inputs: Any,
        targets: Any,
        *,
        rows: int,
        rng: Rng,
        device: str = "cpu",
        callbacks: Callbacks | None = None,
    ) -> list[nn.Module]:
        """Trained copies of models stepped together, each with its own samples, noise, lr and norm.

        Each model is a release of its own: the population costs what all of them cost together.
        """
        callbacks = callbacks or Callbacks()
        with seeded(rng, device), matmul_precision(self.precision):
            modules = [m.module if isinstance(m.module, nn.Module) else m.module() for m in members]
            for module in modules:
                check_layers(module)
            trained: dict[int, nn.Module] = {}
            by_layer, padded = isinstance(self.clip, per_layer), self.projection is None
            groups = stackable_groups(modules, device, per_layer=by_layer, padded=padded)
            for turn, group in enumerate(groups):
                stack = [replace(members[at], module=modules[at]) for at in group]
                of_stack = callbacks.for_stack(turn, len(groups))
                models = self._train_stack(
                    stack, inputs, targets, rows=rows, rng=rng, device=device, callbacks=of_stack
                )
                trained |= dict(zip(group, models, strict=True))
        return [trained[at] for at in range(len(members))]

    def _train_stack(
        self,
        members: Sequence[Member],
        inputs: Any,
        targets: Any,
        *,
        rows: int,
        rng: Rng,
        device: str,
        callbacks: Callbacks | None = None,
    ) -> list[nn.Module]:
        """Trained copies of models that fit one stack."""
        padded = PaddedPopulation([member.module for member in members])  # type: ignore[misc]
        prepared = prepare(padded.modules, self.loss, inputs, targets, device)
        members = [replace(member, module=module) for member, module in zip(members, padded.modules, strict=True)]
        training = Training(self, members, prepared, rows=rows, rng=rng, mask=padded.mask)
        if callbacks is not None and callbacks.checkpoint is not None:
            training.state.examples = repr([tensor_digest(item) for item in (*prepared.inputs, prepared.targets)])
        return padded.unpadded(train_to_end(training, callbacks))


@contextlib.contextmanager
def seeded(rng: Rng, device: str) -> Iterator[None]:
    """Torch's own generators for the initial weights of modules that are built here, restored afterwards.

    A GPU is made the current one meanwhile: graphs, events and kernels are of that one.
    """
    target = torch.device(device)
    devices = [target] if target.type == "cuda" else []
    current = torch.cuda.device(target) if devices else contextlib.nullcontext()
    with torch.random.fork_rng(devices=devices), current:
        torch.manual_seed(int(rng.initial.integers(2**63)))
        yield
