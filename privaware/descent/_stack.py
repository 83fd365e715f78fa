"""Stack the parameters of models of one architecture, so that they are trained together.

The module's own forward code runs on P * B examples of P models, in model-major order. Only the `forward` functions of
layers with stacked parameters, of dropout and of some pools are replaced (`_layers/rules.py`). A replaced layer
computes with each model's own parameters, and records what its layer rule needs. Parameters themselves never require
gradients.
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

Builder = Callable[[Tensor], list[tuple[str, PerExampleGradient]]]
"""A function that turns the gradient of a layer's output into pairs of parameter name and per-example gradients."""


@dataclass(frozen=True)
class Segment:
    """The entries of a trainable parameter in the flat parameter vector of its model: `start` to `stop - 1`.

    `name` and `shape` are the name and shape of the parameter in the module.
    """

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int


class Tape:
    """The record of one forward pass, from which the backward pass computes per-example gradients.

    `edges` are the points of the autograd graph with respect to which the backward pass differentiates. For each edge
    `builders` has the function that turns the gradient with respect to it into per-example gradients. `hidden` holds
    the inputs of modules that a loss penalises.
    """

    def __init__(self) -> None:
        self.edges: list[Any] = []
        self.builders: list[Builder] = []
        self.hidden: list[Tensor] = []

    def per_example_gradients(self, end: Tensor, seeds: Tensor | None = None) -> dict[str, list[PerExampleGradient]]:
        """Run one backward pass from `end` and return per-example gradients by parameter name.

        `seeds` is the gradient of the loss with respect to `end`; None if `end` is the loss. A parameter that `end`
        does not depend on is left out; one that is used several times has several entries.
        """
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
    """The identity function, without a copy, at whose result the backward pass ends: its inputs get no gradient."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, token: Tensor) -> Tensor:
        ctx.mark_dirty(values)
        return values

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None]:
        return None, None


class Stack:
    """The stacked parameters of models of one architecture, and one module that computes with them.

    `theta` (models, trainable) holds the trainable parameters. `segments` say where each parameter lies in `theta`.
    `module` is a copy of the first module; the function `stacked` replaces the forward functions of its layers.
    `layer_numbers` has the number of the layer of each parameter. `excluded` has, for each parameter of a layer that
    some model does not train, 1 for the models that train the layer and 0 for all other models. The given modules are
    not changed. Raise `WrongInput` if they have no trainable parameter or differ in architecture, and `Refused` if
    trainable parameters are not of one floating-point type.
    """

    def __init__(self, modules: Sequence[nn.Module], *, device: Any = "cpu") -> None:
        self.models = len(modules)
        self.device = torch.empty(0, device=device).device  # with its index, which is part of generator names
        self.module = copy.deepcopy(modules[0]).to(self.device)
        self.names = {id(p): n for n, p in self.module.named_parameters()}
        named = dict(self.module.named_parameters())
        self.segments = list(_segments(named))
        self.dtype = _dtype(self.segments, named)
        width = self.segments[-1].stop if self.segments else 0
        self.theta = torch.empty(self.models, width, dtype=self.dtype, device=self.device)
        self.frozen: dict[str, Tensor] = {}
        self.load(modules)
        self.tensors = {segment.name: self.view(self.theta, segment) for segment in self.segments} | self.frozen
        for name, parameter in named.items():
            parameter.requires_grad_(False)
            if self.models == 1 and name in self.tensors:
                parameter.data = self.tensors[name][0]
        self.token = torch.zeros((), device=self.device, requires_grad=True)
        self.tape = Tape()
        self.examples = 0
        self.caller_storages: set[int] = set()
        self.finite_inputs = False
        self.cancelling = 1.0  # see `Arithmetic.cancelling`
        self.layer_numbers = _layer_numbers(self.segments)
        self.excluded: dict[str, Tensor] = {}
        self.projection: BoundProjection | None = None
        self.has_dropout = False
        self.key: ExampleKey | None = None
        self.draws: ExampleDraws | None = None

    @property
    def columns(self) -> int:
        """How many numbers are summed for an example: the entries of its gradient or of its projection."""
        return self.theta.shape[1] if self.projection is None else self.projection.columns

    def view(self, flat: Tensor, segment: Segment) -> Tensor:
        """Return the columns of `flat` (rows, trainable) that belong to `segment`, as (rows, *shape of the parameter).

        The result is a view: it shares the memory of `flat`.
        """
        return flat[:, segment.start : segment.stop].view(len(flat), *segment.shape)

    def load(self, modules: Sequence[nn.Module]) -> None:
        """Copy the trainable parameters of `modules` into `theta`, and stack frozen ones that differ between modules.

        Frozen parameters that are equal in all modules are not copied: those of `self.module` are used. Raise
        `WrongInput` if the modules differ in the shape of a parameter, or in which parameters are frozen.
        """
        trainable = {segment.name: segment for segment in self.segments}
        others = [dict(module.named_parameters()) for module in modules]
        for name, parameter in self.module.named_parameters():
            values = []
            for other in others:
                if name not in other or other[name].shape != parameter.shape:
                    raise WrongInput(
                        f"expected models of one architecture, but not all have parameter {name!r} with the same shape"
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
        """Leave layers that a model does not train out of the gradient norms of this model.

        `mask` (models, trainable) is 0 for parameters that a model does not train. A layer is left out only if a model
        trains none of its parameters. So a partly trained layer counts completely: gradients may be clipped more, but
        never less. The result is in `excluded`.
        """
        trained: dict[int, Tensor] = {}
        for segment in self.segments:
            any_trained = self.view(mask, segment).reshape(len(mask), -1).any(1)
            layer = self.layer_numbers[segment.name]
            trained[layer] = trained[layer] | any_trained if layer in trained else any_trained
        for segment in self.segments:
            flags = trained[self.layer_numbers[segment.name]]
            if not bool(flags.all()):
                self.excluded[segment.name] = flags[:, None].to(self.dtype)

    def parameter(self, parameter: Tensor | None) -> tuple[str | None, Tensor | None]:
        """Return the name (None if frozen) and the stacked values of a parameter of `self.module`.

        The name is the parameter's name in `segments`. The values are (models, *shape), or (1, *shape) for a frozen
        parameter that is equal in all models. A `parameter` of None, such as an absent bias, gives (None, None).
        """
        if parameter is None:
            return None, None
        name = self.names[id(parameter)]
        trainable = name in self.tensors and name not in self.frozen
        values = self.tensors.get(name)
        return (name if trainable else None), (parameter[None] if values is None else values)

    def zeroing(self, values: Tensor) -> Zeroing:
        """Return a function `(values, keep) -> values` that sets the examples outside the mask `keep` to zero.

        It is for the recorded tensor `values`, or parts of it. The caller's own memory is never overwritten: if
        `values` lies in it, the function returns a copy. It then returns its argument unchanged if all inputs of the
        training are finite, because a clipping factor of 0 is enough for finite values. If `values` lies in other
        memory, the function may overwrite its argument.
        """
        if values.untyped_storage().data_ptr() not in self.caller_storages:
            return zero_in_place
        return (lambda examples, keep: examples) if self.finite_inputs else keep_examples

    def record(self, output: Tensor, build: Builder) -> Tensor:
        """Record a layer's `output` on the tape and return the tensor to use as output from now on.

        `build` turns the gradient with respect to the output into per-example gradients. Where gradients are switched
        off, nothing is recorded and `output` itself is returned.
        """
        if not torch.is_grad_enabled():
            return output
        if output._is_view():  # an in-place operation later on would rewrite a view's history
            output = torch.ops.aten._unsafe_view(output, output.shape)
        if not output.requires_grad:
            output = _Begin.apply(output, self.token)
        self.record_leaf(output, build)
        return output

    def record_leaf(self, leaf: Tensor, build: Builder) -> None:
        """Record a tensor whose gradient `build` turns into per-example gradients, if gradients are enabled."""
        if torch.is_grad_enabled():
            self.tape.edges.append(get_gradient_edge(leaf))
            self.tape.builders.append(build)

    def record_inputs_of(self, kinds: Sequence[str]) -> None:
        """Let each forward pass record the first input of each module with a class name in `kinds`, in `tape.hidden`.

        A loss that penalises these inputs reads them there.
        """
        for module in self.module.modules():
            if type(module).__name__ in kinds:
                module.register_forward_pre_hook(lambda _, inputs: self.tape.hidden.append(inputs[0]))

    def expect_draws(self) -> ExampleDraws:
        """Return the random draws of the examples in this forward pass; raise `Refused` if `forward` was given none."""
        if self.draws is None:
            raise Refused("expected draws of the examples for dropout in training mode, got none")
        return self.draws

    def forward(self, inputs: tuple[Tensor, ...], examples: int, draws: ExampleDraws | None = None) -> tuple[Any, Tape]:
        """Return the outputs of all models on their examples (model-major), and the record of the forward pass.

        `examples` is the number of examples of all models; `inputs` may hold several augmented copies of each. Dropout
        in training mode takes its masks from `draws`.
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
        """Return copies of `modules`, on their own devices, in which trainable parameters have the values `theta`.

        Row m of `theta` (models, trainable) belongs to `modules[m]`.
        """
        copies = []
        for at, module in enumerate(modules):
            trained = copy.deepcopy(module)
            named = dict(trained.named_parameters())
            with torch.no_grad():
                for segment in self.segments:
                    values = theta[at, segment.start : segment.stop].view(segment.shape)
                    named[segment.name].copy_(values.to(named[segment.name]))
            copies.append(trained)
        return copies

    def tensor(self, values: Any) -> Tensor:
        """Return `values` as a tensor on the stack's device; floating-point values get the type of its parameters."""
        tensor = values if isinstance(values, Tensor) else torch.as_tensor(values)
        kind = self.dtype if tensor.is_floating_point() else None
        return tensor.to(device=self.device, dtype=kind)

    def inputs(self, inputs: Any) -> tuple[Tensor, ...]:
        """Return the inputs of the module as a tuple of tensors, from one array or several of equal length.

        Floats get the stack's type. Raise `WrongInput` if lengths differ, if there is no input, or if one is a
        scalar.
        """
        several = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        tensors = tuple(self.tensor(item) for item in several)
        if not tensors or any(item.ndim == 0 or len(item) != len(tensors[0]) for item in tensors):
            raise WrongInput("expected inputs with one entry for each example, got inputs of different lengths")
        return tensors


