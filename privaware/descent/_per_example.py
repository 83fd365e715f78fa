"""Represent the per-example gradients of one parameter in forms whose norms and weighted sums are cheap to compute.

A representation is built after the backward pass, from a layer's recorded input and the gradient with respect to its
output. Examples are in model-major order: P models with B examples each give P * B examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from privaware.descent._example_sums import (
    GHOST_POSITIONS,
    add_at,
    add_product,
    add_slice,
    add_weighted,
    ghost_norms,
    keep_examples,
    materialised_limit,
    scale_examples,
    slices,
    square_sums,
    zero_in_place,
)
from privaware.descent._precision import truncated_to_tf32
from privaware.errors import Refused
from privaware.kernels import elementwise

Zeroing = Callable[[Tensor, Tensor], Tensor]
"""A function `(values, keep) -> values` that sets the examples outside the mask `keep` to zero."""


class PerExampleGradient(Protocol):
    """The per-example gradients of one parameter, or of the slice `part` of its first dimension.

    `squared_norms` returns the squared norm of each example, or None if another representation counts it. `materialise`
    returns the gradients as one tensor (examples, *shape of the parameter or slice). `add_sum` adds each model's sum of
    `factors * gradients` to `out` (models, *shape of the whole parameter), in place; `factors` are (examples,).
    `zero_others` sets all examples outside the mask `keep` (examples,) to zero, in this object.
    """

    part: slice | None

    def squared_norms(self) -> Tensor | None: ...

    def materialise(self) -> Tensor: ...

    def add_sum(self, factors: Tensor, out: Tensor) -> None: ...

    def zero_others(self, keep: Tensor) -> None: ...


class Materialised:
    """Materialised per-example gradients (examples, *shape of the parameter or of its slice `part`)."""

    def __init__(self, gradients: Tensor, part: slice | None = None) -> None:
        self.gradients, self.part = gradients, part

    def squared_norms(self) -> Tensor:
        return square_sums(self.gradients)

    def materialise(self) -> Tensor:
        return self.gradients

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        add_weighted(factors, self.gradients, out if self.part is None else out[:, self.part])

    def zero_others(self, keep: Tensor) -> None:
        self.gradients = keep_examples(self.gradients, keep)


class OuterProduct:
    """The gradient of a matrix: the sum over positions t of `outer(gradients[t], inputs[t])`, for each example.

    A position is a place at which the layer is applied, such as a time step. `inputs` is (examples, positions, in) or
    (examples, in). `gradients`, with respect to the layer's outputs, is (examples, positions, out) or (examples, out).
    `part` is the slice of the parameter's first dimension, or None for the whole parameter. `zeroing(inputs, keep)`
    sets the examples outside the mask `keep` to zero (default: `keep_examples`). With one position the squared norm is
    the product of two squared norms. With several positions it is computed by the cheaper of two ways: as a ghost norm
    (from Gram matrices of the positions), or from the materialised product.
    """

    def __init__(
        self, inputs: Tensor, gradients: Tensor, part: slice | None = None, zeroing: Zeroing | None = None
    ) -> None:
        self.inputs, self.gradients, self.part = inputs, gradients, part
        self.zeroing = zeroing or keep_examples
        self.materialised: Tensor | None = None
        self.with_bias = False
        self._scaled: Tensor | None = None

    @property
    def single(self) -> bool:
        return self.inputs.ndim == 2

    def squared_norms(self) -> Tensor:
        """Return the squared norm of each example's gradient; if `with_bias`, with the gradient of the bias.

        The bias counts as the weight of a constant input 1.
        """
        if self.single:
            a, g = self.inputs, self.gradients
            if a.shape[1] <= elementwise.WIDEST and elementwise.fits(a, g):
                return elementwise.product_squares(a, g, self.with_bias)
            return (square_sums(a) + self.with_bias) * square_sums(g)
        examples, positions, width = self.inputs.shape
        height = self.gradients.shape[2]
        ghost = positions <= GHOST_POSITIONS and positions * (width + height) < width * height
        if not ghost and examples * width * height <= materialised_limit(self.inputs.device):
            self.materialised = self.materialise()
            return square_sums(self.materialised)
        self.inputs, self.gradients = truncated_to_tf32(self.inputs), truncated_to_tf32(self.gradients)
        if ghost:
            return self._ghost_norms()
        return torch.cat([square_sums(self._products(part)) for part in self._slices()])

    def _slices(self) -> Iterator[slice]:
        """Yield slices of examples whose outer products are computed at once; norms and sums use the same slices."""
        return slices(len(self.inputs), self.inputs.shape[2] * self.gradients.shape[2], self.inputs.device)

    def _products(self, part: slice) -> Tensor:
        return torch.bmm(self.gradients[part].transpose(1, 2), self.inputs[part])

    def _ghost_norms(self) -> Tensor:
        out = []
        size = max(1, materialised_limit(self.inputs.device) // self.inputs.shape[1] ** 2)
        for a, g in zip(self.inputs.split(size), self.gradients.split(size), strict=True):
            left, right = torch.bmm(a, a.transpose(1, 2)), torch.bmm(g, g.transpose(1, 2))
            out.append(ghost_norms(left, right, a.shape[2] + g.shape[2]))
        return torch.cat(out)

    def materialise(self) -> Tensor:
        if self.materialised is not None:
            return self.materialised
        if self.single:
            return self.gradients[:, :, None] * self.inputs[:, None, :]
        return torch.bmm(self.gradients.transpose(1, 2), self.inputs)

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        out = out if self.part is None else out[:, self.part]
        if self.materialised is not None:
            add_weighted(factors, self.materialised, out)
            return
        if not self.single:
            for part in self._slices():
                add_slice(factors, self._products(part), part, out)
            return
        models = len(out)
        inputs = self.inputs.reshape(models, -1, self.inputs.shape[-1])
        add_product(self.scaled(factors, models).transpose(1, 2), inputs, out)

    def scaled(self, factors: Tensor, models: int) -> Tensor:
        """Return the output gradients times `factors` (examples,), as (models, examples of a model, out).

        The gradients of the matrix and of its bias both use the result. It is computed in the first call and kept, so
        later calls ignore their `factors`.
        """
        if self._scaled is None:
            self._scaled = scale_examples(self.gradients, factors)
        return self._scaled.reshape(models, -1, self.gradients.shape[-1])

    def separate_bias(self) -> None:
        """Leave the gradient of the bias out of the squared norms, which then are of the matrix alone."""
        self.with_bias = False

    def zero_others(self, keep: Tensor) -> None:
        if self.materialised is not None:
            self.materialised = zero_in_place(self.materialised, keep)
            return
        self.inputs = self.zeroing(self.inputs, keep)
        if not (self.single and elementwise.fits(self.gradients)):  # `scale_examples` zeroes them itself
            self.gradients = keep_examples(self.gradients, keep)


class OuterProductBias:
    """The gradient of a layer's bias, if the layer's weight has an `OuterProduct` with one position for each example.

    The gradient is `outer.gradients`, where `outer` is this outer product. `outer.squared_norms()` includes the bias,
    and the squared norms here are None, until `separate_bias` is called. `part` is the slice of the bias, or None for
    all of it.
    """

    def __init__(self, outer: OuterProduct, part: slice | None = None) -> None:
        self.outer, self.part = outer, part
        outer.with_bias = True

    def squared_norms(self) -> Tensor | None:
        return None if self.outer.with_bias else square_sums(self.outer.gradients)

    def materialise(self) -> Tensor:
        return self.outer.gradients

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        out = out if self.part is None else out[:, self.part]
        out.add_(self.outer.scaled(factors, len(out)).sum(1))

    def separate_bias(self) -> None:
        self.outer.with_bias = False

    def zero_others(self, keep: Tensor) -> None:
        if not self.outer.with_bias:  # otherwise the outer product zeroes the gradients that both read
            self.outer.gradients = keep_examples(self.outer.gradients, keep)


class EmbeddingGradient:
    """The gradient of an embedding table: the output gradient at a position belongs to one entry (row) of the table.

    `codes` (examples, positions) has the numbers of these entries, `gradients` (examples, positions, width) has the
    output gradients, and `shape` is (entries, width). `part` is None: the gradient is of the whole table.
    """

    part: slice | None = None

    def __init__(self, codes: Tensor, gradients: Tensor, shape: Sequence[int]) -> None:
        self.codes, self.gradients, self.shape = codes, gradients, shape

    def squared_norms(self) -> Tensor:
        """Return the squared norms (examples,), after adding up an example's positions of one table entry."""
        examples, positions, width = self.gradients.shape
        if positions == 1:
            return square_sums(self.gradients)
        codes, order = self.codes.sort(1)
        fresh = torch.zeros_like(codes)
        fresh[:, 1:] = codes[:, 1:] != codes[:, :-1]
        run = fresh.cumsum(1)
        target = torch.empty_like(codes).scatter_(1, order, run)
        target = target + positions * torch.arange(examples, device=codes.device)[:, None]
        runs = self.gradients.new_zeros(examples * positions, width)
        add_at(runs, target.flatten(), self.gradients.reshape(-1, width))
        self.codes, self.gradients = torch.zeros_like(codes).scatter_(1, run, codes), runs.view_as(self.gradients)
        return square_sums(runs.view(examples, -1))

    def materialise(self) -> Tensor:
        examples, _, width = self.gradients.shape
        out = self.gradients.new_zeros(examples, self.shape[0], width)
        return out.scatter_add_(1, self.codes[:, :, None].expand_as(self.gradients), self.gradients)

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        models, entries, width = out.shape
        per_model = len(self.codes) // models
        model = torch.arange(len(self.codes), device=out.device) // max(per_model, 1)
        entry = self.codes + entries * model[:, None]
        scaled = (self.gradients * factors[:, None, None]).reshape(-1, width)
        flat = add_at(out.new_zeros(models * entries, width), entry.flatten(), scaled)
        out.add_(flat.view(models, entries, width))

    def zero_others(self, keep: Tensor) -> None:
        self.gradients = keep_examples(self.gradients, keep)


