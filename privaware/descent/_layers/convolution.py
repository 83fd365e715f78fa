"""The layer rule of convolutions in one, two and three dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from privaware.descent._example_sums import (
    GHOST_POSITIONS,
    add_slice,
    add_weighted,
    ghost_norms,
    keep_examples,
    materialised_limit,
    rounded_up,
    slices,
    square_sums,
    sum_copies,
    zero_in_place,
)
from privaware.descent._layers.geometry import Geometry, convolve
from privaware.descent._per_example import Materialised, PerExampleGradient, Zeroing
from privaware.descent._precision import truncated_to_tf32
from privaware.descent._stack import Stack, check_batch_first, check_unmodified
from privaware.kernels import convolution as convolution_kernels
from privaware.kernels.convolution import Conv2dGeometry

MATMUL_WORK = 64
"""Number of multiply-adds on tensor cores that take as long as reading or writing one number."""

PLAIN_WORK = 8
"""Number of additions without tensor cores that take as long as reading or writing one number."""


class ConvolutionGradient:
    """The per-example gradients of a convolution's filters.

    `inputs` and `gradients` (with respect to the outputs) hold all augmented copies of the `examples` examples of all
    models; `weight` (models, out, in, *kernel) gives the shape of a gradient. `geometry` says how the filters slide.
    `zeroing(inputs, keep)` sets the inputs of examples outside the mask `keep` to zero.

    Norms are computed in the cheapest way: from materialised gradients, or as ghost norms (without forming the
    gradients) if there are few positions. On a GPU one kernel reads the inputs and the output gradients, computes each
    per-example gradient and writes only its norm. It writes the gradients too if this moves fewer numbers than
    recomputing their weighted sum. `part` is None, because these are always gradients of the whole parameter.
    """

    part: slice | None = None

    def __init__(
        self,
        inputs: Tensor,
        gradients: Tensor,
        geometry: Geometry,
        weight: Tensor,
        examples: int,
        zeroing: Zeroing = keep_examples,
    ) -> None:
        self.inputs, self.gradients, self.geometry = inputs, gradients, geometry
        self.weight, self.count, self.zeroing = weight, examples, zeroing
        self.materialised: Tensor | None = None
        self.channels_last = False

    @property
    def copies(self) -> int:
        return len(self.inputs) // self.count

    def kernel_geometry(self) -> Conv2dGeometry | None:
        """Return the geometry for the GPU kernel of per-example gradients, or None if that kernel does not apply."""
        return self.geometry.for_kernel(self.inputs, self.gradients, self.copies)

    def squared_norms(self) -> Tensor:
        positions = self.gradients.shape[2:].numel() * self.copies
        size, height = self.weight[0].numel(), self.weight.shape[1]
        geometry = self.kernel_geometry()
        passes = positions if geometry is None else 3 * MATMUL_WORK
        groups = self.geometry.groups
        ghost = positions <= GHOST_POSITIONS and (positions + passes) * (height + size // height) * groups < size
        if geometry is not None and not ghost:
            return self._overlap_norms(geometry) if self._overlaps_pay() else self.sums_by_kernel(geometry)
        if not ghost and self.count * size <= materialised_limit(self.inputs.device):
            self.materialised = self.materialise()
            return square_sums(self.materialised)
        self.inputs, self.gradients = truncated_to_tf32(self.inputs), truncated_to_tf32(self.gradients)
        if not ghost:
            return torch.cat([square_sums(self.chunk(part).materialise()) for part in self.slices()])
        at_once = max(1, materialised_limit(self.inputs.device) // (positions * positions * 2))
        starts = range(0, self.count, at_once)
        return torch.cat([self.chunk(slice(start, start + at_once))._ghost_norms() for start in starts])

    def sums_by_kernel(self, geometry: Conv2dGeometry, centred: Tensor | None = None) -> Tensor:
        """Return the sums that the GPU kernel computes for the norms of per-example gradients.

        `geometry` is the result of `kernel_geometry`. If `centred` is None, the sums are squared norms (examples,). If
        `centred` holds the centred filters, the sums are (3, examples, filters): the squared norm of the gradient with
        respect to the filter, its inner product with the centred filter, and the sum of its entries. The kernel also
        stores the per-example gradients in `self.materialised` if `_keeping_pays`; otherwise their weighted sum is
        recomputed later.
        """
        self.inputs, self.gradients = self.inputs.contiguous(), self.gradients.contiguous()
        if centred is not None:
            centred = centred.movedim(2, -1).flatten(2)
        self.channels_last = keep = self._keeping_pays()
        if not keep:
            self.inputs, self.gradients = truncated_to_tf32(self.inputs), truncated_to_tf32(self.gradients)
        x, g = _as_image(self.inputs), _as_image(self.gradients)
        self.materialised, sums = convolution_kernels.per_example_gradients(
            x, g, geometry, self.count, keep=keep, centred=centred
        )
        return sums

    def _recomputing(self) -> int:
        """Return the cost of recomputing the weighted sum, in numbers read or written."""
        product = self.gradients.numel() * self.weight[0, 0].numel() // MATMUL_WORK
        return self.inputs.numel() + self.gradients.numel() + product

    def _keeping_pays(self) -> bool:
        """Return whether keeping the gradients fits in memory and moves fewer numbers than recomputing their sum."""
        size = self.count * self.weight[0].numel()
        return size <= materialised_limit(self.inputs.device) and 2 * size < self._recomputing()

    def _overlaps_pay(self) -> bool:
        """Return whether ghost norms by `_overlap_norms`, with a recomputed sum, cost less than `sums_by_kernel`."""
        size, height = self.weight[0].numel(), self.weight.shape[1]
        before, after = (t.shape[2:].numel() * self.copies for t in (self.inputs, self.gradients))
        taps = self.weight[0, 0, 0].numel()
        products = (before**2 * self.weight.shape[2] + after**2 * height) // MATMUL_WORK
        transferred = 2 * (before**2 + after**2) + taps * after**2 // PLAIN_WORK
        then = 2 * self.count * size if self._keeping_pays() else self._recomputing()
        direct = self.count * size * after // MATMUL_WORK + then
        return self.count * (products + transferred) + self._recomputing() < direct

    def _overlap_norms(self, geometry: Conv2dGeometry) -> Tensor:
        """Return squared ghost norms (examples,) from products of positions, summed over channels, filters and taps.

        `geometry` is the result of `kernel_geometry`.
        """
        self.inputs, self.gradients = truncated_to_tf32(self.inputs), truncated_to_tf32(self.gradients)
        x, g = _as_image(self.inputs), _as_image(self.gradients)
        out = []
        largest = sum((t.shape[2:].numel() * self.copies) ** 2 for t in (x, g))
        size = max(1, materialised_limit(x.device) // largest) * self.copies
        for chunk in zip(x.split(size), g.split(size), strict=True):
            left, right = (torch.bmm(t.transpose(1, 2), t) for t in map(self._positions, chunk))
            sums = convolution_kernels.ghost_norm_sums(left, right, geometry, x.shape[2:], g.shape[2:])
            terms = x.shape[1] + g.shape[1] + 8 * self.weight[0, 0, 0].numel()
            squares, of_inputs, of_gradients = sums.unbind(1)
            positions = g.shape[2:].numel() * self.copies
            out.append(rounded_up(squares, of_inputs, of_gradients, terms, positions))
        return torch.cat(out)

    def _positions(self, values: Tensor) -> Tensor:
        """Return `values` as (examples, channels, positions of all copies)."""
        values = values.flatten(2)
        if self.copies == 1:
            return values
        return values.unflatten(0, (-1, self.copies)).transpose(1, 2).flatten(2)

    def chunk(self, examples: slice) -> ConvolutionGradient:
        """Return the gradients of the examples in the slice `examples` as a new object, with nothing materialised."""
        stop = min(examples.stop, self.count)
        part = slice(examples.start * self.copies, stop * self.copies)
        return ConvolutionGradient(
            self.inputs[part], self.gradients[part], self.geometry, self.weight, examples=stop - examples.start
        )

    def slices(self) -> Iterator[slice]:
        """Return slices of examples to materialise at once; norms and sums use the same slices."""
        return slices(self.count, self.weight[0].numel(), self.inputs.device)

    def _columns_and_gradients(self) -> tuple[Tensor, Tensor]:
        """Return unfolded inputs and output gradients, for each example and group of channels.

        Inputs are (examples x groups, in x kernel, positions), and gradients (examples x groups, out, positions), where
        `in` and `out` are channels of a group. The positions of all copies of an example follow one another.
        """
        groups = self.geometry.groups
        columns = self.geometry.columns(self.inputs, tuple(self.gradients.shape[2:]))
        split = [t.reshape(len(self.inputs), groups, -1, columns.shape[2]) for t in (columns, self.gradients)]
        if self.copies > 1:
            split = [t.view(self.count, self.copies, *t.shape[1:]).permute(0, 2, 3, 1, 4).flatten(3) for t in split]
        first, second = (t.reshape(self.count * groups, t.shape[2], -1) for t in split)
        return first, second

    def _ghost_norms(self) -> Tensor:
        pairs = self._columns_and_gradients()
        left, right = (torch.bmm(t.transpose(1, 2), t) for t in pairs)
        terms = sum(t.shape[1] for t in pairs)
        return ghost_norms(left, right, terms).view(self.count, -1).sum(1)

    def materialise(self) -> Tensor:
        if self.materialised is not None:
            return self._as_weight(self.materialised) if self.channels_last else self.materialised
        ungrouped = self.geometry.groups == 1 and len(self.inputs) == self.count
        if self.geometry.groups == self.inputs.shape[1] == self.gradients.shape[1] > 1:
            gradients = sum_copies(self.geometry.depthwise_gradients(self.inputs, self.gradients), self.count)
        elif ungrouped and self.inputs.device.type == "cpu":  # on a CPU a transposed factor is several times slower
            positions = tuple(self.gradients.shape[2:])
            columns = self.geometry.columns(self.inputs, positions, positions_first=True)
            gradients = torch.bmm(self.gradients.flatten(2), columns)
        else:
            columns, outputs = self._columns_and_gradients()
            gradients = torch.bmm(outputs, columns.transpose(1, 2))
        return gradients.view(self.count, *self.weight.shape[1:])

    def _as_weight(self, values: Tensor) -> Tensor:
        """Return the kernel's channels-last `values` in the shape of the weight, as (any number, out, in, *kernel)."""
        height, width, *kernel = self.weight.shape[1:]
        return values.view(-1, height, *kernel, width).movedim(-1, 2)

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        if self.materialised is None:
            self._add_recomputed(factors, out)
        elif self.channels_last:
            summed = self.materialised.new_zeros(len(out), *self.materialised.shape[1:])
            add_weighted(factors, self.materialised, summed)
            out.add_(self._as_weight(summed))
        else:
            add_weighted(factors, self.materialised, out)

    def _add_recomputed(self, factors: Tensor, out: Tensor) -> None:
        """Recompute the per-example gradients and add their sum, weighted by `factors` (examples,), to `out`.

        `out` (rows, out, in, *kernel) is changed in place. It has one row for each of several equal sets of consecutive
        examples, such as the examples of a model.
        """
        models, geometry = len(out), self.kernel_geometry()
        if geometry is not None:
            x, g = _as_image(self.inputs), _as_image(self.gradients)
            summed = convolution_kernels.weighted_gradient_sum(x, g, factors, geometry, models)
            out.add_(self._as_weight(summed))
            return
        for part in self.slices():
            add_slice(factors, self.chunk(part).materialise(), part, out)

    def zero_others(self, keep: Tensor) -> None:
        if self.materialised is not None:
            self.materialised = zero_in_place(self.materialised, keep)
            return
        if self.kernel_geometry() is not None:  # `weighted_gradient_sum` skips examples with a factor of zero
            return
        spread = keep.repeat_interleave(self.copies) if self.copies > 1 else keep
        self.inputs = self.zeroing(self.inputs, spread)
        self.gradients = keep_examples(self.gradients, spread)


