"""The rule of embeddings."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from privaware.descent._layers.rule import check_batch_first
from privaware.descent._per_example import EmbeddingGradient, PerExampleGradient
from privaware.descent._stack import Stack

__all__ = ["embedding"]


def embedding(stack: Stack, layer: nn.Embedding) -> Callable[[Tensor], Tensor]:
    """A table looked up by whole numbers."""
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
