"""The rule of convolutions in one, two and three dimensions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from privaware import _kernels
from privaware.descent._shares import (
    Rows,
    add_weighted,
    keep_rows,
    room,
    square_sums,
    zero_own_rows,
)

if TYPE_CHECKING:
    from privaware.descent._stack import Stack

__all__ = ["Convolved", "Geometry", "convolution", "convolve", "sum_copies"]

CONVOLVE: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


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

    def weight_gradient(self, gradient: Tensor, inputs: Tensor, like: Tensor) -> Tensor:
        """The gradient by the weights, summed over all inputs."""
        none = (0,) * len(self.kernel)
        found: Tensor = torch.ops.aten.convolution_backward(
            gradient,
            inputs,
            like,
            None,
            self.stride,
            self.padding,
            self.dilation,
            False,
            none,
            self.groups,
            [False, True, False],
        )[1]
        return found

    def apart_gradients(self, inputs: Tensor, gradients: Tensor) -> Tensor:
        """(n, channels, kernel): each input's gradient by the weights where every channel is convolved on its own.

        A product and a sum for each place of the kernel: matrix products of such shapes take up to twice as long.
        """
        if len(self.kernel) == 2 and _kernels.fits(inputs, gradients):
            slide = (self.kernel, self.stride, self.padding, self.dilation)
            return _kernels.apart_gradients(inputs.contiguous(), gradients.contiguous(), *slide)
        if any(self.padding):
            inputs = F.pad(inputs, [side for pad in reversed(self.padding) for side in (pad, pad)])
        made = gradients.new_empty(*gradients.shape[:2], math.prod(self.kernel))
        sizes = gradients.shape[2:]
        for at, place in enumerate(itertools.product(*map(range, self.kernel))):
            starts = [spot * wide for spot, wide in zip(place, self.dilation, strict=True)]
            ends = zip(starts, sizes, self.stride, strict=True)
            seen: list[Any] = [...]
            seen += [
                slice(start, start + (size - 1) * step + 1, step) for start, size, step in ends
            ]
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


class Convolved:
    """What sliding a kernel adds; the cheaper of materialised and Gram norms, by counting operations."""

    at = None

    def __init__(
        self, inputs: Tensor, gradients: Tensor, geometry: Geometry, weight: Tensor, rows: int
    ) -> None:
        self.inputs, self.gradients, self.geometry = inputs, gradients, geometry
        self.weight, self.count = weight, rows
        self.kept: Tensor | None = None

    def squares(self) -> Tensor:
        places = self.gradients.shape[2:].numel() * (len(self.inputs) // self.count)
        size = self.weight[0].numel()
        height = self.weight.shape[1]
        ghost = 2 * places * (height + size // height) * self.geometry.groups < size
        if not ghost and self.count * size <= room(self.inputs.device):
            self.kept = self.rows()
            return square_sums(self.kept)
        most = places * places * 2 if ghost else size
        return self._chunked(max(1, room(self.inputs.device) // most), ghost)

    def part(self, start: int, stop: int) -> Convolved:
        """The same for some of the rows."""
        copies = len(self.inputs) // self.count
        rows = slice(start * copies, stop * copies)
        given = (self.inputs[rows], self.gradients[rows], self.geometry, self.weight)
        return Convolved(*given, stop - start)

    def _chunked(self, each: int, ghost: bool) -> Tensor:
        out = []
        for start in range(0, self.count, each):
            one = self.part(start, min(start + each, self.count))
            out.append(one._from_grams() if ghost else square_sums(one.rows()))
        return torch.cat(out)

    def _pairs(self) -> tuple[Tensor, Tensor]:
        """Columns (rows x groups, in, places) and gradients (rows x groups, out, places)."""
        groups = self.geometry.groups
        columns = self.geometry.columns(self.inputs, tuple(self.gradients.shape[2:]))
        split = [
            t.reshape(len(self.inputs), groups, -1, columns.shape[2])
            for t in (columns, self.gradients)
        ]
        copies = len(self.inputs) // self.count
        if copies > 1:
            split = [
                t.view(self.count, copies, *t.shape[1:]).permute(0, 2, 3, 1, 4).flatten(3)
                for t in split
            ]
        first, second = (t.reshape(self.count * groups, t.shape[2], -1) for t in split)
        return first, second

    def _from_grams(self) -> Tensor:
        columns, gradients = self._pairs()
        left = torch.bmm(columns.transpose(1, 2), columns)
        right = torch.bmm(gradients.transpose(1, 2), gradients)
        slack = (square_sums(left) * square_sums(right)).sqrt() * torch.finfo(left.dtype).eps
        return ((left * right).sum((1, 2)) + slack).clamp_min_(0).view(self.count, -1).sum(1)

    def rows(self) -> Tensor:
        if self.kept is not None:
            return self.kept
        plain = self.geometry.groups == 1 and len(self.inputs) == self.count
        if self.geometry.groups == self.inputs.shape[1] == self.gradients.shape[1] > 1:
            made = sum_copies(
                self.geometry.apart_gradients(self.inputs, self.gradients), self.count
            )
        elif (
            plain and self.inputs.device.type == "cpu"
        ):  # there a transposed factor costs several times as much
            places = tuple(self.gradients.shape[2:])
            columns = self.geometry.columns(self.inputs, places, first=True)
            made = torch.bmm(self.gradients.flatten(2), columns)
        else:
            columns, gradients = self._pairs()
            made = torch.bmm(gradients, columns.transpose(1, 2))
        return made.view(self.count, *self.weight.shape[1:])

    def add(self, weights: Tensor, out: Tensor) -> None:
        if self.kept is not None:
            add_weighted(weights, self.kept, out)
            return
        copies = len(self.inputs) // self.count
        spread = weights.repeat_interleave(copies) if copies > 1 else weights
        scaled = self.gradients * spread.view(-1, *[1] * (self.gradients.ndim - 1))
        models = len(out)
        pairs = zip(scaled.chunk(models), self.inputs.chunk(models), out, strict=True)
        for gradient, inputs, place in pairs:
            place.add_(self.geometry.weight_gradient(gradient, inputs, self.weight[0]))

    def clean(self, good: Tensor) -> None:
        if self.kept is not None:
            self.kept = zero_own_rows(self.kept, good)
            return
        copies = len(self.inputs) // self.count
        spread = good.repeat_interleave(copies) if copies > 1 else good
        self.inputs = keep_rows(self.inputs, spread)
        self.gradients = keep_rows(self.gradients, spread)


def convolution(stack: Stack, layer: Any) -> Callable[[Tensor], Tensor]:
    """Convolutions with any stride, padding, dilation and groups."""
    from privaware.descent._layers import rows_first, unchanged

    geometry = Geometry(layer)
    weight_name, weight = stack.of(layer.weight)
    bias_name, bias = stack.of(layer.bias)
    assert weight is not None

    def forward(inputs: Tensor) -> Tensor:
        inputs = geometry.prepared(inputs)
        output = convolve(inputs, weight, bias, geometry)
        version, kept, rows = inputs._version, inputs.detach(), stack.rows

        def make(gradient: Tensor) -> list[tuple[str, Any]]:
            unchanged(inputs, version)
            gradient = gradient.to(stack.dtype)
            shares: list[tuple[str, Any]] = []
            if weight_name is not None:
                share = Convolved(kept.to(stack.dtype), gradient, geometry, weight, rows)
                shares.append((weight_name, share))
            if bias_name is not None:
                places = gradient.flatten(2).sum(2)
                shares.append((bias_name, Rows(sum_copies(places, rows))))
            return shares

        if weight_name is None and bias_name is None:
            return output
        rows_first(output, rows)
        return stack.record(output, make)

    return forward


def sum_copies(values: Tensor, rows: int) -> Tensor:
    """(n, channels) summed over the copies of each row."""
    return values if len(values) == rows else values.view(rows, -1, *values.shape[1:]).sum(1)


def convolve(inputs: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
    """A convolution with each model's own parameters."""
    models = max(len(weight), 1 if bias is None else len(bias))
    if models == 1:
        return geometry.apply(inputs, weight[0], None if bias is None else bias[0], geometry.groups)
    weight = weight.expand(models, *weight.shape[1:])
    bias = None if bias is None else bias.expand(models, -1)
    if inputs.device.type == "cpu":
        parts = inputs.chunk(models)
        return torch.cat(
            [
                geometry.apply(
                    part, weight[at], None if bias is None else bias[at], geometry.groups
                )
                for at, part in enumerate(parts)
            ]
        )
    each = len(inputs) // models
    wide = inputs.view(models, each, *inputs.shape[1:]).transpose(0, 1).flatten(1, 2)
    joined = geometry.apply(
        wide,
        weight.flatten(0, 1),
        None if bias is None else bias.flatten(),
        models * geometry.groups,
    )
    apart = joined.view(each, models, -1, *joined.shape[2:]).transpose(0, 1)
    return apart.reshape(len(inputs), *apart.shape[2:])
