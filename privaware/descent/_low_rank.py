"""Low-rank reparametrisation: release the gradient of a large matrix along two narrow subspaces only.

1. A matrix W (out x in; filters are flattened) is written as `left @ right + (W - left @ right)`. The columns of `left`
   (out x rank) and the rows of `right` (rank x in) are orthonormal. Only these two factors have gradients. If G is the
   gradient with respect to W, their gradients are

       by_left = G @ right.T     (out x rank)
       by_right = left.T @ G     (rank x in)

2. An example's gradients with respect to all factors and all other parameters are clipped as one vector. So
   `rank * (out + in)` numbers get noise instead of `out * in`.
3. A gradient with respect to W is rebuilt from the noisy sums. Without noise it is the projection of G onto all
   matrices of the form `A @ right + left @ B`:

       by_left @ right + left @ by_right - left @ left.T @ by_left @ right

4. The factors come from W and its values at step `warm_up`, by the power method. This is post-processing without
   privacy cost.
5. Clipping measures the norms of the numbers that are summed, so the bounds of `_rounding.py` hold for any factors.

Memory: an example takes `rank * (out + in)` floats for each matrix, beside its inputs and output gradients. Only
gradients through a standardisation of filters are materialised first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from privaware import models
from privaware._validate import expect, expect_count, expect_one_of
from privaware.descent._accumulate import Batch, Gradients, add_clipped
from privaware.descent._cholesky import inverse_factor
from privaware.descent._clip import Clip
from privaware.descent._example_slices import example_slices
from privaware.descent._layers.convolution import ConvolutionGradient
from privaware.descent._layers.geometry import convolve
from privaware.descent._per_example import Materialised, OuterProduct, PerExampleGradient
from privaware.descent._stack import Segment, Stack
from privaware.errors import Refused
from privaware.noise import Rng

MATRICES = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, models.StandardisedConv2d)
"""Layer types whose weight is treated as a matrix."""

CHOLESKY_STEPS = 3
"""Number of steps of Cholesky QR that make the factors orthonormal."""

FILL = 2.0**-23
"""Weight of the columns of the identity matrix in factors; it decides only where a matrix has too low a rank."""

SIDES = ("both", "left")
"""Allowed values of `low_rank.sides`."""


@dataclass(frozen=True)
class low_rank:
    """Release the gradients of low-rank factors instead of the gradients of large weight matrices.

    A matrix is factored if it has more entries than the factors whose gradients are released. Only weights of linear
    layers and ungrouped convolutions with more than `rank` rows and columns are factored.

    Paper: Yu, Zhang, Chen, Yin, Liu 2021, Large Scale Private Learning via Low-rank Reparametrization.

    Parameters
    ----------
    rank : int
        Rank of the factors.
    sides : str
        "both", or "left" to release only the gradient with respect to the left factor.
    warm_up : int
        Up to and including this step, the factors approximate the matrix W itself. After it they approximate
        `W / |W| - W0 / |W0|`, where W0 is W at step `warm_up` (0: the initial weights) and |.| is the Frobenius norm.
    """

    clips: ClassVar[tuple[str, ...]] = ("flat", "automatic", "quantile")
    precisions: ClassVar[tuple[str, ...]] = ("float32", "tf32", "bf16")

    rank: int = 16
    sides: str = "both"
    warm_up: int = 0

    def __post_init__(self) -> None:
        expect_count("low_rank", rank=self.rank)
        expect_one_of("low_rank", SIDES, sides=self.sides)
        expect(type(self.warm_up) is int and self.warm_up >= 0, "low_rank", "warm_up of 0 steps or more", self.warm_up)

    def bind(self, stack: Stack, rng: Rng) -> LowRank:
        return LowRank(self, stack, rng)


class LowRank:
    """The projection `low_rank`, bound to one stack: the factors of each model's matrices.

    `rng` draws the start of the power method.
    """

    parts, cancelling = 1, 1.0

    def __init__(self, settings: low_rank, stack: Stack, rng: Rng) -> None:
        self.settings, self.stack, self.rng = settings, stack, rng
        self.fingerprint = repr(settings)
        layers: list[Any] = [layer for layer in stack.module.modules() if type(layer) in MATRICES]
        names = {stack.names[id(layer.weight)] for layer in layers if getattr(layer, "groups", 1) == 1}
        self.segments: list[Segment] = []
        by_shape: dict[tuple[int, int], list[Segment]] = {}
        for segment in stack.segments:
            carriers = _carriers(segment, settings.rank, settings.sides) if segment.name in names else ()
            if carriers:
                by_shape.setdefault(_matrix_shape(segment), []).append(segment)
            for part in carriers or (segment,):
                self.segments.append(_after(self.segments, part))
        self.groups = [_Group.of(segments, settings.rank, stack) for segments in by_shape.values()]
        by_name = {name: factors for group in self.groups for name, factors in group.factors.items()}
        self.factors = {segment.name: by_name[segment.name] for segment in stack.segments if segment.name in by_name}
        self.columns = self.segments[-1].stop
        self.tensors = {"reference": stack.theta.clone()}

    def refresh(self, loss: Any, step: int) -> None:
        """Compute new factors of each matrix, in place, by one iteration of the power method from a random start.

        Up to step `settings.warm_up` the factors approximate the matrix W. After it they approximate
        `W / |W| - W0 / |W0|`, where W0 is W at step `settings.warm_up` and |.| is the Frobenius norm. `loss` is not
        used.
        """
        reference, theta = self.tensors["reference"], self.stack.theta
        if step == self.settings.warm_up:
            reference.copy_(theta)
        generator = self.rng.torch("initial", str(self.stack.device))
        for factors in self.factors.values():
            factors.right.normal_(generator=generator)
        matrices = []
        for group in self.groups:
            matrix = group.matrices(self.stack, theta)
            if step > self.settings.warm_up:
                matrix = _normalised(matrix) - _normalised(group.matrices(self.stack, reference))
            matrices.append(matrix.nan_to_num(0.0, 0.0, 0.0))
        lefts = _orthonormal([m @ group.right.mT for group, m in zip(self.groups, matrices, strict=True)])
        for group, left in zip(self.groups, lefts, strict=True):
            group.left.copy_(left)
        rights = _orthonormal([m.mT @ group.left for group, m in zip(self.groups, matrices, strict=True)])
        for group, right in zip(self.groups, rights, strict=True):
            group.right.copy_(right.mT)

    def accumulate(
        self, gradients: Gradients, batch: Batch, clip: Clip, norm: Any, total: Tensor, capturing: bool
    ) -> Tensor:
        """Add the clipped gradients with respect to the factors and all other parameters to `total`.

        An example's gradients with respect to all of them are clipped as one vector. Return the squared norms of these
        vectors before clipping, (examples, 1). Raise `Refused` if a factored matrix is used in slices. The arguments
        are as in `accumulate` of `_accumulate.py`.
        """
        carriers: Gradients = {}
        for name, uses in gradients.items():
            factors = self.factors.get(name)
            if factors is None:
                carriers[name] = uses
                continue
            if len(uses) > 1 or uses[0].part is not None:
                raise Refused(f"expected {name!r} to be used as one matrix, but it is used in slices")
            by_left, by_right = factors.gradients(uses[0], batch.examples)
            carriers[f"{name}/left"] = [by_left]
            if self.settings.sides == "both":
                carriers[f"{name}/right"] = [by_right]
        return add_clipped(self.stack, carriers, batch, clip, norm, total, capturing, self.segments)

    def released(self, exact: Tensor) -> Tensor:
        return exact

    def gradient(self, noisy: Tensor) -> Tensor:
        """Return the gradient sum (models, trainable), rebuilt from the noisy sums of the factors' gradients."""
        noisy = noisy.to(self.stack.dtype)
        by_name = {segment.name: self.stack.view(noisy, segment) for segment in self.segments}
        parts = []
        for segment in self.stack.segments:
            factors = self.factors.get(segment.name)
            if factors is None:
                parts.append(by_name[segment.name].reshape(len(noisy), -1))
            else:
                rebuilt = factors.rebuilt(by_name[f"{segment.name}/left"], by_name.get(f"{segment.name}/right"))
                parts.append(rebuilt.flatten(1))
        return torch.cat(parts, 1)


