"""The rule of convolutions with standardised filters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from privaware.descent._convolution import ConvolutionGradient
from privaware.descent._geometry import Geometry, convolve
from privaware.descent._per_example import Materialised, PerExampleGradient, materialised_limit, square_sums, sum_copies
from privaware.descent._precision import tf32_allowed, truncated_to_tf32
from privaware.descent._rule import check_batch_first, check_unmodified
from privaware.descent._stack import Stack

__all__ = ["StandardisedGradient", "standardised_convolution"]

TF32_TRUNCATION = 2.0**-10
"""What TF32 loses at most of a number."""


class StandardisedGradient:
    """Per-example gradients of filters that are centred and scaled before they slide.

    The standardisation's derivative is the same linear map for every example.
    """

    part: slice | None = None

    def __init__(self, inner: ConvolutionGradient, centred: Tensor, size: Tensor) -> None:
        self.inner, self.centred, self.size = inner, centred, size

    def _through_standardisation(self, gradients: Tensor) -> Tensor:
        """Gradients (models, any, *shape) by the standardised filters, as gradients by the filters before."""
        within = tuple(range(3, gradients.ndim))
        count = math.prod(gradients.shape[3:])
        centred, size = self.centred[:, None], self.size[:, None]
        along = (gradients * centred).sum(within, keepdim=True)
        part = gradients / size - centred * (along * count / max(count - 1, 1) / size**3)
        return part - part.mean(within, keepdim=True)

    def materialise(self) -> Tensor:
        plain = self.inner.materialise()
        by_model = plain.view(len(self.centred), -1, *plain.shape[1:])
        return self._through_standardisation(by_model).view_as(plain)

    def _materialised_norms(self) -> Tensor:
        if not tf32_allowed():
            return square_sums(self.materialise())
        plain = self.inner.materialise()
        plain = plain.view(len(self.centred), -1, *plain.shape[1:])
        after, before = (t.flatten(3).square().sum(3) for t in (self._through_standardisation(plain), plain))
        return self._rounded_up(after, before / self.size.view(len(self.size), 1, -1).square())

    def _rounded_up(self, after: Tensor, before: Tensor) -> Tensor:
        """Squared norms of examples from those of filters (models, examples, filters).

        Sums of examples go through the standardisation too. TF32 rounds them `before`, where they may be much larger
        than `after` it, so a norm is raised by what that can change.
        """
        if tf32_allowed():
            after = (after.sqrt() + TF32_TRUNCATION * before.sqrt()).square()
        return after.sum(2).flatten()

    def squared_norms(self) -> Tensor:
        geometry = self.inner.kernel_geometry()
        if geometry is not None:
            return self._from_sums(*self.inner.sums_by_kernel(geometry, self.centred))
        size = max(1, materialised_limit(self.centred.device) // self.inner.weight[0].numel())
        if self.inner.count <= size:
            self.inner.materialised = self.inner.materialise()
            return self._materialised_norms()
        self.inner.inputs = truncated_to_tf32(self.inner.inputs)
        self.inner.gradients = truncated_to_tf32(self.inner.gradients)
        models = len(self.centred)
        out = []
        for at in range(models):
            of_model = slice(at * self.inner.count // models, (at + 1) * self.inner.count // models)
            for start in range(of_model.start, of_model.stop, size):
                chunk = self.inner.chunk(start, min(start + size, of_model.stop))
                standardised = StandardisedGradient(chunk, self.centred[at : at + 1], self.size[at : at + 1])
                out.append(standardised._materialised_norms())
        return torch.cat(out)

    def _from_sums(self, squares: Tensor, along: Tensor, sums: Tensor) -> Tensor:
        """Squared norms from each filter's square, product with its centred values and sum.

        Raised by the rounding error of what is subtracted, so that no norm is underestimated.
        """
        models, filters = self.centred.shape[:2]
        count = math.prod(self.centred.shape[2:])
        squares, along, sums = (part.view(models, -1, filters) for part in (squares, along, sums))
        size, centred_squares = self.size.view(models, 1, -1), self.centred.flatten(2).square().sum(2)[:, None]
        slope = along * count / max(count - 1, 1) / size**3
        after = (squares - sums.square() / count) / size.square()
        after = after - slope * (2 * along / size - slope * centred_squares)
        before = squares / size.square()
        slack = 16 * torch.finfo(squares.dtype).eps * before
        # An overflow on the way must not look small: such an example is left out.
        after = torch.where(torch.isfinite(after), after.clamp_min(0) + slack, math.inf)
        return self._rounded_up(after, before)

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        plain = torch.zeros_like(out)
        self.inner.add_sum(factors, plain)
        out.add_(self._through_standardisation(plain[:, None])[:, 0])

    def zero_others(self, keep: Tensor) -> None:
        self.inner.zero_others(keep)


def standardised_convolution(stack: Stack, layer: Any) -> Callable[[Tensor], Tensor]:
    """The weight-standardised convolution of `privaware.models`."""
    geometry = Geometry.uniform(layer.weight.shape[2:], layer.stride, layer.padding)
    weight_name, weight = stack.parameter(layer.weight)
    bias_name, bias = stack.parameter(layer.bias)
    assert weight is not None

    def forward(inputs: Tensor) -> Tensor:
        check_batch_first(inputs, stack.examples)
        centred = weight - weight.mean((2, 3, 4), keepdim=True)
        count = weight[0, 0].numel()
        squares = centred.square().sum((2, 3, 4), keepdim=True) / max(count - 1, 1)
        size = torch.sqrt(squares * count + 1e-4)
        standardised = centred / size
        output = convolve(inputs, standardised, bias, geometry)
        version, recorded, examples = inputs._version, inputs.detach(), stack.examples

        def build(gradient: Tensor) -> list[tuple[str, PerExampleGradient]]:
            check_unmodified(inputs, version)
            gradient = gradient.to(stack.dtype)
            gradients: list[tuple[str, PerExampleGradient]] = []
            if weight_name is not None:
                cast = recorded.to(stack.dtype)
                inner = ConvolutionGradient(cast, gradient, geometry, standardised, examples, stack.zeroing(cast))
                gradients.append((weight_name, StandardisedGradient(inner, centred, size)))
            if bias_name is not None:
                gradients.append((bias_name, Materialised(sum_copies(gradient.flatten(2).sum(2), examples))))
            return gradients

        return stack.record(output, build)

    return forward
