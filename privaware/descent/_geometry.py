"""How convolutions slide, in one, two and three dimensions, and populations of them."""

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
from privaware.kernels.convolution import Slide

__all__ = ["Geometry", "convolve"]

CONVOLVE: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}

APART = 2**28
"""Multiply-adds of one model above which models are convolved one after the other: cuDNN's grouped kernels are slower
by more than launches cost, those of one channel always."""


class Geometry:
    """How a convolution slides: everything but its weights. Padding is zeros on both sides alike."""

    def __init__(self, layer: Any) -> None:
        self.kernel: tuple[int, ...] = layer.kernel_size
        self.stride: tuple[int, ...] = layer.stride
        self.dilation: tuple[int, ...] = layer.dilation
        self.groups: int = layer.groups
        self.beside: list[int] = list(layer._reversed_padding_repeated_twice)
        self.mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        even = self.beside[::2] == self.beside[1::2]
        self.apart = self.mode != "constant" or not even
        self.padding = (0,) * len(self.kernel) if self.apart else tuple(reversed(self.beside[::2]))

    @classmethod
    def of(cls, kernel: Any, stride: int, padding: int) -> Geometry:
        """A plain geometry: the same stride and padding in every direction."""
        many = len(kernel)
        facts = {
            "kernel_size": tuple(kernel),
            "stride": (stride,) * many,
            "dilation": (1,) * many,
            "groups": 1,
            "_reversed_padding_repeated_twice": [padding] * (2 * many),
            "padding_mode": "zeros",
        }
        return cls(SimpleNamespace(**facts))

    def prepared(self, inputs: Tensor) -> Tensor:
        """The inputs with what padding the convolution itself cannot do."""
        return F.pad(inputs, self.beside, mode=self.mode) if self.apart else inputs

    def apply(self, inputs: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
        convolve = CONVOLVE[len(self.kernel)]
        return convolve(inputs, weight, bias, self.stride, self.padding, self.dilation, groups)

    def work(self, inputs: Tensor, weight: Tensor) -> int:
        """Multiply-adds of one row, not counting what lies beyond the edges."""
        return weight[0].numel() * inputs.shape[2:].numel() // math.prod(self.stride)

    def places(self, inputs: Tensor) -> tuple[int, ...]:
        """The size of what comes out."""
        facts = (inputs.shape[2:], self.kernel, self.stride, self.padding, self.dilation)
        return tuple(
            (size + 2 * pad - far * (kernel - 1) - 1) // step + 1
            for size, kernel, step, pad, far in zip(*facts, strict=True)
        )

    def weight_gradient(self, gradient: Tensor, inputs: Tensor, like: Tensor) -> Tensor:
        """The gradient by the weights, summed over all inputs."""
        return self._back(gradient, inputs, like, [False, True, False])[1]

    def input_gradient(self, gradient: Tensor, inputs: Tensor, weight: Tensor) -> Tensor:
        """The gradient by the inputs, of which only the shape is looked at."""
        return self._back(gradient, inputs, weight, [True, False, False])[0]

    def _back(self, gradient: Tensor, inputs: Tensor, weight: Tensor, wanted: list[bool]) -> list[Tensor]:
        none = (0,) * len(self.kernel)
        how = (self.stride, self.padding, self.dilation, False, none, self.groups)
        found: list[Tensor] = torch.ops.aten.convolution_backward(gradient, inputs, weight, None, *how, wanted)
        return found

    def slide(self, inputs: Tensor, gradients: Tensor, copies: int) -> Slide | None:
        """How the filters slide in two dimensions, where each row's gradient by them is one kernel."""
        flat = self.groups == 1 and len(self.kernel) <= 2
        if not flat or not convolution_kernels.fits(inputs, gradients, copies):
            return None

        def pair(part: tuple[int, ...], fill: int) -> tuple[int, int]:
            return (part[0] if len(part) == 2 else fill, part[-1])

        sizes, padding = (self.kernel, self.stride, self.dilation), pair(self.padding, 0)
        kernel, stride, dilation = (pair(part, 1) for part in sizes)
        return Slide(kernel, stride, padding, dilation)

    def apart_gradients(self, inputs: Tensor, gradients: Tensor) -> Tensor:
        """(n, channels, kernel): each input's gradient by the weights where every channel is convolved on its own.

        A product and a sum for each place of the kernel: matrix products of such shapes take up to twice as long.
        """
        if len(self.kernel) == 2 and elementwise.fits(inputs, gradients):
            slide = (self.kernel, self.stride, self.padding, self.dilation)
            return elementwise.apart_gradients(inputs.contiguous(), gradients.contiguous(), *slide)
        if any(self.padding):
            inputs = F.pad(inputs, [side for pad in reversed(self.padding) for side in (pad, pad)])
        made = gradients.new_empty(*gradients.shape[:2], math.prod(self.kernel))
        sizes = gradients.shape[2:]
        for at, place in enumerate(itertools.product(*map(range, self.kernel))):
            starts = [spot * wide for spot, wide in zip(place, self.dilation, strict=True)]
            ends = zip(starts, sizes, self.stride, strict=True)
            seen: list[Any] = [...]
            seen += [slice(start, start + (size - 1) * step + 1, step) for start, size, step in ends]
            made[:, :, at] = (inputs[tuple(seen)] * gradients).flatten(2).sum(2)
        return made

    def columns(self, inputs: Tensor, places: tuple[int, ...], first: bool = False) -> Tensor:
        """(n, channels x kernel, places): what each place of the output saw; or the places `first`."""
        if any(self.padding):
            inputs = F.pad(inputs, [side for pad in reversed(self.padding) for side in (pad, pad)])
        row, channel, *space = inputs.stride()
        steps = [s * d for s, d in zip(space, self.dilation, strict=True)]
        jumps = [s * d for s, d in zip(space, self.stride, strict=True)]
        many, count = len(inputs), math.prod(places)
        inside, beyond = ((inputs.shape[1], *self.kernel), (channel, *steps)), (places, jumps)
        outer, inner = (beyond, inside) if first else (inside, beyond)
        seen = inputs.as_strided((many, *outer[0], *inner[0]), (row, *outer[1], *inner[1]))
        return seen.reshape(many, count, -1) if first else seen.reshape(many, -1, count)


def convolve(inputs: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
    """A convolution with each model's own parameters."""
    models = max(len(weight), 1 if bias is None else len(bias))
    if models == 1:
        return geometry.apply(inputs, weight[0], None if bias is None else bias[0], geometry.groups)
    weight = weight.expand(models, *weight.shape[1:])
    bias = None if bias is None else bias.expand(models, -1)
    each = len(inputs) // models
    most = APART if inputs.shape[1] > 1 else 0
    if inputs.device.type == "cpu" or each * geometry.work(inputs, weight) > most:
        biases = [None] * models if bias is None else bias.unbind()
        parts = zip(inputs.chunk(models), weight.unbind(), biases, strict=True)
        return torch.cat([geometry.apply(*part, geometry.groups) for part in parts])
    wide = inputs.view(models, each, *inputs.shape[1:]).transpose(0, 1).flatten(1, 2)
    joined = geometry.apply(
        wide, weight.flatten(0, 1), None if bias is None else bias.flatten(), models * geometry.groups
    )
    apart = joined.view(each, models, -1, *joined.shape[2:]).transpose(0, 1)
    return apart.reshape(len(inputs), *apart.shape[2:])
