"""The layer rules of linear layers and of embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from privaware.descent._per_example import (
    EmbeddingGradient,
    Materialised,
    OuterProduct,
    OuterProductBias,
    PerExampleGradient,
)
from privaware.descent._stack import Stack, check_batch_first, check_unmodified


def embedding(stack: Stack, layer: nn.Embedding) -> Callable[[Tensor], Tensor]:
    """Return the replacement of the forward function of an embedding, which records its per-example gradients.

    The row `layer.padding_idx` of the table gets no gradient.
    """
    name, table = stack.parameter(layer.weight)
    assert table is not None
    models, entries, width = table.shape
    padding = layer.padding_idx

    def forward(codes: Tensor) -> Tensor:
        check_batch_first(codes, stack.examples)
        if models == 1:
            output = F.embedding(codes, table[0])
        else:
            shift = entries * torch.arange(models, device=codes.device)
            shift = shift.repeat_interleave(len(codes) // models)
            shifted = codes + shift.view(-1, *[1] * (codes.ndim - 1))
            output = F.embedding(shifted, table.reshape(-1, width))
        recorded, examples = codes.reshape(stack.examples, -1), stack.examples

        def build(gradient: Tensor) -> list[tuple[str, PerExampleGradient]]:
            assert name is not None
            by_position = gradient.reshape(examples, -1, width).to(stack.dtype)
            if padding is not None:
                by_position = by_position.masked_fill((recorded == padding)[:, :, None], 0)
            return [(name, EmbeddingGradient(recorded, by_position, (entries, width)))]

        return output if name is None else stack.record(output, build)

    return forward


Named = tuple[str | None, Tensor | None]
"""The name (None if frozen) and the stacked values of a parameter, (models, *shape) or (1, *shape) if all are equal."""


@dataclass(frozen=True)
class Affine:
    """The matrix and the bias of a linear map.

    `weight` and `bias` are pairs of a parameter's name (None if frozen) and its values (models, *shape); values of None
    mean no bias. A matrix or bias may be a slice of a larger parameter: `weight_part` and `bias_part` are slices of the
    parameter's first dimension, or None for the whole parameter. The values are those of the slice.
    """

    weight: Named
    bias: Named
    weight_part: slice | None = None
    bias_part: slice | None = None


def linear(stack: Stack, layer: nn.Linear) -> Callable[[Tensor], Tensor]:
    """Return the replacement of the forward function of a linear layer, which records its per-example gradients."""
    parameters = Affine(stack.parameter(layer.weight), stack.parameter(layer.bias))
    return lambda inputs: affine(stack, inputs, parameters)


def affine(stack: Stack, inputs: Tensor, parameters: Affine) -> Tensor:
    """Return the outputs of a linear map with each model's own `parameters`.

    `inputs` (examples, ..., in) hold all examples of model 0 first, then all examples of model 1, and so on. Unless
    weight and bias are both frozen, the stack records how to compute their per-example gradients.
    """
    weight_name, weights = parameters.weight
    bias_name, biases = parameters.bias
    assert weights is not None
    output = multiply(inputs, weights, biases)
    if weight_name is None and bias_name is None:
        return output
    version, recorded = inputs._version, inputs.detach()

    def build(gradient: Tensor) -> list[tuple[str, PerExampleGradient]]:
        check_unmodified(inputs, version)
        examples = stack.examples
        a = by_example(recorded, examples).to(stack.dtype)
        g = by_example(gradient, examples).to(stack.dtype)
        outer = OuterProduct(a, g, parameters.weight_part, stack.zeroing(a))
        gradients: list[tuple[str, PerExampleGradient]] = []
        if weight_name is not None:
            gradients.append((weight_name, outer))
        if bias_name is not None:
            gradients.append((bias_name, _bias(outer, weight_name is not None, parameters.bias_part)))
        return gradients

    return stack.record(output, build)


def _bias(outer: OuterProduct, weight_trained: bool, part: slice | None) -> PerExampleGradient:
    if outer.single and weight_trained:
        return OuterProductBias(outer, part)
    return Materialised(outer.gradients if outer.single else outer.gradients.sum(1), part=part)


def multiply(inputs: Tensor, weights: Tensor, biases: Tensor | None) -> Tensor:
    """Return `inputs @ weights.T + biases`, with each model's own parameters.

    `inputs` (examples, ..., in) hold all examples of model 0 first, then all examples of model 1, and so on. `weights`
    are (models, out, in) and `biases` (models, out) or None; the first dimension is 1 if all models have the same
    values.
    """
    if len(weights) == 1 and (biases is None or len(biases) == 1):
        return F.linear(inputs, weights[0], None if biases is None else biases[0])
    models = max(len(weights), 1 if biases is None else len(biases))
    flat = inputs.reshape(models, -1, inputs.shape[-1])
    transposed = weights.expand(models, -1, -1).transpose(1, 2)
    output = (
        torch.bmm(flat, transposed)
        if biases is None
        else torch.baddbmm(biases.expand(models, -1)[:, None], flat, transposed)
    )
    return output.view(*inputs.shape[:-1], weights.shape[1])


def by_example(values: Tensor, examples: int) -> Tensor:
    """Return `values` (..., width) as (examples, positions, width); `values` (examples, width) are returned unchanged.

    Augmented copies of an example count as positions. Raise `Refused` if the first dimension is no multiple of
    `examples`.
    """
    if values.ndim == 2 and len(values) == examples:
        return values
    check_batch_first(values, examples)
    return values.reshape(examples, -1, values.shape[-1])
