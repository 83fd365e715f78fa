"""A population of models of one architecture as one set of stacked parameters, stepped together.

The module's own forward code runs unchanged on P * B examples (model-major). Only layers with parameters are replaced:
each model computes with its own, and what the layer rules need is recorded; parameters never ask for gradients.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from privaware.descent._example_draws import ExampleDraws, ExampleKey
from privaware.descent._example_sums import keep_examples, zero_in_place
from privaware.descent._per_example import PerExampleGradient, Zeroing
from privaware.descent._projection import BoundProjection
from privaware.errors import Refused, WrongInput

__all__ = ["Builder", "Slot", "Stack", "Tape"]

Builder = Callable[[Tensor], list[tuple[str, PerExampleGradient]]]
"""Turns the gradient by a layer's output into per-example gradients, by parameter name."""


@dataclass(frozen=True)
class Slot:
    """Where a trainable parameter lies in the flat vector of its model."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int


class Tape:
    """What one forward pass recorded: edges to differentiate by, and a builder of per-example gradients for each."""

    def __init__(self) -> None:
        self.edges: list[Any] = []
        self.builders: list[Builder] = []
        self.hidden: list[Tensor] = []

    def per_example_gradients(self, end: Tensor, seeds: Tensor | None = None) -> dict[str, list[PerExampleGradient]]:
        """One backward pass from `end` (by which the loss has the gradient `seeds`), by parameter."""
        by_parameter: dict[str, list[PerExampleGradient]] = {}
        if not self.edges or not end.requires_grad:
            return by_parameter
        gradients = torch.autograd.grad(end, self.edges, seeds, allow_unused=True)
        for gradient, build in zip(gradients, self.builders, strict=True):
            if gradient is not None:
                for name, use in build(gradient):
                    by_parameter.setdefault(name, []).append(use)
        return by_parameter


class _Begin(torch.autograd.Function):
    """Marks a tensor as the end of differentiation, without a copy."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, token: Tensor) -> Tensor:
        ctx.mark_dirty(values)
        return values

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None]:
        return None, None