def combined(uses: Sequence[PerExampleGradient]) -> list[PerExampleGradient]:
    """Combine the per-example gradients of all uses of one parameter; the gradient of a shared parameter is their sum.

    Each entry of `uses` belongs to the whole parameter or to one slice of it. Slices must be equal or disjoint. The
    result has one entry for each slice, because the squared norms of disjoint slices add up. Outer products of the same
    slice are joined along their positions. Other uses of the same slice are materialised and added. Raise `Refused` for
    a parameter that is used as a whole and in slices.
    """
    if len(uses) == 1:
        return list(uses)
    by_part: dict[Any, list[PerExampleGradient]] = {}
    for use in uses:
        by_part.setdefault(use.part and (use.part.start, use.part.stop), []).append(use)
    if None in by_part and len(by_part) > 1:
        raise Refused("a parameter is used as a whole and in slices; use one way throughout")
    return [_summed(group) for group in by_part.values()]


def _summed(uses: list[PerExampleGradient]) -> PerExampleGradient:
    if len(uses) == 1:
        return uses[0]
    for use in uses:
        if isinstance(use, (OuterProduct, OuterProductBias)):
            use.separate_bias()
    outer = [use for use in uses if isinstance(use, OuterProduct)]
    if len(outer) < len(uses):
        return Materialised(torch.stack([use.materialise() for use in uses]).sum(0), part=uses[0].part)
    inputs = [use.inputs.reshape(len(use.inputs), -1, use.inputs.shape[-1]) for use in outer]
    gradients = [use.gradients.reshape(len(use.inputs), -1, use.gradients.shape[-1]) for use in outer]
    return OuterProduct(torch.cat(inputs, 1), torch.cat(gradients, 1), uses[0].part)