@dataclass(frozen=True)
class _Factors:
    """The factors of one matrix (out x in) for each model.

    `left` (models, out, rank) has orthonormal columns, and `right` (models, rank, in) orthonormal rows.
    """

    left: Tensor
    right: Tensor

    def gradients(self, use: PerExampleGradient, examples: int) -> tuple[PerExampleGradient, PerExampleGradient]:
        """Return the per-example gradients with respect to `left` and to `right`.

        `use` holds the per-example gradients G with respect to the matrix W, for `examples` examples of all models. The
        results are `G @ right.T` and `left.T @ G` of each example. G is materialised only if `use` is neither an outer
        product nor a convolution. After the call, an `OuterProduct` no longer counts the gradient of the bias in its
        norms.
        """
        if isinstance(use, OuterProduct):
            use.separate_bias()
            inputs, outputs = self._times(use.inputs, self.right.mT), self._times(use.gradients, self.left)
            by_right = OuterProduct(use.inputs, outputs, zeroing=use.zeroing)
            return OuterProduct(inputs, use.gradients), by_right
        if isinstance(use, ConvolutionGradient):
            return self._of_filters(use)
        return self._of_materialised(use, examples)

    def _of_filters(self, use: ConvolutionGradient) -> tuple[PerExampleGradient, PerExampleGradient]:
        """Return the gradients with respect to `left` and `right` of the filters whose gradients `use` holds.

        The right factor is a convolution with `rank` filters. The left factor combines their outputs at each position.
        """
        filters = self.right.view(*self.right.shape[:2], *use.weight.shape[2:])
        inputs = convolve(use.inputs, filters, None, use.geometry)
        positions = use.gradients.flatten(2).mT
        outputs = self._times(positions, self.left).mT.reshape(inputs.shape)
        by_right = ConvolutionGradient(use.inputs, outputs, use.geometry, filters, use.count, use.zeroing)
        moved, outer = (v.reshape(use.count, -1, v.shape[2]) for v in (inputs.flatten(2).mT, positions))
        return OuterProduct(moved, outer), by_right

    def _of_materialised(self, use: PerExampleGradient, examples: int) -> tuple[PerExampleGradient, PerExampleGradient]:
        lefts, rights = [], []
        for model, _, values in example_slices(use, len(self.left), examples):
            matrices = values.flatten(2)
            lefts.append(matrices @ self.right[model].mT)
            rights.append(self.left[model].mT @ matrices)
        return Materialised(torch.cat(lefts)), Materialised(torch.cat(rights))

    def _times(self, values: Tensor, matrices: Tensor) -> Tensor:
        """Return `values @ matrix` for each example, with the matrix of the example's model.

        `values` are (examples, ..., width), all examples of model 0 first, and `matrices` (models, width, rank). The
        result is (examples, ..., rank).
        """
        by_model = values.reshape(len(matrices), -1, values.shape[-1])
        return torch.bmm(by_model, matrices).view(*values.shape[:-1], matrices.shape[-1])

    def rebuilt(self, by_left: Tensor, by_right: Tensor | None) -> Tensor:
        """Return the gradient with respect to the matrix W (models, out, in), from the gradients of its factors.

        The result is `by_left @ right + left @ by_right - left @ left.T @ by_left @ right`. If `by_right` is None,
        because only the left factor is released, the result is `by_left @ right`.
        """
        left, right = self.left.to(by_left), self.right.to(by_left)
        if by_right is None:
            return by_left @ right
        return by_left @ right + left @ (by_right.flatten(2) - left.mT @ by_left @ right)


