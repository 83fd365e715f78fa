"""The rules of normalisations within a row, and of embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from privaware.descent._shares import Rows, Tokens

if TYPE_CHECKING:
    from privaware.descent._stack import Stack

__all__ = ["channels", "embedding", "features"]


def channels(stack: Stack, layer: Any) -> Callable[[Tensor], Tensor]:
    """Group and instance norm: one scale and one shift for each channel."""
    if isinstance(layer, nn.GroupNorm):

        def normalise(inputs: Tensor) -> Tensor:
            return F.group_norm(inputs, layer.num_groups, None, None, layer.eps)
    else:

        def normalise(inputs: Tensor) -> Tensor:
            return F.instance_norm(inputs, eps=layer.eps)

    def fitted(values: Tensor, inputs: Tensor) -> Tensor:
        return values.view(*values.shape, *[1] * (inputs.ndim - 2))

    def reduced(values: Tensor, rows: int) -> Tensor:
        each = values.flatten(2).sum(2) if values.ndim > 2 else values
        return each if len(each) == rows else each.view(rows, -1, each.shape[1]).sum(1)

    return _scaled(stack, layer, normalise, fitted, reduced)


def features(stack: Stack, layer: Any) -> Callable[[Tensor], Tensor]:
    """Layer norm and root-mean-square norm: one scale (and shift) for each of the last dimensions' entries."""
    shape = tuple(layer.normalized_shape)

    def normalise(inputs: Tensor) -> Tensor:
        if isinstance(layer, nn.LayerNorm):
            return F.layer_norm(inputs, shape, None, None, layer.eps)
        return F.rms_norm(inputs, shape, None, layer.eps)

    def fitted(values: Tensor, inputs: Tensor) -> Tensor:
        return values.view(len(values), *[1] * (inputs.ndim - values.ndim), *shape)

    def reduced(values: Tensor, rows: int) -> Tensor:
        return values.reshape(rows, -1, *shape).sum(1)

    return _scaled(stack, layer, normalise, fitted, reduced)


def _scaled(
    stack: Stack,
    layer: Any,
    normalise: Callable[[Tensor], Tensor],
    fitted: Callable[[Tensor, Tensor], Tensor],
    reduced: Callable[[Tensor, int], Tensor],
) -> Callable[[Tensor], Tensor]:
    """normalise(inputs) * weight + bias, recorded."""
    from privaware.descent._layers import rows_first

    weight_name, weight = stack.of(layer.weight)
    bias_name, bias = stack.of(getattr(layer, "bias", None))

    def spread(values: Tensor, inputs: Tensor) -> Tensor:
        if len(values) > 1:
            values = values.repeat_interleave(len(inputs) // len(values), 0)
        return fitted(values, inputs)

    def forward(inputs: Tensor) -> Tensor:
        rows_first(inputs, stack.rows)
        plain = normalise(inputs)
        output = plain if weight is None else plain * spread(weight, inputs)
        output = output if bias is None else output + spread(bias, inputs)
        kept, rows = plain.detach(), stack.rows

        def make(gradient: Tensor) -> list[tuple[str, Any]]:
            shares = []
            if weight_name is not None:
                shares.append((weight_name, Rows(reduced((gradient * kept).to(stack.dtype), rows))))
            if bias_name is not None:
                shares.append((bias_name, Rows(reduced(gradient.to(stack.dtype), rows))))
            return shares

        return stack.record(output, make)

    return forward


def embedding(stack: Stack, layer: nn.Embedding) -> Callable[[Tensor], Tensor]:
    """A table looked up by whole numbers."""
    from privaware.descent._layers import rows_first

    name, table = stack.of(layer.weight)
    assert table is not None
    models, entries, width = table.shape
    padding = layer.padding_idx

    def forward(codes: Tensor) -> Tensor:
        rows_first(codes, stack.rows)
        if models == 1:
            output = F.embedding(codes, table[0])
        else:
            shift = entries * torch.arange(models, device=codes.device)
            shift = shift.repeat_interleave(len(codes) // models)
            moved = codes + shift.view(-1, *[1] * (codes.ndim - 1))
            output = F.embedding(moved, table.reshape(-1, width))
        kept, rows = codes.reshape(stack.rows, -1), stack.rows

        def make(gradient: Tensor) -> list[tuple[str, Any]]:
            assert name is not None
            each = gradient.reshape(rows, -1, width).to(stack.dtype)
            if padding is not None:
                each = each.masked_fill((kept == padding)[:, :, None], 0)
            return [(name, Tokens(kept, each, (entries, width)))]

        return output if name is None else stack.record(output, make)

    return forward