def check_batch_first(values: Tensor, examples: int) -> None:
    """Raise `Refused` if `examples` is 0, or if the length of `values` is not a multiple of `examples`.

    A multiple is allowed, because an example may have several augmented copies.
    """
    if examples == 0 or len(values) % examples:
        raise Refused(
            f"expected the examples first in every layer's input, got shape {tuple(values.shape)} for {examples} "
            "examples; keep the batch dimension in front"
        )


def check_unmodified(values: Tensor, version: int) -> None:
    """Raise `Refused` if the recorded tensor `values` was modified in place since its `_version` was `version`."""
    if values._version != version:
        raise Refused(
            "the input of a layer is modified in place by the module's forward; use the out-of-place operation"
        )


def _segments(named: dict[str, nn.Parameter]) -> Iterator[Segment]:
    start = 0
    for name, parameter in named.items():
        if parameter.requires_grad:
            stop = start + math.prod(parameter.shape)
            yield Segment(name, tuple(parameter.shape), start, stop)
            start = stop


def _layer_numbers(segments: list[Segment]) -> dict[str, int]:
    """Return, by parameter name, the number (from 0, in order of `segments`) of its layer, the module that owns it."""
    owners: dict[str, int] = {}
    return {segment.name: owners.setdefault(segment.name.rpartition(".")[0], len(owners)) for segment in segments}


def _dtype(segments: list[Segment], named: dict[str, nn.Parameter]) -> torch.dtype:
    kinds = {named[segment.name].dtype for segment in segments}
    if not kinds:
        raise WrongInput("expected a module with trainable parameters, got none")
    if len(kinds) > 1 or not next(iter(kinds)).is_floating_point:
        raise Refused(f"expected trainable parameters of one floating-point type, got {sorted(map(str, kinds))}")
    if not kinds <= {torch.float32, torch.float64}:
        raise Refused(f"expected trainable parameters of float32 or float64, got {kinds.pop()}; train module.float()")
    return next(iter(kinds))