@dataclass(frozen=True)
class _Group:
    """The factors of all matrices of one shape (out x in), so that they are computed together.

    `left` (matrices * models, out, rank) and `right` (matrices * models, rank, in) hold the factors of the matrices at
    `segments`, all models of the first matrix first.
    """

    segments: list[Segment]
    left: Tensor
    right: Tensor

    @classmethod
    def of(cls, segments: list[Segment], rank: int, stack: Stack) -> _Group:
        (out, wide), count = _matrix_shape(segments[0]), len(segments) * stack.models
        return cls(segments, stack.theta.new_zeros(count, out, rank), stack.theta.new_zeros(count, rank, wide))

    @property
    def factors(self) -> dict[str, _Factors]:
        """The factors of each matrix by the name of its parameter; they share memory with those of the group."""
        lefts, rights = (part.chunk(len(self.segments)) for part in (self.left, self.right))
        return {of.name: _Factors(left, right) for of, left, right in zip(self.segments, lefts, rights, strict=True)}

    def matrices(self, stack: Stack, theta: Tensor) -> Tensor:
        """Return the matrices in the parameters `theta` (models, trainable), as (matrices * models, out, in)."""
        return torch.cat([stack.view(theta, segment).flatten(2) for segment in self.segments])


def _orthonormal(groups: Sequence[Tensor]) -> list[Tensor]:
    """Return float64 orthonormal columns that span the columns of finite matrices (matrices, height, rank) in `groups`.

    The Gram matrices of all groups have one size, so they are factored together. If columns of a matrix depend on each
    other, further columns are added. No value is read on the host.
    """
    columns = [group.double() for group in groups]
    height = max((group.shape[1] for group in groups), default=1)
    for step in range(CHOLESKY_STEPS if columns else 0):
        inverses = inverse_factor(torch.cat([each.mT @ each for each in columns]), height)
        parts = inverses.split([len(each) for each in columns])
        columns = [each @ part for each, part in zip(columns, parts, strict=True)]
        if step == 0:  # independent columns have length 1 now, and columns of zeros are still 0
            for each in columns:
                each.diagonal(dim1=1, dim2=2).add_(FILL)
    return columns


