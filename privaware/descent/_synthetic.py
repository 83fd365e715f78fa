"""Make synthetic examples from the shapes and types of the data only, without privacy cost."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["synthetic", "synthetic_inputs"]


def synthetic(like: Tensor, seed: int, examples: int) -> Tensor:
    """Return random numbers of the type and example shape of `like`: floats in [0, 1], or integers 0 and 1.

    >>> synthetic(torch.zeros(100, 2), seed=0, examples=3).shape
    torch.Size([3, 2])
    """
    generator = torch.Generator().manual_seed(2**31 + seed)
    shape = (examples, *like.shape[1:])
    if like.is_floating_point():
        return torch.rand(shape, generator=generator, dtype=torch.float64).to(like)
    return torch.randint(2, shape, generator=generator).to(like)


def synthetic_inputs(inputs: Sequence[Tensor], examples: int, draw: int = 0) -> tuple[Tensor, ...]:
    """Return synthetic examples for each input of a module; each `draw` gives other examples."""
    return tuple(synthetic(item, seed, examples) for seed, item in enumerate(inputs, draw * len(inputs)))
