"""The layer rule of convolutions with standardised filters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from privaware.descent._example_sums import add_slice, add_weighted, materialised_limit, square_sums, zero_in_place
from privaware.descent._layers.convolution import ConvolutionGradient, ThroughFilters, convolution_by
from privaware.descent._layers.geometry import Geometry
from privaware.descent._precision import tf32_allowed, truncated_to_tf32
from privaware.descent._stack import Stack
from privaware.kernels import elementwise, group_sums

TF32_TRUNCATION = 2.0**-10
"""Largest relative error of a number that is truncated to TF32."""

CANCELLING = 16.0
"""Largest norm of a clipped gradient before the standardisation's derivative, divided by the clipping norm (on a GPU).

An example whose gradient would exceed this limit is clipped more.
"""


class StandardisedGradient:
    """The per-example gradients of filters that are standardised (centred and scaled) before the convolution.

    `inner` holds the gradients with respect to the standardised filters, which are `centred / size`. `centred` (models,
    filters, in, *kernel) are the centred filters, and `size` has one number for each model and filter. The derivative
    of the standardisation is the same linear map for every example of a model. With the CUDA kernels this map is
    applied to sums over examples, otherwise to each example. `part` is None: the gradients are of the whole weight.
    """

    part: slice | None = None

    def __init__(self, inner: ConvolutionGradient, centred: Tensor, size: Tensor) -> None:
        self.inner, self.centred, self.size = inner, centred, size
        self.materialised: Tensor | None = None

    def materialise(self) -> Tensor:
        plain = self.inner.materialise()
        by_model = plain.view(len(self.centred), -1, *plain.shape[1:])
        return _through_standardisation(by_model, self.centred, self.size).view_as(plain)

    def _slice(self, part: slice) -> Tensor:
        """Return the gradients of the examples in the slice `part`."""
        plain = self.inner.chunk(part).materialise()
        model = torch.arange(part.start, part.stop, device=plain.device) * len(self.centred) // self.inner.count
        return _through_standardisation(plain[:, None], self.centred[model], self.size[model])[:, 0]

    def squared_norms(self) -> Tensor:
        geometry = self.inner.kernel_geometry()
        if geometry is not None:
            return self._from_sums(*self.inner.sums_by_kernel(geometry, self.centred))
        numbers = self.inner.count * self.inner.weight[0].numel()
        if numbers <= materialised_limit(self.centred.device):
            self.materialised = self.materialise()
            return square_sums(self.materialised)
        self.inner.inputs = truncated_to_tf32(self.inner.inputs)
        self.inner.gradients = truncated_to_tf32(self.inner.gradients)
        return torch.cat([square_sums(self._slice(part)) for part in self.inner.slices()])

    def _from_sums(self, squares: Tensor, along: Tensor, sums: Tensor) -> Tensor:
        """Return the squared norms of all examples (models * examples), after the standardisation's derivative.

        The arguments are three numbers for each example and filter, about the gradient with respect to the filter:
        `squares` is its squared norm, `along` its inner product with the centred filter, and `sums` the sum of its
        entries. The result is raised by a bound on its rounding error, so that no norm is underestimated.
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
        # An overflow on the way must not give a small norm: such an example gets an infinite one and is left out.
        after = torch.where(torch.isfinite(after), after.clamp_min(0) + slack, math.inf)
        return self._rounded_up(after, before)

    def _rounded_up(self, after: Tensor, before: Tensor) -> Tensor:
        """Return an upper bound on the squared norm of each example (models * examples), safe against rounding.

        `before` and `after` are squared norms by filter (models, examples, filters), before and after the
        standardisation's derivative. Sums over examples are rounded before this derivative, where they may be much
        larger than after it. If TF32 is allowed, the norm of each filter is therefore raised by
        `TF32_TRUNCATION * sqrt(before)`. The squared norm of an example is at least `sum(before) / CANCELLING**2`, a
        sum over filters: the rounding bound holds for such norms only.
        """
        if tf32_allowed():
            after = (after.sqrt() + TF32_TRUNCATION * before.sqrt()).square()
        return torch.maximum(after.sum(2), before.sum(2) / CANCELLING**2).flatten()

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        if self.materialised is not None:
            add_weighted(factors, self.materialised, out)
            return
        if self.inner.kernel_geometry() is None:
            for part in self.inner.slices():
                add_slice(factors, self._slice(part), part, out)
            return
        plain = torch.zeros_like(out)
        self.inner.add_sum(factors, plain)
        if self.inner.weight[0, 0].numel() <= group_sums.MOST_NUMBERS and elementwise.fits(plain, out):
            group_sums.add_standardised(plain, self.centred.contiguous(), self.size.flatten(), out)
            return
        by_model = plain.double().view(len(self.centred), -1, *plain.shape[1:])
        sums = _through_standardisation(by_model, self.centred.double(), self.size.double())
        out.add_(sums.view_as(out))

    def zero_others(self, keep: Tensor) -> None:
        if self.materialised is not None:
            self.materialised = zero_in_place(self.materialised, keep)
        else:
            self.inner.zero_others(keep)


def _through_standardisation(gradients: Tensor, centred: Tensor, size: Tensor) -> Tensor:
    """Return gradients with respect to the original filters, from `gradients` with respect to `centred / size`.

    `gradients` and the result are (models, any number, *shape of the filters), where each model has its own entries of
    `centred` and `size`.
    """
    within = tuple(range(3, gradients.ndim))
    count = math.prod(gradients.shape[3:])
    centred, size = centred[:, None], size[:, None]
    along = (gradients * centred).sum(within, keepdim=True)
    part = gradients / size - centred * (along * count / max(count - 1, 1) / size**3)
    return part - part.mean(within, keepdim=True)


def standardised_convolution(stack: Stack, layer: Any) -> Callable[[Tensor], Tensor]:
    """Return the replacement of the forward function of `privaware.models.StandardisedConv2d`.

    The replacement records per-example gradients. On a GPU `stack.cancelling` becomes `CANCELLING`.
    """
    geometry = Geometry.uniform(layer.weight.shape[2:], layer.stride, layer.padding)
    if stack.device.type == "cuda":
        stack.cancelling = CANCELLING

    def filters_of(weight: Tensor) -> tuple[Tensor, ThroughFilters]:
        centred = weight - weight.mean((2, 3, 4), keepdim=True)
        count = weight[0, 0].numel()
        squares = centred.square().sum((2, 3, 4), keepdim=True) / max(count - 1, 1)
        size = torch.sqrt(squares * count + 1e-4)
        return centred / size, lambda inner: StandardisedGradient(inner, centred, size)

    return convolution_by(stack, layer, geometry, filters_of)
