"""Max pooling over 2 x 2 blocks by one GPU kernel, which needs less memory and time than PyTorch's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from privaware.kernels import elementwise
from privaware.kernels import pooling as pooling_kernels

__all__ = ["is_max_pool_2x2", "max_pool_2x2"]


def is_max_pool_2x2(layer: nn.Module) -> bool:
    """Return whether the layer is plain max pooling over adjacent blocks of 2 x 2."""
    return (
        type(layer) is nn.MaxPool2d
        and all(size in (2, (2, 2)) for size in (layer.kernel_size, layer.stride))
        and layer.padding in (0, (0, 0))
        and layer.dilation in (1, (1, 1))
        and not layer.ceil_mode
        and not layer.return_indices
    )


def max_pool_2x2(inputs: Tensor) -> Tensor:
    """Return the maxima of the 2 x 2 blocks of `inputs` (n, channels, height, width)."""
    if inputs.ndim == 4 and inputs.numel() and elementwise.fits(inputs):
        maxima: Tensor = _MaxPool2x2.apply(inputs)
        return maxima
    return F.max_pool2d(inputs, 2)


class _MaxPool2x2(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        maxima, argmax = pooling_kernels.max_pool_2x2(inputs.contiguous())
        ctx.shape = inputs.shape
        ctx.save_for_backward(argmax)
        output: Tensor = maxima
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        by_inputs = gradient.new_empty(ctx.shape)
        [argmax] = ctx.saved_tensors
        pooling_kernels.max_pool_2x2_backward(gradient.contiguous(), argmax, by_inputs)
        return by_inputs
