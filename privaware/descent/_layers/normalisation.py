"""Layer rules of group, instance, layer and RMS norm: how their per-example gradients are computed.

These layers compute their statistics from one example at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from privaware.descent._example_sums import sum_copies
from privaware.descent._per_example import Materialised, PerExampleGradient
from privaware.descent._stack import Stack, check_batch_first


@dataclass(frozen=True)
class _Norm:
    """How a layer normalises.

    `normalise` maps inputs to normalised values. `broadcast(values, inputs)` adds dimensions to a scale or shift, so
    that it can be multiplied with or added to `inputs`. `reduce(values, examples)` sums gradients over all positions of
    an example, and over its augmented copies, that share an entry of the scale or shift; the result is
    (examples, *shape of the scale).
    """

    normalise: Callable[[Tensor], Tensor]
    broadcast: Callable[[Tensor, Tensor], Tensor]
    reduce: Callable[[Tensor, int], Tensor]


def channel_norm(stack: Stack, layer: Any) -> Callable[[Tensor], Tensor]:
    """Return the replacement of the forward function of group or instance norm, which records its gradients.

    Each channel has one scale and one shift.
    """
    if isinstance(layer, nn.GroupNorm):

        def normalise(inputs: Tensor) -> Tensor:
            return F.group_norm(inputs, layer.num_groups, None, None, layer.eps)
    else:

        def normalise(inputs: Tensor) -> Tensor:
            return F.instance_norm(inputs, eps=layer.eps)

    def broadcast(values: Tensor, inputs: Tensor) -> Tensor:
        return values.view(*values.shape, *[1] * (inputs.ndim - 2))

    def reduce(values: Tensor, examples: int) -> Tensor:
        return sum_copies(values.flatten(2).sum(2) if values.ndim > 2 else values, examples)

    return _scale_and_shift(stack, layer, _Norm(normalise, broadcast, reduce))


def feature_norm(stack: Stack, layer: Any) -> Callable[[Tensor], Tensor]:
    """Return the replacement of the forward function of layer norm or RMS norm, which records its gradients.

    Each entry of the last dimensions has its own scale, and for layer norm its own shift.
    """
    shape = tuple(layer.normalized_shape)

    def normalise(inputs: Tensor) -> Tensor:
        if isinstance(layer, nn.LayerNorm):
            return F.layer_norm(inputs, shape, None, None, layer.eps)
        return F.rms_norm(inputs, shape, None, layer.eps)

    def broadcast(values: Tensor, inputs: Tensor) -> Tensor:
        return values.view(len(values), *[1] * (inputs.ndim - values.ndim), *shape)

    def reduce(values: Tensor, examples: int) -> Tensor:
        return values.reshape(examples, -1, *shape).sum(1)

    return _scale_and_shift(stack, layer, _Norm(normalise, broadcast, reduce))


def _scale_and_shift(stack: Stack, layer: Any, norm: _Norm) -> Callable[[Tensor], Tensor]:
    """Return the forward function `normalise(inputs) * weight + bias`, with the weight and bias of `layer`.

    The function also records how to compute their per-example gradients, except for a frozen weight or bias. A weight
    or bias that is None is left out.
    """
    weight_name, weight = stack.parameter(layer.weight)
    bias_name, bias = stack.parameter(getattr(layer, "bias", None))

    def spread(values: Tensor, inputs: Tensor) -> Tensor:
        if len(values) > 1:
            values = values.repeat_interleave(len(inputs) // len(values), 0)
        return norm.broadcast(values, inputs)

    def forward(inputs: Tensor) -> Tensor:
        check_batch_first(inputs, stack.examples)
        normalised = norm.normalise(inputs)
        output = normalised if weight is None else normalised * spread(weight, inputs)
        output = output if bias is None else output + spread(bias, inputs)
        recorded, examples = normalised.detach(), stack.examples

        def build(gradient: Tensor) -> list[tuple[str, PerExampleGradient]]:
            gradients: list[tuple[str, PerExampleGradient]] = []
            if weight_name is not None:
                per_example = norm.reduce((gradient * recorded).to(stack.dtype), examples)
                gradients.append((weight_name, Materialised(per_example)))
            if bias_name is not None:
                gradients.append((bias_name, Materialised(norm.reduce(gradient.to(stack.dtype), examples))))
            return gradients

        return stack.record(output, build)

    return forward