def _carriers(segment: Segment, rank: int, sides: str) -> Sequence[Segment]:
    """Return the segments of the low-rank factors whose gradients are released instead of the gradient of one matrix.

    A segment has the name, the shape and the range of entries of a parameter in a flat vector. `segment` belongs to the
    matrix. The range of each result starts at 0 until `_after` moves it. The factors are `left` and `right`, or only
    `left` if `sides` is "left". Return no segments if `rank` is not below both sides of the matrix, or if the factors
    do not have fewer entries than the matrix.
    """
    out, width = _matrix_shape(segment)
    numbers, wide = out * width, segment.shape[1:]
    left = Segment(f"{segment.name}/left", (out, rank), 0, out * rank)
    right = Segment(f"{segment.name}/right", (rank, *wide), 0, rank * width)
    released = (left, right) if sides == "both" else (left,)
    return released if rank < min(out, width) and sum(part.stop for part in released) < numbers else ()


def _matrix_shape(segment: Segment) -> tuple[int, int]:
    """Return the numbers of rows and columns of the parameter at `segment` as a matrix; filters are flattened."""
    return segment.shape[0], (segment.stop - segment.start) // segment.shape[0]


def _after(segments: Sequence[Segment], segment: Segment) -> Segment:
    """Return `segment` moved so that it begins where the last of `segments` stops, or at 0 if there are none."""
    start = segments[-1].stop if segments else 0
    return Segment(segment.name, segment.shape, start, start + segment.stop - segment.start)


def _normalised(matrices: Tensor) -> Tensor:
    return matrices / torch.linalg.matrix_norm(matrices, keepdim=True).clamp_min(torch.finfo(matrices.dtype).tiny)
