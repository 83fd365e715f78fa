"""A population of models of one architecture as one set of stacked parameters, stepped together.

The module's own forward code runs unchanged on P * B rows (model-major). Only layers with parameters are told to
compute, each model with its own, and to record what the rules need; parameters never ask for gradients.
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

from privaware.descent._shares import Share, Wash, keep_rows, zero_own_rows
from privaware.errors import Refused, WrongInput

__all__ = ["Recorded", "Slot", "Stack"]

Make = Callable[[Tensor], list[tuple[str, Share]]]


@dataclass(frozen=True)
class Slot:
    """Where a trainable parameter lies in the flat vector of its model."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int


class Recorded:
    """What one forward pass left behind: edges to differentiate by, and how to turn each gradient into shares."""

    def __init__(self) -> None:
        self.edges: list[Any] = []
        self.makes: list[Make] = []
        self.hidden: list[Tensor] = []

    def shares(self, end: Tensor, seeds: Tensor | None = None) -> dict[str, list[Share]]:
        """One backward pass from `end` (by which the loss has the gradient `seeds`); the shares, by parameter."""
        found: dict[str, list[Share]] = {}
        if not self.edges or not end.requires_grad:
            return found
        gradients = torch.autograd.grad(end, self.edges, seeds, allow_unused=True)
        for gradient, make in zip(gradients, self.makes, strict=True):
            if gradient is not None:
                for name, share in make(gradient):
                    found.setdefault(name, []).append(share)
        return found


class _Begin(torch.autograd.Function):
    """Marks a tensor as the place where differentiation ends, without a copy."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, token: Tensor) -> Tensor:
        ctx.mark_dirty(values)
        return values

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None]:
        return None, None


class Stack:
    """The parameters of a population, flat: `theta` is (models, trainable numbers)."""

    def __init__(
        self, modules: Sequence[nn.Module], *, device: Any = "cpu", whole: bool = False, watch: Sequence[str] = ()
    ) -> None:
        from privaware.descent._layers import install

        first = modules[0]
        self.models = len(modules)
        self.device = torch.empty(0, device=device).device  # with its number: it names generators
        self.module = copy.deepcopy(first).to(self.device)
        self.names = {id(p): n for n, p in self.module.named_parameters()}
        named = dict(self.module.named_parameters())
        self.slots = list(_slots(named))
        self.dtype = _dtype(self.slots, named)
        width = self.slots[-1].stop if self.slots else 0
        self.theta = torch.empty(self.models, width, dtype=self.dtype, device=self.device)
        self.fixed: dict[str, Tensor] = {}
        self._load(modules, named)
        self.tensors = {slot.name: self.view(self.theta, slot) for slot in self.slots} | self.fixed
        for name, parameter in named.items():
            parameter.requires_grad_(False)
            if self.models == 1 and name in self.tensors:
                parameter.data = self.tensors[name][0]
        self.token = torch.zeros((), device=self.device, requires_grad=True)
        self.tape = Recorded()
        self.rows = 0
        self.lenders: set[int] = set()
        self.finite = False
        self.groups = _groups(self.slots)
        self.resting: dict[str, Tensor] = {}
        self.layers = install(self, whole, watch)
        for module in self.module.modules():
            if type(module).__name__ in watch:
                module.register_forward_pre_hook(self._watched)

    def view(self, flat: Tensor, slot: Slot) -> Tensor:
        """The (models, *shape) part of a flat (models, trainable) tensor."""
        return flat[:, slot.start : slot.stop].view(self.models, *slot.shape)

    def _load(self, modules: Sequence[nn.Module], named: dict[str, nn.Parameter]) -> None:
        trainable = {slot.name: slot for slot in self.slots}
        others = [dict(module.named_parameters()) for module in modules]
        for name, parameter in named.items():
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
                self.fixed[name] = torch.stack(values)

    def rest(self, mask: Tensor) -> None:
        """Layers of which a model trains nothing by `mask` (models, trainable) count in none of its norms.

        A layer that is trained in part counts whole: its rows may be clipped more, never less.
        """
        trained: dict[int, Tensor] = {}
        for slot in self.slots:
            some = self.view(mask, slot).flatten(1).any(1)
            layer = self.groups[slot.name]
            trained[layer] = trained[layer] | some if layer in trained else some
        for slot in self.slots:
            flags = trained[self.groups[slot.name]]
            if not bool(flags.all()):
                self.resting[slot.name] = flags[:, None].to(self.dtype)

    def of(self, parameter: Tensor | None) -> tuple[str | None, Tensor | None]:
        """The slot's name (None if frozen) and the stacked values of a parameter of `self.module`."""
        if parameter is None:
            return None, None
        name = self.names[id(parameter)]
        trainable = name in self.tensors and name not in self.fixed
        values = self.tensors.get(name)
        return (name if trainable else None), (parameter[None] if values is None else values)

    def wash(self, values: Tensor) -> Wash:
        """How rows of a recorded tensor are zeroed: never in the caller's memory, and there only if need be."""
        if values.untyped_storage().data_ptr() not in self.lenders:
            return zero_own_rows
        return (lambda rows, good: rows) if self.finite else keep_rows

    def record(self, output: Tensor, make: Make) -> Tensor:
        """Remembers a layer's output; `make` turns the gradient by it into shares."""
        if not torch.is_grad_enabled():
            return output
        if output._is_view():  # an in-place operation later on would rewrite a view's history
            output = torch.ops.aten._unsafe_view(output, output.shape)
        if not output.requires_grad:
            output = _Begin.apply(output, self.token)
        self.tape.edges.append(get_gradient_edge(output))
        self.tape.makes.append(make)
        return output

    def _watched(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self.tape.hidden.append(inputs[0])

    def forward(self, inputs: tuple[Tensor, ...], rows: int) -> tuple[Any, Recorded]:
        """The population's outputs on model-major rows, and what was recorded on the way."""
        self.tape, self.rows = Recorded(), rows
        self.lenders = {item.untyped_storage().data_ptr() for item in inputs}
        fast = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            with torch.enable_grad():
                outputs = self.module(*inputs)
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
        tape, self.tape = self.tape, Recorded()
        return outputs, tape

    def released(self, modules: Sequence[nn.Module], theta: Tensor) -> list[nn.Module]:
        """Copies of the given modules with the trained parameters."""
        out = []
        for at, module in enumerate(modules):
            made = copy.deepcopy(module)
            named = dict(made.named_parameters())
            with torch.no_grad():
                for slot in self.slots:
                    values = theta[at, slot.start : slot.stop].view(slot.shape)
                    named[slot.name].copy_(values.to(named[slot.name]))
            out.append(made)
        return out


def _slots(named: dict[str, nn.Parameter]) -> Iterator[Slot]:
    start = 0
    for name, parameter in named.items():
        if parameter.requires_grad:
            stop = start + math.prod(parameter.shape)
            yield Slot(name, tuple(parameter.shape), start, stop)
            start = stop


def _groups(slots: list[Slot]) -> dict[str, int]:
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
