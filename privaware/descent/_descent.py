"""Train by DP-SGD: sample, clip, sum, add noise, divide by a public number, update."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from privaware.descent._clip import check_clip, per_layer
from privaware.descent._isolation_checks import check_augment
from privaware.descent._layer_checks import check_layers
from privaware.descent._layers.padded_population import PaddedPopulation, stackable_groups
from privaware.descent._loop import Callbacks, train_to_end
from privaware.descent._population import Member
from privaware.descent._precision import matmul_precision
from privaware.descent._ranks import TrainingJob, prepared_training
from privaware.descent._recipe import DescentRecipe
from privaware.descent._training import prepare
from privaware.noise import Rng
from privaware.ranks import Ranks


@dataclass(frozen=True, kw_only=True)
class Descent(DescentRecipe):
    """A recipe for private training. All fields are public; private examples are given to `run` only.

    Privacy:

    1. Each step releases one sum of clipped per-example gradients on the sampler's batch, with Gaussian noise. (A
       `quantile` clip releases a count with it, and a `projection` other sums instead.) Everything else is
       post-processing.
    2. The noisy sum is divided by `sampler.rate` times the declared number of rows, never by the realised batch size.
    3. Rounding adds to the sensitivity. The addition is bounded in `_rounding.py`, and the noise covers it.
    4. A dropout mask is a keyed function of the example's number (its position in the data), the step and the layer,
       under a secret key of 128 bits (`_example_draws.py`). Masks are never released. Which distinct numbers the
       examples have does not change the distribution of their masks, so neighbouring data are compared with equal
       numbers of their common examples. Then under each key the sums differ by one clipped gradient, and a mixture over
       keys of releases of equal cost costs no more than one of them.
    5. Point 4 holds for augmentation too, if `augment` changes an input only by its `ExampleDraws`, not by other inputs
       or by its position in the batch; `check` refuses other functions. A module that draws random numbers in another
       way is refused.

    Parameters
    ----------
    steps : int
        Number of steps.
    sampler : Sampler
        Draws the batch of each step: `Poisson` or `FullBatch`.
    clip : Clip
        Clips per-example gradients: `flat`, `per_layer`, `automatic` or `quantile`.
    update : Update
        Moves the parameters: `sgd`, `momentum`, `adam`, `two_rates`, or an optimiser of PyTorch by `torch_optimizer`.
    average : Average, optional
        Mean over steps that is released instead of the last parameters: `tail` or `ema`.
    loss : callable
        `loss(outputs, targets)` returns one value for each row of `outputs`: an example, or one of its augmented
        copies.
    lr_schedule, noise_schedule : Schedule
        Factors of the learning rate and of the noise multiplier at each step.
    microbatch : int, optional
        Largest number of examples of a model that are computed at once; chosen from the free memory if None. It changes
        results by rounding only.
    copies : int
        Number of augmented copies of each example. The mean gradient of the copies is clipped.
    augment : callable, optional
        `augment(inputs, draws)` returns augmented inputs, with randomness from the `ExampleDraws` only. If the module
        has several inputs, it gets and returns the first.
    precision : str
        "float32"; "tf32", which rounds the factors of products; or "bf16", which rounds outputs of layers too. With
        "tf32" and "bf16", gradients are clipped a little below the clipping norm, because products round, and the
        network `dpnas` stores the outputs of its cells in bf16.
    overflow : float
        If above 0, CUDA draws Poisson samples into batches of fixed size, and examples beyond this size are lost.
        `overflow` bounds the probability that any sample of the run exceeds this size, and is charged to delta.
    projection : Projection, optional
        Releases sums other than the clipped gradient sum, and rebuilds a gradient from them: `low_rank`, `anchored`.
        The update must be `sgd` or `momentum`.

    Examples
    --------
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
        """Train a copy of one module. Nothing is charged here: the caller charges `cost(noise)` before.

        Parameters
        ----------
        module : nn.Module or callable
            The module, or a function that builds it and is called with seeded generators.
        inputs, targets : array, tensor or tuple of them
            The private examples. Only `inputs` may be a tuple, for a module with several inputs.
        noise : float
            The noise multiplier (standard deviation of the noise over the sensitivity); 0 means no noise and no
            guarantee.
        rows : int
            The declared number of rows. Gradient sums are divided by `sampler.rate * rows`.
        rng : Rng
            Source of sampling, noise and initial weights.
        device : str
            Where to train.
        callbacks : Callbacks, optional
            Checkpoint, progress and observers.

        Returns
        -------
        nn.Module
            The trained copy, on the device that `module` or the built module is on.

        Raises
        ------
        Refused
            If the module cannot be trained privately.
        """
        member = Member(module, noise)
        return self.run_population([member], inputs, targets, rows=rows, rng=rng, device=device, callbacks=callbacks)[0]

    def check(self, module: nn.Module, inputs: Any, targets: Any, *, device: str = "cpu") -> None:
        """Raise `Refused` if `module` cannot be trained privately. Only shapes and types of the examples are used.

        Raise `WrongInput` unless there is one target for each example. An error of `augment` on synthetic inputs is
        raised as it is; `Refused` is raised if it mixes examples. A loss that changes during the training is tried as
        it is at the beginning and at the end.

        Parameters
        ----------
        module : nn.Module
            The module that `run` would train.
        inputs, targets : array, tensor or tuple of them
            The examples that `run` would train it on. Only `inputs` may be a tuple, for a module with several inputs.
        device : str
            Where `run` would train it.
        """
        with seeded(Rng(seed=0), device), matmul_precision(self.precision):
            check_clip(self.clip)
            of_steps = [self.loss.at(progress) for progress in (0.0, 1.0)] if hasattr(self.loss, "at") else [self.loss]
            for loss in of_steps:
                prepared = prepare([module], loss, inputs, targets, device)
            if self.augment is not None:
                check_augment(self.augment, prepared.inputs[0], self.copies)

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
        """Train several models together, each with its own samples, noise, learning rate and clipping norm.

        Each model is a separate release, so the cost of a population is the composition of the costs of its models. The
        caller charges it before. Raise `Refused` if a module cannot be trained privately.

        Parameters
        ----------
        members : sequence of Member
            The models and their settings.
        inputs, targets, rows, rng, device, callbacks
            As in `run`.

        Returns
        -------
        list of nn.Module
            The trained copies, in the order of `members`.
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
                models = TrainingJob(stack, inputs, targets, rows, device).run(self, rng, of_stack)
                trained |= dict(zip(group, models, strict=True))
        return [trained[at] for at in range(len(members))]

    def train_together(
        self, job: TrainingJob, rng: Rng, ranks: Ranks | None, callbacks: Callbacks | None = None
    ) -> list[nn.Module]:
        """Return trained copies of the models of `job`, which form one stack; each of `ranks` calls this method.

        Parameters
        ----------
        job : TrainingJob
            The members, the examples, the declared number of rows and the device.
        rng : Rng
            Source of sampling and initial values; and of noise, on rank 0.
        ranks : Ranks or None
            The ranks that train together, if there are any.
        callbacks : Callbacks, optional
            Checkpoint, progress and observers; on rank 0 only.

        Returns
        -------
        list of nn.Module
            The trained copies.
        """
        padded = PaddedPopulation([member.module for member in job.members])  # type: ignore[misc]
        members = [replace(of, module=module) for of, module in zip(job.members, padded.modules, strict=True)]
        training, prepared = prepared_training(self, replace(job, members=members), rng, ranks, padded.mask)
        if callbacks is not None and callbacks.checkpoint is not None:
            training.state.examples = job.digest(prepared)
        return padded.unpadded(train_to_end(training, callbacks))


@contextlib.contextmanager
def seeded(rng: Rng, device: str) -> Iterator[None]:
    """Return a context in which torch's generators are seeded from `rng`, for initial weights, and restored afterwards.

    If `device` is a GPU, it is the current device inside, because graphs, events and kernels use the current device.
    """
    target = torch.device(device)
    devices = [target] if target.type == "cuda" else []
    current = torch.cuda.device(target) if devices else contextlib.nullcontext()
    with torch.random.fork_rng(devices=devices), current:
        seed = int(rng.initial.integers(2**63))
        torch.default_generator.manual_seed(seed)  # `torch.manual_seed` also seeds the generators of other devices
        if devices:
            torch.cuda.manual_seed(seed)
        yield
