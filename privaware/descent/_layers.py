"""Which rule each layer of a module follows, and the rule of linear layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from privaware import models
from privaware.descent._attention import attention, has_rule
from privaware.descent._block import join
from privaware.descent._cell import cell
from privaware.descent._convolution import convolution
from privaware.descent._general import general
from privaware.descent._normalising import channels, embedding, features
from privaware.descent._pooling import halves, pooling
from privaware.descent._recurrent import one_bias, recurrent
from privaware.descent._shares import Beside, Outer, Rows
from privaware.descent._standardised import standardised
from privaware.descent._widths import Choice, choose
from privaware.errors import Refused
from privaware.models._dpnas_cell import CellGraph

if TYPE_CHECKING:
    from privaware.descent._stack import Stack

__all__ = ["install"]

Rule = Callable[["Stack", Any], Callable[..., Any]]


def rules() -> dict[type[nn.Module], Rule]:
    """The rule of each kind of layer; subclasses with a forward of their own are not meant."""
    table: dict[type[nn.Module], Rule] = {
        nn.Linear: linear,
        nn.modules.linear.NonDynamicallyQuantizableLinear: linear,
        nn.Embedding: embedding,
        nn.MultiheadAttention: attention,
        models.LSTM: one_bias,
        models.StandardisedConv2d: standardised,
        Choice: chosen,
    }
    table |= dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), convolution)
    table |= dict.fromkeys((nn.LayerNorm, nn.RMSNorm), features)
    table |= dict.fromkeys((nn.LSTM, nn.GRU, nn.RNN), recurrent)
    instances = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
    return table | dict.fromkeys((nn.GroupNorm, *instances), channels)


def install(stack: Stack, whole: bool, watch: Sequence[str] = ()) -> dict[str, str]:
    """Gives every layer with parameters its rule; the layers found, by name, and how each is handled."""
    known, found = rules(), {}
    for module in stack.module.modules():
        if getattr(module, "inplace", False) is True:
            module.inplace = False  # type: ignore[assignment]
        if not whole and halves(module):
            module.forward = pooling  # type: ignore[method-assign]

    def visit(module: nn.Module, name: str) -> None:
        if not _touched(stack, module):
            return
        rule = None if whole else known.get(type(module))
        if isinstance(module, nn.MultiheadAttention) and not has_rule(module):
            rule = None
        elif rule is None and not whole and not _own(module):
            for child, part in module.named_children():
                visit(part, f"{name}.{child}" if name else child)
            if isinstance(module, CellGraph):
                module.node_outputs = cell(stack, module)  # type: ignore[method-assign, assignment]
            return
        module.forward = (rule or general)(stack, module)  # type: ignore[method-assign]
        found[name] = type(module).__name__ + ("" if rule else " (materialised)")

    visit(stack.module, "")
    if not whole:
        join(stack, watch)
    return found


def _own(module: nn.Module) -> bool:
    return any(parameter is not None for parameter in module._parameters.values())


def _touched(stack: Stack, module: nn.Module) -> bool:
    """Whether the module has parameters that are trained or differ between models."""
    return any(stack.names[id(p)] in stack.tensors for p in module.parameters())


def linear(stack: Stack, layer: nn.Linear) -> Callable[[Tensor], Tensor]:
    """Rows of any leading shape times a matrix."""
    weight_name, weight = stack.of(layer.weight)
    bias_name, bias = stack.of(layer.bias)
    assert weight is not None

    def forward(inputs: Tensor) -> Tensor:
        return recorded_linear(stack, inputs, (weight_name, weight), (bias_name, bias))

    return forward


def chosen(stack: Stack, layer: Choice) -> Callable[[Tensor], Tensor]:
    """Each model's own activations; nothing here is trained."""
    _, values = stack.of(layer.chosen)
    assert values is not None
    return lambda inputs: choose(layer.kinds, inputs, values)


Named = tuple[str | None, Tensor | None]


def recorded_linear(
    stack: Stack, inputs: Tensor, weight: Named, bias: Named, at: slice | None = None, bias_at: slice | None = None
) -> Tensor:
    """A linear map with each model's own parameters, recorded; `at` is the slice of a larger parameter that this is."""
    weight_name, weights = weight
    bias_name, biases = bias
    assert weights is not None
    output = multiply(inputs, weights, biases)
    if weight_name is None and bias_name is None:
        return output
    version, kept = inputs._version, inputs.detach()

    def make(gradient: Tensor) -> list[tuple[str, Any]]:
        unchanged(inputs, version)
        rows = stack.rows
        a = by_row(kept, rows).to(stack.dtype)
        g = by_row(gradient, rows).to(stack.dtype)
        outer, shares = Outer(a, g, at, stack.wash(a)), []
        if weight_name is not None:
            shares.append((weight_name, outer))
        if bias_name is not None:
            shares.append((bias_name, _bias(outer, weight_name is not None, bias_at)))
        return shares

    return stack.record(output, make)


def _bias(outer: Outer, beside: bool, at: slice | None) -> Any:
    if outer.single and beside:
        return Beside(outer, at)
    return Rows(outer.gradients if outer.single else outer.gradients.sum(1), at=at)


def multiply(inputs: Tensor, weights: Tensor, biases: Tensor | None) -> Tensor:
    """inputs @ weights^T + biases, for each model its own."""
    if len(weights) == 1 and (biases is None or len(biases) == 1):
        return F.linear(inputs, weights[0], None if biases is None else biases[0])
    models = max(len(weights), 1 if biases is None else len(biases))
    flat = inputs.reshape(models, -1, inputs.shape[-1])
    turned = weights.expand(models, -1, -1).transpose(1, 2)
    output = (
        torch.bmm(flat, turned) if biases is None else torch.baddbmm(biases.expand(models, -1)[:, None], flat, turned)
    )
    return output.view(*inputs.shape[:-1], weights.shape[1])


def by_row(values: Tensor, rows: int) -> Tensor:
    """(..., width) as (rows, width), or as (rows, positions, width) where a row has several."""
    if values.ndim == 2 and len(values) == rows:
        return values
    rows_first(values, rows)
    return values.reshape(rows, -1, values.shape[-1])


def rows_first(values: Tensor, rows: int) -> None:
    """Refuses a tensor that cannot hold the rows in front."""
    if rows == 0 or len(values) % rows:
        raise Refused(
            f"expected the rows first in every layer's input, got shape {tuple(values.shape)} for {rows} rows; "
            "keep the batch dimension in front"
        )


def unchanged(values: Tensor, version: int) -> None:
    """Refuses if a recorded tensor was written over."""
    if values._version != version:
        raise Refused(
            "the input of a layer is modified in place by the module's forward; use the out-of-place operation"
        )
