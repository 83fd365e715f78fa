"""The rule of convolutions in one, two and three dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from privaware.descent._clip import parted, shortened
from privaware.descent._geometry import Geometry, convolve
from privaware.descent._shares import (
    Rows,
    Wash,
    add_weighted,
    from_grams,
    keep_rows,
    raised,
    room,
    square_sums,
    weighted,
    zero_own_rows,
)
from privaware.kernels import convolution as convolution_kernels
from privaware.kernels import elementwise
from privaware.kernels.convolution import Slide

if TYPE_CHECKING:
    from privaware.descent._stack import Stack

__all__ = ["Convolved", "Geometry", "convolution", "convolve", "sum_copies"]

WORK = 64
"""Multiply-adds that take tensor cores as long as reading or writing one number takes memory."""

PLAIN = 8
"""The same for additions without tensor cores."""


class Convolved:
    """What sliding a kernel adds.

    By counted operations the cheaper of materialised and Gram norms. On a GPU, where passes over memory count and not
    products, each row's gradient is made by one kernel that reads the input and the output gradient and writes nothing
    but norms: columns alone would be nine times the input. It also writes the gradients where writing and reading them
    moves fewer numbers than making their weighted sum afresh. Where places are few, norms come from products of
    places of the input and of the output gradient; where they are fewer still, from Gram matrices of columns.
    """

    at = None

    def __init__(
        self, inputs: Tensor, gradients: Tensor, geometry: Geometry, weight: Tensor, rows: int, wash: Wash = keep_rows
    ) -> None:
        self.inputs, self.gradients, self.geometry = inputs, gradients, geometry
        self.weight, self.count, self.wash = weight, rows, wash
        self.kept: Tensor | None = None
        self.turned = False

    @property
    def copies(self) -> int:
        return len(self.inputs) // self.count

    def slide(self) -> Slide | None:
        """How the filters slide, where one kernel makes the rows' gradients."""
        return self.geometry.slide(self.inputs, self.gradients, self.copies)

    def squares(self) -> Tensor:
        places = self.gradients.shape[2:].numel() * self.copies
        size, height = self.weight[0].numel(), self.weight.shape[1]
        slide = self.slide()
        passes = places if slide is None else 3 * WORK
        groups = self.geometry.groups
        ghost = (places + passes) * (height + size // height) * groups < size
        if slide is not None and not ghost:
            return self._from_overlaps(slide) if self._overlaps_pay() else self.by_kernel(slide)
        if not ghost and self.count * size <= room(self.inputs.device):
            self.kept = self.rows()
            return square_sums(self.kept)
        self.inputs, self.gradients = shortened(self.inputs), shortened(self.gradients)
        most = places * places * 2 if ghost else size
        return self._chunked(max(1, room(self.inputs.device) // most), ghost)

    def by_kernel(self, slide: Slide, centred: Tensor | None = None) -> Tensor:
        """What norms need of the rows' gradients, which are kept if that is worth while."""
        self.inputs, self.gradients = self.inputs.contiguous(), self.gradients.contiguous()
        if centred is not None:
            centred = centred.movedim(2, -1).flatten(2)
        self.turned = keep = self._worth_keeping()
        if not keep:
            self.inputs, self.gradients = shortened(self.inputs), shortened(self.gradients)
        x, g = _flat(self.inputs), _flat(self.gradients)
        self.kept, sums = convolution_kernels.row_gradients(x, g, slide, self.count, keep=keep, centred=centred)
        return sums

    def _afresh(self) -> int:
        """What making the weighted sum afresh costs, in numbers moved."""
        product = self.gradients.numel() * self.weight[0, 0].numel() // WORK
        return self.inputs.numel() + self.gradients.numel() + product

    def _worth_keeping(self) -> bool:
        """Whether writing and reading the gradients moves fewer numbers than making their weighted sum afresh."""
        kept = self.count * self.weight[0].numel()
        return kept <= room(self.inputs.device) and 2 * kept < self._afresh()

    def _overlaps_pay(self) -> bool:
        """Whether products of places and a sum afresh cost less than each row's gradient, kept or not."""
        size, height = self.weight[0].numel(), self.weight.shape[1]
        seen, sent = (t.shape[2:].numel() * self.copies for t in (self.inputs, self.gradients))
        spots = self.weight[0, 0, 0].numel()
        products = (seen**2 * self.weight.shape[2] + sent**2 * height) // WORK
        moved = 2 * (seen**2 + sent**2) + spots * sent**2 // PLAIN
        then = 2 * self.count * size if self._worth_keeping() else self._afresh()
        direct = self.count * size * sent // WORK + then
        return self.count * (products + moved) + self._afresh() < direct

    def _from_overlaps(self, slide: Slide) -> Tensor:
        """Norms from products of places, which are sums over channels, filters and spots of the kernel."""
        self.inputs, self.gradients = shortened(self.inputs), shortened(self.gradients)
        x, g = _flat(self.inputs), _flat(self.gradients)
        out = []
        most = sum((t.shape[2:].numel() * self.copies) ** 2 for t in (x, g))
        each = max(1, room(x.device) // most) * self.copies
        for some in zip(x.split(each), g.split(each), strict=True):
            left, right = (torch.bmm(t.transpose(1, 2), t) for t in map(self._places, some))
            sums = convolution_kernels.overlaps(left, right, slide, x.shape[2:], g.shape[2:])
            terms = x.shape[1] + g.shape[1] + 8 * self.weight[0, 0, 0].numel()
            squares, saw, sent = sums.unbind(1)
            out.append(raised(squares, saw, sent, terms))
        return torch.cat(out)

    def _places(self, values: Tensor) -> Tensor:
        """(rows, channels, places of all copies)."""
        values = values.flatten(2)
        if self.copies == 1:
            return values
        return values.unflatten(0, (-1, self.copies)).transpose(1, 2).flatten(2)

    def part(self, start: int, stop: int) -> Convolved:
        """The same for some of the rows."""
        rows = slice(start * self.copies, stop * self.copies)
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
        split = [t.reshape(len(self.inputs), groups, -1, columns.shape[2]) for t in (columns, self.gradients)]
        if self.copies > 1:
            split = [t.view(self.count, self.copies, *t.shape[1:]).permute(0, 2, 3, 1, 4).flatten(3) for t in split]
        first, second = (t.reshape(self.count * groups, t.shape[2], -1) for t in split)
        return first, second

    def _from_grams(self) -> Tensor:
        pairs = self._pairs()
        left, right = (torch.bmm(t.transpose(1, 2), t) for t in pairs)
        terms = sum(t.shape[1] for t in pairs)
        return from_grams(left, right, terms).view(self.count, -1).sum(1)

    def rows(self) -> Tensor:
        if self.kept is not None:
            return self._as_weight(self.kept) if self.turned else self.kept
        plain = self.geometry.groups == 1 and len(self.inputs) == self.count
        if self.geometry.groups == self.inputs.shape[1] == self.gradients.shape[1] > 1:
            made = sum_copies(self.geometry.apart_gradients(self.inputs, self.gradients), self.count)
        elif plain and self.inputs.device.type == "cpu":  # there a transposed factor costs several times as much
            places = tuple(self.gradients.shape[2:])
            columns = self.geometry.columns(self.inputs, places, first=True)
            made = torch.bmm(self.gradients.flatten(2), columns)
        else:
            columns, gradients = self._pairs()
            made = torch.bmm(gradients, columns.transpose(1, 2))
        return made.view(self.count, *self.weight.shape[1:])

    def _as_weight(self, values: Tensor) -> Tensor:
        """(any, *shape) of what the kernel wrote with the channels last."""
        height, width, *kernel = self.weight.shape[1:]
        return values.view(-1, height, *kernel, width).movedim(-1, 2)

    def add(self, weights: Tensor, out: Tensor) -> None:
        if self.kept is None:
            self._add_again(weights, out)
        elif self.turned:
            summed = self.kept.new_zeros(len(out), *self.kept.shape[1:])
            add_weighted(weights, self.kept, summed)
            out.add_(self._as_weight(summed))
        else:
            add_weighted(weights, self.kept, out)

    def _add_again(self, weights: Tensor, out: Tensor) -> None:
        """The weighted sum of all rows' gradients, which are made once more."""
        models, slide = len(out), self.slide()
        if slide is not None:
            given = (_flat(self.inputs), _flat(self.gradients), weights, slide, models)
            out.add_(self._as_weight(convolution_kernels.summed(*given)))
            return
        spread = weights.repeat_interleave(self.copies) if self.copies > 1 else weights
        scaled = weighted(self.gradients.flatten(1), spread).view(self.gradients.shape)
        for part in parted(scaled):
            pairs = zip(part.chunk(models), self.inputs.chunk(models), out, strict=True)
            for gradient, inputs, place in pairs:
                place.add_(self.geometry.weight_gradient(gradient, inputs, self.weight[0]))

    def clean(self, good: Tensor) -> None:
        if self.kept is not None:
            self.kept = zero_own_rows(self.kept, good)
            return
        if self.slide() is not None:  # `summed` leaves such rows out by itself
            return
        spread = good.repeat_interleave(self.copies) if self.copies > 1 else good
        self.inputs = self.wash(self.inputs, spread)
        if not elementwise.fits(self.gradients):  # `weighted` cleans by itself
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
                seen = kept.to(stack.dtype)
                share = Convolved(seen, gradient, geometry, weight, rows, stack.wash(seen))
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


def _flat(values: Tensor) -> Tensor:
    """A line is an image of height one."""
    return values if values.ndim == 4 else values[:, :, None]


def sum_copies(values: Tensor, rows: int) -> Tensor:
    """(n, channels) summed over the copies of each row."""
    return values if len(values) == rows else values.view(rows, -1, *values.shape[1:]).sum(1)
