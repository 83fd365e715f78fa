"""Synthetic examples: only the shapes and types of the data are used, so they have no privacy cost."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["synthetic", "synthetic_inputs"]


def synthetic(like: Tensor, seed: int, examples: int) -> Tensor:
    """Numbers in [0, 1], or 0 and 1 for whole numbers, of the shape and type of `like`.

    >>> synthetic(torch.zeros(100, 2), seed=0, examples=3).shape
    torch.Size([3, 2])
    """
    generator = torch.Generator().manual_seed(2**31 + seed)
    shape = (examples, *like.shape[1:])
    if like.is_floating_point():
        return torch.rand(shape, generator=generator, dtype=torch.float64).to(like)
    return torch.randint(2, shape, generator=generator).to(like)


def synthetic_inputs(inputs: Sequence[Tensor], examples: int, draw: int = 0) -> tuple[Tensor, ...]:
    """Synthetic examples for each input of a module; another `draw` gives others."""
    return tuple(synthetic(item, seed, examples) for seed, item in enumerate(inputs, draw * len(inputs)))
