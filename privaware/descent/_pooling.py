"""Maxima of 2 x 2 blocks as single kernels on a GPU: PyTorch's keep eight bytes for each and take longer back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from privaware.kernels import elementwise
from privaware.kernels import pooling as pooling_kernels

__all__ = ["halves", "pooling"]


def halves(layer: nn.Module) -> bool:
    """Whether the layer takes the maxima of blocks of 2 x 2, side by side, and nothing else."""
    return (
        type(layer) is nn.MaxPool2d
        and all(size in (2, (2, 2)) for size in (layer.kernel_size, layer.stride))
        and layer.padding in (0, (0, 0))
        and layer.dilation in (1, (1, 1))
        and not layer.ceil_mode
        and not layer.return_indices
    )


def pooling(inputs: Tensor) -> Tensor:
    """The maxima of the blocks of (n, channels, height, width)."""
    if inputs.ndim == 4 and inputs.numel() and elementwise.fits(inputs):
        made: Tensor = _Halved.apply(inputs)
        return made
    return F.max_pool2d(inputs, 2)


class _Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        found, index = pooling_kernels.halved(inputs.contiguous())
        ctx.shape = inputs.shape
        ctx.save_for_backward(index)
        made: Tensor = found
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        back = gradient.new_empty(ctx.shape)
        [index] = ctx.saved_tensors
        pooling_kernels.halved_back(gradient.contiguous(), index, back)
        return back
