"""The rule of convolutions with standardised filters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from privaware.descent._clip import shortened
from privaware.descent._convolution import Convolved, sum_copies
from privaware.descent._geometry import Geometry, convolve
from privaware.descent._shares import Rows, room, square_sums

if TYPE_CHECKING:
    from privaware.descent._stack import Stack

__all__ = ["Standardised", "standardised"]

CUT = 2.0**-10
"""What a shortened mantissa loses at most of a number."""


class Standardised:
    """What a kernel adds whose filters are centred and scaled before they slide: the same linear map for every row."""

    at = None

    def __init__(self, inner: Convolved, centred: Tensor, size: Tensor) -> None:
        self.inner, self.centred, self.size = inner, centred, size

    def _back(self, gradients: Tensor) -> Tensor:
        """Gradients (models, any, *shape) by the used filters, as gradients by the filters before."""
        places = tuple(range(3, gradients.ndim))
        count = math.prod(gradients.shape[3:])
        centred, size = self.centred[:, None], self.size[:, None]
        along = (gradients * centred).sum(places, keepdim=True)
        part = gradients / size - centred * (along * count / max(count - 1, 1) / size**3)
        return part - part.mean(places, keepdim=True)

    def rows(self) -> Tensor:
        plain = self.inner.rows()
        return self._back(plain.view(len(self.centred), -1, *plain.shape[1:])).view_as(plain)

    def _squares_of_rows(self) -> Tensor:
        if not torch.backends.cuda.matmul.allow_tf32:
            return square_sums(self.rows())
        plain = self.inner.rows()
        plain = plain.view(len(self.centred), -1, *plain.shape[1:])
        left, before = (t.flatten(3).square().sum(3) for t in (self._back(plain), plain))
        return self._raised(left, before / self.size.view(len(self.size), 1, -1).square())

    def _raised(self, left: Tensor, before: Tensor) -> Tensor:
        """Squared norms of rows from those of filters (models, rows, filters), and from these `before` `_back`.

        Sums of rows go through `_back` too. Shortened mantissas round them before, where they may be much larger than
        what is left, so a norm is raised by what that can change.
        """
        if torch.backends.cuda.matmul.allow_tf32:
            left = (left.sqrt() + CUT * before.sqrt()).square()
        return left.sum(2).flatten()

    def squares(self) -> Tensor:
        slide = self.inner.slide()
        if slide is not None:
            return self._from_sums(*self.inner.by_kernel(slide, self.centred))
        each = max(1, room(self.centred.device) // self.inner.weight[0].numel())
        if self.inner.count <= each:
            self.inner.kept = self.inner.rows()
            return self._squares_of_rows()
        self.inner.inputs = shortened(self.inner.inputs)
        self.inner.gradients = shortened(self.inner.gradients)
        models = len(self.centred)
        out = []
        for at in range(models):
            own = slice(at * self.inner.count // models, (at + 1) * self.inner.count // models)
            for start in range(own.start, own.stop, each):
                part = self.inner.part(start, min(start + each, own.stop))
                one = Standardised(part, self.centred[at : at + 1], self.size[at : at + 1])
                out.append(one._squares_of_rows())
        return torch.cat(out)

    def _from_sums(self, squares: Tensor, along: Tensor, sums: Tensor) -> Tensor:
        """The squared norms of `_back`, from each filter's square, product with its centred values and sum.

        Raised by the rounding of what is taken off, so that a norm is never taken for smaller than it is.
        """
        models, filters = self.centred.shape[:2]
        count = math.prod(self.centred.shape[2:])
        squares, along, sums = (part.view(models, -1, filters) for part in (squares, along, sums))
        size, own = self.size.view(models, 1, -1), self.centred.flatten(2).square().sum(2)[:, None]
        slope = along * count / max(count - 1, 1) / size**3
        left = (squares - sums.square() / count) / size.square()
        left = left - slope * (2 * along / size - slope * own)
        before = squares / size.square()
        slack = 16 * torch.finfo(squares.dtype).eps * before
        # What overflows on the way is no small number: such a row adds nothing.
        left = torch.where(torch.isfinite(left), left.clamp_min(0) + slack, math.inf)
        return self._raised(left, before)

    def add(self, weights: Tensor, out: Tensor) -> None:
        plain = torch.zeros_like(out)
        self.inner.add(weights, plain)
        out.add_(self._back(plain[:, None])[:, 0])

    def clean(self, good: Tensor) -> None:
        self.inner.clean(good)


def standardised(stack: Stack, layer: Any) -> Callable[[Tensor], Tensor]:
    """The weight-standardised convolution of `privaware.models`."""
    from privaware.descent._layers import rows_first, unchanged

    geometry = Geometry.of(layer.weight.shape[2:], layer.stride, layer.padding)
    weight_name, weight = stack.of(layer.weight)
    bias_name, bias = stack.of(layer.bias)
    assert weight is not None

    def forward(inputs: Tensor) -> Tensor:
        rows_first(inputs, stack.rows)
        centred = weight - weight.mean((2, 3, 4), keepdim=True)
        count = weight[0, 0].numel()
        squares = centred.square().sum((2, 3, 4), keepdim=True) / max(count - 1, 1)
        size = torch.sqrt(squares * count + 1e-4)
        used = centred / size
        output = convolve(inputs, used, bias, geometry)
        version, kept, rows = inputs._version, inputs.detach(), stack.rows

        def make(gradient: Tensor) -> list[tuple[str, Any]]:
            unchanged(inputs, version)
            gradient = gradient.to(stack.dtype)
            shares: list[tuple[str, Any]] = []
            if weight_name is not None:
                seen = kept.to(stack.dtype)
                inner = Convolved(seen, gradient, geometry, used, rows, stack.wash(seen))
                shares.append((weight_name, Standardised(inner, centred, size)))
            if bias_name is not None:
                shares.append((bias_name, Rows(sum_copies(gradient.flatten(2).sum(2), rows))))
            return shares

        return stack.record(output, make)

    return forward
