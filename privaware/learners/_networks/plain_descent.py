"""Training without noise, on rows and targets that are public or were made private before.

Learners that protect labels, and students of ensembles, make their targets private first. Ordinary minibatch descent on
these targets is post-processing and has no privacy cost. Teachers of an ensemble are trained in the same way on
disjoint rows; only their noisy votes are released.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware.learners._networks.augmentation import GeneratorDraws
from privaware.noise import Rng

LR = 0.05
"""Default learning rate."""

WARM_UP = 3
"""Number of steps that run before a CUDA graph is captured."""

Progress = Callable[..., None]
"""Callback after each step with four public values: steps taken, all steps, remaining seconds, name of the stage.

The name is omitted for the training of the network that is released.
"""

Targets = Any
"""What the networks learn, in one of three forms.

- Class codes (rows) or (networks, rows).
- Class probabilities (rows, classes) or (networks, rows, classes).
- A function from the positions of a batch and the networks' predicted probabilities (networks, batch, classes) to class
  probabilities.

The weight of a row is the sum of its class probabilities: a row whose sum is 0 does not count.
"""


@dataclass(frozen=True, kw_only=True)
class PlainDescent:
    """Minibatch descent with Nesterov momentum on cross-entropy, with a cosine learning-rate schedule.

    Each of `steps` batches holds `batch` examples, whatever the number of rows, so no shape depends on a row. The mean
    gradient of a batch is clipped to `norm`, so one learning rate suits inputs of any size. The learning rate falls
    from `lr` to 0. `mixup` is the parameter of the Beta distribution that mixes pairs of examples (0 for no mixing).
    `decay` is the weight decay, and `augment` a function of `_networks/augmentation.py`. `progress` is called after
    each step (`Progress`). If there are fewer rows than `batch`, a batch holds some rows more than once.

    On one GPU two runs with equal seeds return equal weights, unless a layer of the network has no deterministic
    gradient in PyTorch, such as `nn.AdaptiveAvgPool2d` with windows of unequal size. Whether products use TF32 follows
    from PyTorch's own switches; by default convolutions do and matrix products do not.
    """

    steps: int
    batch: int
    lr: float = LR
    momentum: float = 0.9
    decay: float = 0.0
    norm: float = 1.0
    mixup: float = 0.0
    augment: Callable[[Any, Any], Any] | None = None
    device: str = "cpu"
    progress: Progress | None = None

    def run(self, module: Any, inputs: Any, targets: Targets, rng: Rng) -> Any:
        """Return a trained copy of `module`, in evaluation mode.

        `inputs` are rows after the features; entries that are not finite become 0. `targets` are class codes (rows),
        class probabilities (rows, classes), or a function as `Targets` describes.
        """
        return self.run_population([module], inputs, targets, rng)[0]

    def run_population(
        self,
        modules: Sequence[Any],
        inputs: Any,
        targets: Targets,
        rng: Rng,
        *,
        parts: Sequence[np.ndarray] | None = None,
        batches: Sequence[Iterator[np.ndarray]] | None = None,
    ) -> list[Any]:
        """Return trained copies of `modules`, which have the same architecture and take their steps together.

        `targets` has one of the forms of `Targets`. Network i is trained on the rows at positions `parts[i]`, by
        default on all rows. It depends on its own part alone, bit for bit on a CPU: it has its own random numbers, and
        all shapes follow from `batch` and `steps`. `batches` holds one iterator for each network, which yields `batch`
        positions in `inputs` at a time (-1 means no example); it replaces the shuffled batches of `parts`. If `inputs`
        or a part has no rows, the same number of steps is taken on inputs and targets of zeros.
        """
        import torch

        from privaware.descent._descent import seeded
        from privaware.descent._precision import repeatable_convolutions

        networks = _Networks(modules, self.device)
        examples = torch.nan_to_num(torch.as_tensor(inputs).to(self.device), nan=0.0, posinf=0.0, neginf=0.0)
        if not len(examples):  # take the same number of steps without any row
            examples, parts = examples.new_zeros((1, *examples.shape[1:])), [np.empty(0, np.int64)] * len(modules)
        goals = targets if callable(targets) else _padded(torch.as_tensor(targets).to(self.device))
        generators = [np.random.default_rng(rng.initial.integers(2**63, size=2)) for _ in modules]
        if batches is None:
            everything = [np.arange(len(examples))] * len(modules)
            batches = [
                shuffled_batches(part, self.batch, generator)
                for part, generator in zip(parts or everything, generators, strict=True)
            ]
        positions = torch.zeros(len(modules), self.batch, dtype=torch.int64, device=self.device)
        lr = torch.zeros((), device=self.device)
        report = paced(self.progress, self.steps)

        mixture = _Mixture(self.mixup, generators, self.batch, self.device) if self.mixup else None

        def take_step() -> None:
            loss = self._loss(networks, examples, goals, positions, mixture, rng)
            networks.update(loss, lr, self)

        with seeded(rng, self.device), repeatable_convolutions():
            step = take_step
            if networks.theta.is_cuda and self.steps > WARM_UP:
                step = captured(take_step, networks.state, rng.torch("initial", self.device))
            for number in range(self.steps):
                positions.copy_(torch.from_numpy(np.stack([next(each) for each in batches])))
                if mixture is not None:
                    mixture.draw()
                lr.fill_(self.lr * 0.5 * (1 + math.cos(math.pi * number / self.steps)))
                step()
                report(number + 1)
        return networks.trained()

    def _loss(
        self, networks: _Networks, examples: Any, targets: Targets, positions: Any, mixture: _Mixture | None, rng: Rng
    ) -> Any:
        """Return the sum over networks of the mean cross-entropy of a batch; each network gets its own gradient.

        `positions` (networks, batch) are the rows of `examples` in the batch; -1 means an input and a target of zeros.
        `mixture` mixes pairs of examples, and `rng` draws for `augment`. A function in `targets`
        gets the probabilities for examples without augmentation and mixing; no gradient flows through the function.
        """
        import torch

        present, at = positions >= 0, positions.clamp_min(0)
        plain = examples[at] * present.view(*present.shape, *[1] * (examples.ndim - 1))  # zeros at position -1
        shown = plain
        if self.augment is not None:
            draws = GeneratorDraws(rng.torch("initial", self.device))
            shown = self.augment(plain.flatten(0, 1), draws).view_as(plain)
        mixed = mixture or (lambda values: values)
        shown = mixed(shown)
        logits = networks(shown)
        if callable(targets):
            with torch.no_grad():
                likely = logits if shown is plain else networks(plain)
                goal = targets(at, likely.detach().softmax(-1))
        else:
            goal = _selected(targets, at, logits.shape[-1])
        goal = mixed(goal.to(logits.dtype) * present[..., None])
        return -(goal * logits.log_softmax(-1)).sum() / at.shape[1]


def of_stage(progress: Progress | None, what: str) -> Progress | None:
    """Return a callback with three arguments (steps taken, all steps, remaining seconds) for one stage of a run.

    It calls `progress` with these three and the name `what` of the stage. Return None if `progress` is None.
    """
    return None if progress is None else lambda step, steps, left: progress(step, steps, left, what)


def of_turn(progress: Progress | None, turn: int, turns: int) -> Progress | None:
    """Return a callback with three arguments (steps taken, all steps, remaining seconds) for one of several trainings.

    The training is number `turn` (from 0) of `turns` equally long trainings. The callback calls `progress` with the
    numbers for all trainings together. It is `progress` itself for a single training, and None if `progress` is None.
    """
    if progress is None or turns == 1:
        return progress
    return lambda step, steps, left: progress(turn * steps + step, turns * steps, left * (turns - turn))


def paced(progress: Progress | None, total: int, *what: str, before: int = 0) -> Callable[[int], None]:
    """Return a callback that takes the number of finished pieces of work, out of `total`.

    It calls `progress` with this number, `total`, the estimated remaining seconds and, if the stage has a name, this
    name (`what`). It does nothing if `progress` is None. `before` pieces are finished already, at unknown speed.

    >>> paced(lambda *call: print(call[0], call[1], call[3]), 8, "teachers")(2)
    2 8 teachers
    """
    began = time.monotonic()

    def report(done: int) -> None:
        if progress is not None:
            progress(done, total, (time.monotonic() - began) / max(done - before, 1) * (total - done), *what)

    return report


def shuffled_batches(part: np.ndarray, batch: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield arrays of `batch` entries of the array `part` without end, shuffled anew in every epoch.

    Batches go on across the end of an epoch. If `part` is empty, all entries are -1.

    >>> batches = shuffled_batches(np.arange(4), 2, np.random.default_rng(0))
    >>> sorted(np.concatenate([next(batches), next(batches)]).tolist())
    [0, 1, 2, 3]
    """
    queue = np.empty(0, np.int64)
    while True:
        while len(queue) < batch:
            order = generator.permutation(part) if len(part) else np.full(batch, -1)
            queue = np.concatenate([queue, order])
        yield queue[:batch]
        queue = queue[batch:]


