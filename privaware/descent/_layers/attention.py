"""The layer rule of multi-head attention. Its projections are linear maps, and may be slices of one parameter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from privaware.descent._layers.dropout import dropped
from privaware.descent._layers.linear import Affine, affine
from privaware.descent._stack import Stack


def has_rule(layer: nn.MultiheadAttention) -> bool:
    """Return whether the layer rule applies: the layer has no `bias_k`, no `bias_v` and no `add_zero_attn`.

    Any other layer is handled by the fallback, `torch.func.vmap`.
    """
    return layer.bias_k is None and layer.bias_v is None and not layer.add_zero_attn


def attention(stack: Stack, layer: nn.MultiheadAttention) -> Callable[..., Any]:
    """Return the replacement of the forward function of an attention layer, which records its per-example gradients.

    It takes the same arguments and returns the same results as the layer's own function. Inputs must have a batch
    dimension.
    """
    projections = _projections(stack, layer)
    output_projection = Affine(stack.parameter(layer.out_proj.weight), stack.parameter(layer.out_proj.bias))

    def forward(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        inputs = (query, key, value)
        if not layer.batch_first:
            inputs = tuple(item.transpose(0, 1) for item in inputs)  # type: ignore[assignment]
        heads = layer.num_heads
        q, k, v = (_heads(project(item), heads) for project, item in zip(projections, inputs, strict=True))
        scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
        scores = _masked(scores, attn_mask, key_padding_mask)
        weights = scores.softmax(3)
        mixed = (dropped(stack, weights, layer.dropout, layer.training) @ v).transpose(1, 2).flatten(2)
        output = affine(stack, mixed, output_projection)
        output = output if layer.batch_first else output.transpose(0, 1)
        if not need_weights:
            return output, None
        return output, weights.mean(1) if average_attn_weights else weights

    return forward


def _projections(stack: Stack, layer: nn.MultiheadAttention) -> list[Callable[[Tensor], Tensor]]:
    width = layer.embed_dim
    bias_name, bias = stack.parameter(layer.in_proj_bias)
    joint = layer.in_proj_weight is not None
    projections: list[Callable[[Tensor], Tensor]] = []
    for at, name in enumerate(("q_proj_weight", "k_proj_weight", "v_proj_weight")):
        part = slice(at * width, (at + 1) * width)
        weight_name, weight = stack.parameter(layer.in_proj_weight if joint else getattr(layer, name))
        assert weight is not None
        parameters = Affine(
            weight=(weight_name, weight[:, part] if joint else weight),
            bias=(bias_name, None if bias is None else bias[:, part]),
            weight_part=part if joint else None,
            bias_part=part,
        )
        projections.append(partial(affine, stack, parameters=parameters))
    return projections


def _heads(values: Tensor, heads: int) -> Tensor:
    """Return `values` (examples, time, width) as (examples, heads, time, width / heads)."""
    return values.view(*values.shape[:2], heads, -1).transpose(1, 2)


def _masked(scores: Tensor, attn_mask: Tensor | None, padding: Tensor | None) -> Tensor:
    """Return `scores` with masks applied: True in a boolean mask sets a score to minus infinity; a float mask is added.

    `scores` are (examples, heads, queries, keys). `attn_mask` is (queries, keys), or (examples x heads, queries, keys).
    `padding` (examples, keys) masks keys. A mask that is None is not applied.
    """
    examples, heads, *_ = scores.shape
    if attn_mask is not None:
        if attn_mask.ndim == 3:
            attn_mask = attn_mask.view(examples, heads, *attn_mask.shape[1:])
        scores = _apply(scores, attn_mask)
    if padding is not None:
        scores = _apply(scores, padding[:, None, None])
    return scores


def _apply(scores: Tensor, mask: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return scores.masked_fill(mask, float("-inf"))
    return scores + mask
