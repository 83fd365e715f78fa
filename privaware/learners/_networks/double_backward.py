"""Convolutions and average pools whose gradients a GPU differentiates faster than PyTorch's own.

Gradient matching differentiates gradients. For a convolution, PyTorch then also computes the derivative with respect to
the weight, even if nobody asked for it, as a slow convolution with filters as large as the images. PyTorch's backward
pass of an average pool is slow, too.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv2d_weight


def speed_up_double_backward(network: nn.Module) -> None:
    """Replace the forward functions of convolutions and average pools in `network`, in place.

    Outputs stay the same, and gradients up to rounding. Convolutions must pad with a given number of zeros, and the
    squares of pools must be adjacent and without padding; other layers are not changed.
    """
    for layer in network.modules():
        if type(layer) is nn.Conv2d and layer.padding_mode == "zeros" and not isinstance(layer.padding, str):
            layer.forward = partial(_convolved, layer)  # type: ignore[method-assign]
        elif type(layer) is nn.AvgPool2d and _adjacent(layer):
            layer.forward = partial(_pooled, layer)  # type: ignore[method-assign]


def _adjacent(pool: nn.AvgPool2d) -> bool:
    plain = not pool.padding and not pool.ceil_mode and pool.divisor_override is None
    return plain and isinstance(pool.kernel_size, int) and pool.stride == pool.kernel_size


def _convolved(layer: nn.Conv2d, inputs: Tensor) -> Tensor:
    outputs: Tensor = _Convolution.apply(inputs, layer.weight, layer)
    return outputs if layer.bias is None else outputs + layer.bias[:, None, None]


def _pooled(pool: nn.AvgPool2d, inputs: Tensor) -> Tensor:
    outputs: Tensor = _AveragePool.apply(inputs, pool.kernel_size)
    return outputs


class _Convolution(torch.autograd.Function):
    """The convolution of `layer` without its bias."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, layer: nn.Conv2d) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.layer = layer
        return functional.conv2d(inputs, weight, None, layer.stride, layer.padding, layer.dilation, layer.groups)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (inputs, weight), layer = ctx.saved_tensors, ctx.layer
        stride, padding, dilation, groups = layer.stride, layer.padding, layer.dilation, layer.groups
        to_inputs = to_weight = None
        if ctx.needs_input_grad[0]:
            unused = [
                inputs.shape[2 + at]
                + 2 * padding[at]
                - dilation[at] * (weight.shape[2 + at] - 1)
                - 1
                - (gradient.shape[2 + at] - 1) * stride[at]
                for at in range(2)
            ]  # number of last pixels that no filter reaches
            to_inputs = functional.conv_transpose2d(gradient, weight, None, stride, padding, unused, groups, dilation)
        if ctx.needs_input_grad[1]:
            to_weight = conv2d_weight(inputs, weight.shape, gradient, stride, padding, dilation, groups)
        return to_inputs, to_weight, None


class _AveragePool(torch.autograd.Function):
    """The mean of adjacent squares of `side` x `side` pixels."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, side: int) -> Tensor:
        ctx.side, ctx.shape = side, inputs.shape
        return functional.avg_pool2d(inputs, side)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        pixels = functional.interpolate(gradient / ctx.side**2, scale_factor=ctx.side, mode="nearest-exact")
        below, right = (size - used for size, used in zip(ctx.shape[-2:], pixels.shape[-2:], strict=True))
        return functional.pad(pixels, (0, right, 0, below)), None