def captured(step: Callable[[], None], changed: Sequence[Any], generator: Any) -> Callable[[], None]:
    """Return a function that replays `step` as a CUDA graph, so that no kernel launch waits for the host.

    `changed` are the tensors that `step` changes in place; they keep their values here. `generator` is the torch
    generator from which `step` draws, besides the default one. The caller keeps all tensors that `step` reads.
    """
    import torch

    saved = [tensor.detach().clone() for tensor in changed]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        step()
    for tensor, values in zip(changed, saved, strict=True):
        tensor.detach().copy_(values)
    return graph.replay


class _Networks:
    """Trained copies of networks of one architecture, called together on inputs (networks, batch, ...).

    `theta` (networks, parameters) holds all trained parameters in one tensor, so an update takes few operations for any
    number of layers. `modules` are not changed. A call returns outputs (networks, batch, outputs).
    """

    def __init__(self, modules: Sequence[Any], device: str) -> None:
        import torch

        self.modules = [copy.deepcopy(module).to(device).train() for module in modules]
        state = [dict(module.named_parameters()) | dict(module.named_buffers()) for module in self.modules]
        self.trained_names = [name for name, values in state[0].items() if values.requires_grad]
        self.fixed = {
            name: torch.stack([each[name].detach() for each in state])
            for name in state[0]
            if name not in self.trained_names
        }
        self.shapes = [state[0][name].shape for name in self.trained_names]
        self.theta: Any = torch.stack(
            [torch.cat([each[name].detach().flatten() for name in self.trained_names]) for each in state]
        ).requires_grad_()
        self.velocity = torch.zeros_like(self.theta)
        self.structure = copy.deepcopy(self.modules[0]).to("meta")

    def __call__(self, inputs: Any) -> Any:
        import torch

        state = self._named() | self.fixed
        if len(self.modules) == 1:
            single = {name: values[0] for name, values in state.items()}
            return torch.func.functional_call(self.structure, single, (inputs[0],))[None]

        def outputs(own: Any, rows: Any) -> Any:
            return torch.func.functional_call(self.structure, own, (rows,))

        return torch.func.vmap(outputs, randomness="different")(state, inputs)

    def _named(self) -> dict[str, Any]:
        pieces = self.theta.split([shape.numel() for shape in self.shapes], dim=1)
        return {
            name: piece.view(-1, *shape)
            for name, piece, shape in zip(self.trained_names, pieces, self.shapes, strict=True)
        }

    @property
    def state(self) -> list[Any]:
        """The tensors that `update` changes."""
        return [self.theta, self.velocity]

    def update(self, loss: Any, lr: Any, descent: PlainDescent) -> None:
        """Take one step of descent with Nesterov momentum, with the learning rate in the tensor `lr`.

        `loss` is the sum of the networks' losses. The gradient of each network is clipped to `descent.norm`; if its
        norm is not finite, the whole gradient becomes 0.
        """
        import torch

        (gradient,) = torch.autograd.grad(loss, self.theta)
        with torch.no_grad():
            length = gradient.norm(dim=1, keepdim=True)
            factor = torch.where(length.isfinite(), descent.norm / length.clamp_min(descent.norm), 0.0)
            gradient = gradient.nan_to_num(0.0, 0.0, 0.0).mul_(factor).add_(self.theta, alpha=descent.decay)
            self.velocity.mul_(descent.momentum).add_(gradient)
            self.theta.addcmul_(gradient.add_(self.velocity, alpha=descent.momentum), lr, value=-1)

    def trained(self) -> list[Any]:
        """Return the networks with their trained parameters, in evaluation mode."""
        import torch

        with torch.no_grad():
            for name, values in self._named().items():
                for number, module in enumerate(self.modules):
                    module.get_parameter(name).copy_(values[number])
        return [module.eval() for module in self.modules]


