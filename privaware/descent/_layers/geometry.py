"""Describe how filters slide over inputs of one, two and three dimensions, and convolve several models at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from privaware.kernels import convolution as convolution_kernels
from privaware.kernels import elementwise
from privaware.kernels.convolution import Conv2dGeometry

CONVOLVE: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}

GROUPED_LIMIT = 2**28
"""Largest number of multiply-adds per model for one grouped convolution of all models, which is slower above it."""


class Geometry:
    """How the filters of a convolution slide: kernel size, stride, dilation, groups and padding.

    `layer` is a convolution of torch, whose settings are read. `padding` is the number of zeros, in each dimension,
    that the convolution itself adds on both sides. `padded` does any other padding before the convolution.
    """

    def __init__(self, layer: Any) -> None:
        self.kernel: tuple[int, ...] = layer.kernel_size
        self.stride: tuple[int, ...] = layer.stride
        self.dilation: tuple[int, ...] = layer.dilation
        self.groups: int = layer.groups
        self.both_sides: list[int] = list(layer._reversed_padding_repeated_twice)
        self.mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        even = self.both_sides[::2] == self.both_sides[1::2]
        self.pads_separately = self.mode != "constant" or not even
        none = (0,) * len(self.kernel)
        self.padding = none if self.pads_separately else tuple(reversed(self.both_sides[::2]))

    @classmethod
    def uniform(cls, kernel: Any, stride: int, padding: int) -> Geometry:
        """Return a geometry with the same stride and padding in every dimension, without dilation or groups.

        `kernel` is the size of a filter in each dimension. `padding` is the number of zeros on each side.
        """
        dimensions = len(kernel)
        layer = {
            "kernel_size": tuple(kernel),
            "stride": (stride,) * dimensions,
            "dilation": (1,) * dimensions,
            "groups": 1,
            "_reversed_padding_repeated_twice": [padding] * (2 * dimensions),
            "padding_mode": "zeros",
        }
        return cls(SimpleNamespace(**layer))

    def padded(self, inputs: Tensor) -> Tensor:
        """Return `inputs` with the padding that `apply` does not add, or `inputs` themselves if there is none.

        `apply` adds equal numbers of zeros on both sides. Any other padding is added here.
        """
        return F.pad(inputs, self.both_sides, mode=self.mode) if self.pads_separately else inputs

    def apply(self, inputs: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
        convolve = CONVOLVE[len(self.kernel)]
        return convolve(inputs, weight, bias, self.stride, self.padding, self.dilation, groups)

    def work(self, inputs: Tensor, weight: Tensor) -> int:
        """Return the approximate number of multiply-adds for one example of one model.

        `weight` is (models, out, in, *kernel). Only the shapes are used.
        """
        return weight[0].numel() * inputs.shape[2:].numel() // math.prod(self.stride)

    def output_size(self, inputs: Tensor) -> tuple[int, ...]:
        facts = (inputs.shape[2:], self.kernel, self.stride, self.padding, self.dilation)
        return tuple(
            (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, pad, dilation in zip(*facts, strict=True)
        )

    def input_gradient(self, gradient: Tensor, inputs: Tensor, weight: Tensor) -> Tensor:
        """Return the gradient with respect to `inputs`. Only the shape of `inputs` is used.

        `gradient` is the gradient with respect to the outputs, and `weight` (out, in, *kernel) has one model's filters.
        """
        none = (0,) * len(self.kernel)
        geometry = (self.stride, self.padding, self.dilation, False, none, self.groups)
        needed = [True, False, False]
        gradients: list[Tensor] = torch.ops.aten.convolution_backward(gradient, inputs, weight, None, *geometry, needed)
        return gradients[0]

    def for_kernel(self, inputs: Tensor, gradients: Tensor, copies: int) -> Conv2dGeometry | None:
        """Return the geometry for the GPU kernel of per-example gradients, or None if that kernel does not apply.

        `inputs` (n, channels, *positions) and `gradients`, with respect to the outputs, hold `copies` augmented copies
        of each example. The kernel handles one and two dimensions without groups, in float32 with TF32 products.
        """
        flat = self.groups == 1 and len(self.kernel) <= 2
        if not flat or not convolution_kernels.fits(inputs, gradients, copies):
            return None

        def pair(sizes: tuple[int, ...], fill: int) -> tuple[int, int]:
            return (sizes[0] if len(sizes) == 2 else fill, sizes[-1])

        padding = pair(self.padding, 0)
        kernel, stride, dilation = (pair(sizes, 1) for sizes in (self.kernel, self.stride, self.dilation))
        return Conv2dGeometry(kernel, stride, padding, dilation)

    def depthwise_gradients(self, inputs: Tensor, gradients: Tensor) -> Tensor:
        """Return gradients (n, channels, kernel entries) with respect to the weights of a depthwise convolution.

        There is one gradient for each of the n `inputs` (n, channels, *positions), which have the padding of `padded`
        already. `gradients` are with respect to the outputs. Each kernel entry takes an elementwise product and a sum,
        which is faster than matrix products of such shapes.
        """
        if len(self.kernel) == 2 and elementwise.fits(inputs, gradients):
            geometry = (self.kernel, self.stride, self.padding, self.dilation)
            return elementwise.depthwise_gradients(inputs.contiguous(), gradients.contiguous(), *geometry)
        if any(self.padding):
            inputs = F.pad(inputs, [side for pad in reversed(self.padding) for side in (pad, pad)])
        by_taps = gradients.new_empty(*gradients.shape[:2], math.prod(self.kernel))
        sizes = gradients.shape[2:]
        for at, tap in enumerate(itertools.product(*map(range, self.kernel))):
            starts = [index * dilation for index, dilation in zip(tap, self.dilation, strict=True)]
            ends = zip(starts, sizes, self.stride, strict=True)
            window: list[Any] = [...]
            window += [slice(start, start + (size - 1) * step + 1, step) for start, size, step in ends]
            by_taps[:, :, at] = (inputs[tuple(window)] * gradients).flatten(2).sum(2)
        return by_taps

    def columns(self, inputs: Tensor, output_size: tuple[int, ...], positions_first: bool = False) -> Tensor:
        """Return the unfolded inputs (n, channels * kernel, positions), or (n, positions, channels * kernel).

        The second form is returned with `positions_first`. A position is a place of the output, and its entries are the
        inputs that it depends on. `output_size` is the number of positions in each dimension. `inputs` must have the
        padding of `padded` already.
        """
        if any(self.padding):
            inputs = F.pad(inputs, [side for pad in reversed(self.padding) for side in (pad, pad)])
        example, channel, *space = inputs.stride()
        taps = [s * d for s, d in zip(space, self.dilation, strict=True)]
        moves = [s * d for s, d in zip(space, self.stride, strict=True)]
        count, positions = len(inputs), math.prod(output_size)
        column, position = ((inputs.shape[1], *self.kernel), (channel, *taps)), (output_size, moves)
        outer, inner = (position, column) if positions_first else (column, position)
        windows = inputs.as_strided((count, *outer[0], *inner[0]), (example, *outer[1], *inner[1]))
        return windows.reshape(count, positions, -1) if positions_first else windows.reshape(count, -1, positions)


def convolve(inputs: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
    """Return the inputs of each model convolved with the model's own `weight` and `bias`.

    `inputs` hold all examples of model 0 first, then all examples of model 1, and so on. The first dimension of
    `weight` and `bias` is models, or 1 if all models have the same values.

    A GPU uses one grouped convolution, unless a model has more than `GROUPED_LIMIT` multiply-adds or the inputs have
    one channel only; then it convolves the models one after another, as a CPU always does.
    """
    models = max(len(weight), 1 if bias is None else len(bias))
    if models == 1:
        return geometry.apply(inputs, weight[0], None if bias is None else bias[0], geometry.groups)
    weight = weight.expand(models, *weight.shape[1:])
    bias = None if bias is None else bias.expand(models, -1)
    examples = len(inputs) // models
    limit = GROUPED_LIMIT if inputs.shape[1] > 1 else 0
    if inputs.device.type == "cpu" or examples * geometry.work(inputs, weight) > limit:
        biases = [None] * models if bias is None else bias.unbind()
        by_model = zip(inputs.chunk(models), weight.unbind(), biases, strict=True)
        return torch.cat([geometry.apply(*one, geometry.groups) for one in by_model])
    wide = inputs.view(models, examples, *inputs.shape[1:]).transpose(0, 1).flatten(1, 2)
    grouped = geometry.apply(
        wide, weight.flatten(0, 1), None if bias is None else bias.flatten(), models * geometry.groups
    )
    separate = grouped.view(examples, models, -1, *grouped.shape[2:]).transpose(0, 1)
    return separate.reshape(len(inputs), *separate.shape[2:])