class Stack:
    """The parameters of a population, flat: `theta` is (models, trainable numbers). Layers get their rules later."""

    def __init__(self, modules: Sequence[nn.Module], *, device: Any = "cpu") -> None:
        self.models = len(modules)
        self.device = torch.empty(0, device=device).device  # with its number: it names generators
        self.module = copy.deepcopy(modules[0]).to(self.device)
        self.names = {id(p): n for n, p in self.module.named_parameters()}
        named = dict(self.module.named_parameters())
        self.slots = list(_slots(named))
        self.dtype = _dtype(self.slots, named)
        width = self.slots[-1].stop if self.slots else 0
        self.theta = torch.empty(self.models, width, dtype=self.dtype, device=self.device)
        self.frozen: dict[str, Tensor] = {}
        self.load(modules)
        self.tensors = {slot.name: self.view(self.theta, slot) for slot in self.slots} | self.frozen
        for name, parameter in named.items():
            parameter.requires_grad_(False)
            if self.models == 1 and name in self.tensors:
                parameter.data = self.tensors[name][0]
        self.token = torch.zeros((), device=self.device, requires_grad=True)
        self.tape = Tape()
        self.examples = 0
        self.caller_storages: set[int] = set()
        self.finite_inputs = False
        self.cancelling = 1.0  # see `rounding_bound`
        self.layer_numbers = _layer_numbers(self.slots)
        self.excluded: dict[str, Tensor] = {}
        self.layers: dict[str, str] = {}
        self.projection: BoundProjection | None = None
        self.has_dropout = False
        self.key: ExampleKey | None = None
        self.draws: ExampleDraws | None = None

    @property
    def columns(self) -> int:
        """The numbers that are summed for an example: its gradient, or what the projection makes of it."""
        return self.theta.shape[1] if self.projection is None else self.projection.columns

    def view(self, flat: Tensor, slot: Slot) -> Tensor:
        """The (models, *shape) part of a flat (models, trainable) tensor, or of one with several sums a model."""
        return flat[:, slot.start : slot.stop].view(len(flat), *slot.shape)

    def load(self, modules: Sequence[nn.Module]) -> None:
        """Takes the parameters of modules of the same architecture; frozen ones only where they differ."""
        trainable = {slot.name: slot for slot in self.slots}
        others = [dict(module.named_parameters()) for module in modules]
        for name, parameter in self.module.named_parameters():
            values = []
            for other in others:
                if name not in other or other[name].shape != parameter.shape:
                    raise WrongInput(
                        f"expected models of one architecture, but their parameter {name!r} differs in shape"
                    )
                if other[name].requires_grad != (name in trainable):
                    raise WrongInput(
                        f"expected the same frozen parameters in all models, but {name!r} is frozen in some"
                    )
                values.append(other[name].detach().to(self.device))
            if name in trainable:
                self.view(self.theta, trainable[name]).copy_(torch.stack(values))
            elif any(not torch.equal(value, values[0]) for value in values[1:]):
                self.frozen[name] = torch.stack(values)

    def exclude_untrained(self, mask: Tensor) -> None:
        """Layers of which a model trains nothing by `mask` (models, trainable) count in none of its norms.

        A layer that is trained in part counts completely: its gradients may be clipped more, never less.
        """
        trained: dict[int, Tensor] = {}
        for slot in self.slots:
            any_trained = self.view(mask, slot).flatten(1).any(1)
            layer = self.layer_numbers[slot.name]
            trained[layer] = trained[layer] | any_trained if layer in trained else any_trained
        for slot in self.slots:
            flags = trained[self.layer_numbers[slot.name]]
            if not bool(flags.all()):
                self.excluded[slot.name] = flags[:, None].to(self.dtype)

    def parameter(self, parameter: Tensor | None) -> tuple[str | None, Tensor | None]:
        """The slot's name (None if frozen) and the stacked values of a parameter of `self.module`."""
        if parameter is None:
            return None, None
        name = self.names[id(parameter)]
        trainable = name in self.tensors and name not in self.frozen
        values = self.tensors.get(name)
        return (name if trainable else None), (parameter[None] if values is None else values)

    def zeroing(self, values: Tensor) -> Zeroing:
        """How examples of a recorded tensor are zeroed: never in the caller's memory, and there only if needed."""
        if values.untyped_storage().data_ptr() not in self.caller_storages:
            return zero_in_place
        return (lambda examples, keep: examples) if self.finite_inputs else keep_examples

    def record(self, output: Tensor, build: Builder) -> Tensor:
        """Records a layer's output; `build` turns the gradient by it into per-example gradients."""
        if not torch.is_grad_enabled():
            return output
        if output._is_view():  # an in-place operation later on would rewrite a view's history
            output = torch.ops.aten._unsafe_view(output, output.shape)
        if not output.requires_grad:
            output = _Begin.apply(output, self.token)
        self.tape.edges.append(get_gradient_edge(output))
        self.tape.builders.append(build)
        return output

    def record_inputs_of(self, kinds: Sequence[str]) -> None:
        """The inputs of modules of these kinds are recorded too, for a loss that penalises them."""
        for module in self.module.modules():
            if type(module).__name__ in kinds:
                module.register_forward_pre_hook(self._record_input)

    def _record_input(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self.tape.hidden.append(inputs[0])

    def expect_draws(self) -> ExampleDraws:
        """The draws of the examples of this forward pass."""
        if self.draws is None:
            raise Refused("expected draws of the examples for dropout in training mode, got none")
        return self.draws

    def forward(self, inputs: tuple[Tensor, ...], examples: int, draws: ExampleDraws | None = None) -> tuple[Any, Tape]:
        """The population's outputs on model-major examples, and what was recorded.

        Dropout in training mode takes the numbers of each example from `draws`.
        """
        self.tape, self.examples, self.draws = Tape(), examples, draws
        self.caller_storages = {item.untyped_storage().data_ptr() for item in inputs}
        fast = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            with torch.enable_grad():
                outputs = self.module(*inputs)
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
        tape, self.tape = self.tape, Tape()
        return outputs, tape

    def trained(self, modules: Sequence[nn.Module], theta: Tensor) -> list[nn.Module]:
        """Copies of the given modules with the parameters `theta`."""
        copies = []
        for at, module in enumerate(modules):
            trained = copy.deepcopy(module)
            named = dict(trained.named_parameters())
            with torch.no_grad():
                for slot in self.slots:
                    values = theta[at, slot.start : slot.stop].view(slot.shape)
                    named[slot.name].copy_(values.to(named[slot.name]))
            copies.append(trained)
        return copies

    def tensor(self, values: Any) -> Tensor:
        """A tensor on the stack's device, floating-point values in its precision."""
        tensor = values if isinstance(values, Tensor) else torch.as_tensor(values)
        kind = self.dtype if tensor.is_floating_point() else None
        return tensor.to(device=self.device, dtype=kind)

    def inputs(self, inputs: Any) -> tuple[Tensor, ...]:
        """What the module is called with: one tensor or a tuple of them."""
        several = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        tensors = tuple(self.tensor(item) for item in several)
        if not tensors or any(item.ndim == 0 or len(item) != len(tensors[0]) for item in tensors):
            raise WrongInput("expected inputs with one entry an example, got inputs of different lengths")
        return tensors


def _slots(named: dict[str, nn.Parameter]) -> Iterator[Slot]:
    start = 0
    for name, parameter in named.items():
        if parameter.requires_grad:
            stop = start + math.prod(parameter.shape)
            yield Slot(name, tuple(parameter.shape), start, stop)
            start = stop


def _layer_numbers(slots: list[Slot]) -> dict[str, int]:
    """The number of the layer (the module that owns it) of each parameter."""
    owners: dict[str, int] = {}
    return {slot.name: owners.setdefault(slot.name.rpartition(".")[0], len(owners)) for slot in slots}


def _dtype(slots: list[Slot], named: dict[str, nn.Parameter]) -> torch.dtype:
    kinds = {named[slot.name].dtype for slot in slots}
    if not kinds:
        raise WrongInput("expected a module with trainable parameters, got none")
    if len(kinds) > 1 or not next(iter(kinds)).is_floating_point:
        raise Refused(f"expected trainable parameters of one floating-point type, got {sorted(map(str, kinds))}")
    return next(iter(kinds))