def _padded(targets: Any) -> Any:
    """Return the tensor `targets` unchanged; if it has no rows, return targets of zeros for one row instead.

    `targets` holds class codes or class probabilities, for all networks or for each, as `Targets` describes.
    """
    rows = targets.ndim - 1 - targets.is_floating_point()
    return targets if targets.shape[rows] else targets.new_zeros([size or 1 for size in targets.shape])


def _selected(targets: Any, at: Any, classes: int) -> Any:
    """Return the class probabilities (networks, batch, classes) of the rows at positions `at` (networks, batch).

    `targets` is a tensor of class codes or class probabilities, as `Targets` describes; class codes become one-hot.
    """
    import torch

    codes = not targets.is_floating_point()
    shared = targets.ndim == (1 if codes else 2)
    chosen = targets[at] if shared else targets[torch.arange(len(at), device=at.device)[:, None], at]
    return torch.nn.functional.one_hot(chosen.long(), classes) if codes else chosen


class _Mixture:
    """Mixes each example (or target) of a batch with another one.

    A call takes and returns (networks, `batch`, ...). Each network has one random mixing weight, from the Beta
    distribution with both parameters `parameter`, and one random pairing, both drawn by its own generator. All calls
    use the same weights and pairings until `draw` draws new ones. Before the first `draw` nothing is mixed.
    """

    def __init__(self, parameter: float, generators: Sequence[np.random.Generator], batch: int, device: str) -> None:
        import torch

        self.parameter, self.generators = parameter, generators
        self.share = torch.ones(len(generators), device=device)
        self.other = torch.zeros(len(generators), batch, dtype=torch.int64, device=device)
        self.network = torch.arange(len(generators), device=device)[:, None]

    def draw(self) -> None:
        """Draw new weights and pairings, and write them where a captured step reads them."""
        import torch

        batch = self.other.shape[1]
        drawn = [(each.beta(self.parameter, self.parameter), each.permutation(batch)) for each in self.generators]
        self.share.copy_(torch.tensor([share for share, _ in drawn], dtype=torch.float32))
        self.other.copy_(torch.from_numpy(np.stack([order for _, order in drawn])))

    def __call__(self, values: Any) -> Any:
        own = self.share.view(-1, *[1] * (values.ndim - 1))
        return own * values + (1 - own) * values[self.network, self.other]