ThroughFilters = Callable[[ConvolutionGradient], PerExampleGradient]
"""A function that turns the per-example gradients of filters into the per-example gradients of the layer's weight."""


def convolution(stack: Stack, layer: Any) -> Callable[[Tensor], Tensor]:
    """Return the replacement of the forward function of a convolution, which records its per-example gradients.

    Any stride, padding, dilation and groups are allowed.
    """
    return convolution_by(stack, layer, Geometry(layer), lambda weight: (weight, lambda gradient: gradient))


def convolution_by(
    stack: Stack, layer: Any, geometry: Geometry, filters_of: Callable[[Tensor], tuple[Tensor, ThroughFilters]]
) -> Callable[[Tensor], Tensor]:
    """Return the replacement of the forward function of a layer that convolves with filters computed from its weight.

    `geometry` says how the filters slide. `filters_of(weight)` returns the filters, and the function that turns
    per-example gradients with respect to the filters into per-example gradients with respect to the weight.
    """
    weight_name, weight = stack.parameter(layer.weight)
    bias_name, bias = stack.parameter(layer.bias)
    assert weight is not None

    def forward(inputs: Tensor) -> Tensor:
        inputs = geometry.padded(inputs)
        filters, through_filters = filters_of(weight)
        output = convolve(inputs, filters, bias, geometry)
        version, recorded, examples = inputs._version, inputs.detach(), stack.examples

        def build(gradient: Tensor) -> list[tuple[str, PerExampleGradient]]:
            check_unmodified(inputs, version)
            gradient = gradient.to(stack.dtype)
            gradients: list[tuple[str, PerExampleGradient]] = []
            if weight_name is not None:
                cast = recorded.to(stack.dtype)
                by_filters = ConvolutionGradient(cast, gradient, geometry, filters, examples, stack.zeroing(cast))
                gradients.append((weight_name, through_filters(by_filters)))
            if bias_name is not None:
                gradients.append((bias_name, Materialised(sum_copies(gradient.flatten(2).sum(2), examples))))
            return gradients

        if weight_name is None and bias_name is None:
            return output
        check_batch_first(output, examples)
        return stack.record(output, build)

    return forward


def _as_image(values: Tensor) -> Tensor:
    """Return a one-dimensional signal as an image of height one; leave images unchanged."""
    return values if values.ndim == 4 else values[:, :, None]
