"""The rule of multi-head attention: its projections are linear maps, some of them slices of one parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from privaware.descent._stack import Stack

__all__ = ["attention", "has_rule"]


def has_rule(layer: nn.MultiheadAttention) -> bool:
    """Learnt extra keys and values have no rule; the general way handles them."""
    return layer.bias_k is None and layer.bias_v is None and not layer.add_zero_attn


def attention(stack: Stack, layer: nn.MultiheadAttention) -> Callable[..., Any]:
    """Scaled dot products between projected queries, keys and values."""
    from privaware.descent._layers import recorded_linear

    project = _projections(stack, layer)
    out_weight = stack.of(layer.out_proj.weight)
    out_bias = stack.of(layer.out_proj.bias)

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
        given = (query, key, value)
        if not layer.batch_first:
            given = tuple(item.transpose(0, 1) for item in given)  # type: ignore[assignment]
        heads = layer.num_heads
        q, k, v = (_heads(make(item), heads) for make, item in zip(project, given, strict=True))
        scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
        scores = _masked(scores, attn_mask, key_padding_mask)
        weights = scores.softmax(3)
        kept = nn.functional.dropout(weights, layer.dropout, layer.training)
        mixed = (kept @ v).transpose(1, 2).flatten(2)
        output = recorded_linear(stack, mixed, out_weight, out_bias)
        output = output if layer.batch_first else output.transpose(0, 1)
        if not need_weights:
            return output, None
        return output, weights.mean(1) if average_attn_weights else weights

    return forward


def _projections(stack: Stack, layer: nn.MultiheadAttention) -> list[Callable[[Tensor], Tensor]]:
    from privaware.descent._layers import recorded_linear

    width = layer.embed_dim
    bias_name, bias = stack.of(layer.in_proj_bias)
    made: list[Callable[[Tensor], Tensor]] = []
    for at, name in enumerate(("q_proj_weight", "k_proj_weight", "v_proj_weight")):
        part = slice(at * width, (at + 1) * width)
        whole = layer.in_proj_weight is not None
        weight_name, weight = stack.of(layer.in_proj_weight if whole else getattr(layer, name))
        assert weight is not None
        own = weight[:, part] if whole else weight
        shift = None if bias is None else bias[:, part]

        def make(
            inputs: Tensor,
            own: Any = (weight_name, own),
            shift: Any = (bias_name, shift),
            at: slice | None = part if whole else None,
            bias_at: slice = part,
        ) -> Tensor:
            return recorded_linear(stack, inputs, own, shift, at, bias_at)

        made.append(make)
    return made


def _heads(values: Tensor, heads: int) -> Tensor:
    """(rows, time, width) as (rows, heads, time, width / heads)."""
    return values.view(*values.shape[:2], heads, -1).transpose(1, 2)


def _masked(scores: Tensor, attn_mask: Tensor | None, padding: Tensor | None) -> Tensor:
    """Scores with minus infinity (or a given addition) where a mask says so."""
    rows, heads, *_ = scores.shape
    if attn_mask is not None:
        if attn_mask.ndim == 3:
            attn_mask = attn_mask.view(rows, heads, *attn_mask.shape[1:])
        scores = _apply(scores, attn_mask)
    if padding is not None:
        scores = _apply(scores, padding[:, None, None])
    return scores


def _apply(scores: Tensor, mask: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return scores.masked_fill(mask, float("-inf"))
    return scores + mask
