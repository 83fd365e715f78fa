"""What each row adds to the gradient of one parameter, in a form from which norms and weighted sums come cheaply.

A share is made after the backward pass from a layer's recorded input and the gradient by its output. Rows are
model-major: a population of P models with B rows each is P * B rows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from privaware.descent._clip import parted, shortened
from privaware.errors import Refused
from privaware.kernels import elementwise

__all__ = ["Beside", "Outer", "Rows", "Share", "Tokens", "merged"]


Wash = Callable[[Tensor, Tensor], Tensor]


@functools.cache
def room(device: torch.device) -> int:
    """How many numbers of one layer's per-row gradients may be kept between norm and sum: 1/64 of a GPU's memory."""
    if device.type != "cuda":
        return 2**26
    return int(torch.cuda.get_device_properties(device).total_memory) // 256


class Share(Protocol):
    """The rows' contributions to one parameter (or to the slice `at` of its first dimension)."""

    at: slice | None

    def squares(self) -> Tensor | None: ...

    def rows(self) -> Tensor: ...

    def add(self, weights: Tensor, out: Tensor) -> None: ...

    def clean(self, good: Tensor) -> None: ...


class Rows:
    """The contributions themselves: (rows, *shape)."""

    def __init__(self, gradients: Tensor, squares: Tensor | None = None, at: slice | None = None) -> None:
        self.gradients, self.at = gradients, at
        self._squares = squares

    def squares(self) -> Tensor:
        return square_sums(self.gradients) if self._squares is None else self._squares

    def rows(self) -> Tensor:
        return self.gradients

    def add(self, weights: Tensor, out: Tensor) -> None:
        add_weighted(weights, self.gradients, out if self.at is None else out[:, self.at])

    def clean(self, good: Tensor) -> None:
        self.gradients = keep_rows(self.gradients, good)


class Outer:
    """Sums over positions t of (gradient at t) times (input at t), transposed: what a matrix multiplication adds.

    `inputs` is (rows, positions, in) or (rows, in), `gradients` alike with out. `wash` sets rows
    of the inputs to zero where they are not finite. The squared norm of one position is the
    product of two squared norms; of several, it is the cheaper of the positions' Gram matrices and the product itself.
    """

    def __init__(self, inputs: Tensor, gradients: Tensor, at: slice | None = None, wash: Wash | None = None) -> None:
        self.inputs, self.gradients, self.at = inputs, gradients, at
        self.wash = wash or keep_rows
        self.kept: Tensor | None = None
        self.bias = False
        self._scaled: Tensor | None = None

    @property
    def single(self) -> bool:
        return self.inputs.ndim == 2

    def squares(self) -> Tensor:
        """With one position the bias beside is counted here: its part is that of an input of 1."""
        if self.single:
            a, g = self.inputs, self.gradients
            if a.shape[1] <= elementwise.WIDEST and elementwise.fits(a, g):
                return elementwise.product_squares(a, g, self.bias)
            return (square_sums(a) + self.bias) * square_sums(g)
        rows, positions, width = self.inputs.shape
        height = self.gradients.shape[2]
        ghost = positions * (width + height) < width * height
        if not ghost and rows * width * height <= room(self.inputs.device):
            self.kept = self.rows()
            return square_sums(self.kept)
        self.inputs, self.gradients = shortened(self.inputs), shortened(self.gradients)
        if ghost:
            return self._from_grams()
        each = max(1, room(self.inputs.device) // (width * height))
        pairs = zip(self.inputs.split(each), self.gradients.split(each), strict=True)
        return torch.cat([square_sums(torch.bmm(g.transpose(1, 2), a)) for a, g in pairs])

    def _from_grams(self) -> Tensor:
        out = []
        each = max(1, room(self.inputs.device) // self.inputs.shape[1] ** 2)
        for a, g in zip(self.inputs.split(each), self.gradients.split(each), strict=True):
            left, right = torch.bmm(a, a.transpose(1, 2)), torch.bmm(g, g.transpose(1, 2))
            out.append(from_grams(left, right, a.shape[2] + g.shape[2]))
        return torch.cat(out)

    def rows(self) -> Tensor:
        if self.kept is not None:
            return self.kept
        if self.single:
            return self.gradients[:, :, None] * self.inputs[:, None, :]
        return torch.bmm(self.gradients.transpose(1, 2), self.inputs)

    def add(self, weights: Tensor, out: Tensor) -> None:
        out = out if self.at is None else out[:, self.at]
        if self.kept is not None:
            add_weighted(weights, self.kept, out)
            return
        models = len(out)
        inputs = self.inputs.reshape(models, -1, self.inputs.shape[-1])
        scaled = self.scaled(weights, models)
        for part in (scaled,) if self.single else parted(scaled):
            add_product(part.transpose(1, 2), inputs, out)

    def scaled(self, weights: Tensor, models: int) -> Tensor:
        """(models, rows, out) weighted gradients, made once for the matrix and the bias beside it."""
        if self._scaled is None:
            self._scaled = weighted(self.gradients, weights)
        return self._scaled.reshape(models, -1, self.gradients.shape[-1])

    def apart(self) -> None:
        """The bias counts for itself."""
        self.bias = False

    def clean(self, good: Tensor) -> None:
        if self.kept is not None:
            self.kept = zero_own_rows(self.kept, good)
            return
        self.inputs = self.wash(self.inputs, good)
        if not (self.single and elementwise.fits(self.gradients)):  # `weighted` cleans by itself
            self.gradients = keep_rows(self.gradients, good)


class Beside:
    """What the bias of a linear map with one position adds: the output gradients."""

    def __init__(self, outer: Outer, at: slice | None = None) -> None:
        self.outer, self.at = outer, at
        outer.bias = True

    def squares(self) -> Tensor | None:
        return None if self.outer.bias else square_sums(self.outer.gradients)

    def rows(self) -> Tensor:
        return self.outer.gradients

    def add(self, weights: Tensor, out: Tensor) -> None:
        out = out if self.at is None else out[:, self.at]
        out.add_(self.outer.scaled(weights, len(out)).sum(1))

    def apart(self) -> None:
        self.outer.bias = False

    def clean(self, good: Tensor) -> None:
        if not self.outer.bias:  # else the outer product cleans what both read
            self.outer.gradients = keep_rows(self.outer.gradients, good)


class Tokens:
    """What looking up rows of a table adds: the gradient at each position goes to that position's entry."""

    at = None

    def __init__(self, codes: Tensor, gradients: Tensor, shape: Sequence[int]) -> None:
        self.codes, self.gradients, self.shape = codes, gradients, shape

    def squares(self) -> Tensor:
        """Positions with the same entry are added before they are squared: sort, then add up each run."""
        rows, positions, width = self.gradients.shape
        if positions == 1:
            return square_sums(self.gradients)
        codes, order = self.codes.sort(1)
        fresh = torch.zeros_like(codes)
        fresh[:, 1:] = codes[:, 1:] != codes[:, :-1]
        target = torch.empty_like(codes).scatter_(1, order, fresh.cumsum(1))
        target = target + positions * torch.arange(rows, device=codes.device)[:, None]
        runs = self.gradients.new_zeros(rows * positions, width)
        runs.index_add_(0, target.flatten(), self.gradients.reshape(-1, width))
        return square_sums(runs.view(rows, -1))

    def rows(self) -> Tensor:
        rows, _, width = self.gradients.shape
        out = self.gradients.new_zeros(rows, self.shape[0], width)
        return out.scatter_add_(1, self.codes[:, :, None].expand_as(self.gradients), self.gradients)

    def add(self, weights: Tensor, out: Tensor) -> None:
        models, entries, width = out.shape
        each = len(self.codes) // models
        model = torch.arange(len(self.codes), device=out.device) // max(each, 1)
        place = self.codes + entries * model[:, None]
        scaled = (self.gradients * weights[:, None, None]).reshape(-1, width)
        flat = out.new_zeros(models * entries, width).index_add_(0, place.flatten(), scaled)
        out.add_(flat.view(models, entries, width))

    def clean(self, good: Tensor) -> None:
        self.gradients = keep_rows(self.gradients, good)


def square_sums(values: Tensor) -> Tensor:
    """The sum of squares of each row, in one pass."""
    return torch.linalg.vector_norm(values.reshape(len(values), -1), dim=1).square_()


def from_grams(left: Tensor, right: Tensor, terms: int) -> Tensor:
    """Squared norms from products of positions, (n, positions, positions), that are sums of `terms` in all."""
    saw, sent = (t.diagonal(dim1=1, dim2=2).sum(1) for t in (left, right))
    return raised((left * right).sum((1, 2)), saw, sent, terms)


def raised(squares: Tensor, saw: Tensor, sent: Tensor, terms: int) -> Tensor:
    """Squared norms raised by the rounding of the products they come from: none is taken for smaller than it is.

    A matrix product adds about eight terms at a time and rounds or cuts off each sum, by at most eps of the product of
    two positions' norms. All positions together are wrong by at most so many eps of the squared norms of all that
    was seen and all that was sent. Sixteen more are for the sums over pairs of positions.
    """
    slack = torch.finfo(squares.dtype).eps * (terms / 8 + 16)
    return (squares + slack * saw * sent).clamp_min_(0)


def keep_rows(values: Tensor, good: Tensor) -> Tensor:
    """`values` with the rows that are not good set to zero, even where they are not finite."""
    return torch.where(good.view(-1, *[1] * (values.ndim - 1)), values, 0)


def zero_own_rows(values: Tensor, good: Tensor) -> Tensor:
    """The same for a tensor that nothing else reads: good rows need not be copied."""
    if len(values) > 1 and values.is_contiguous() and elementwise.fits(values):
        elementwise.zero_rows(values, good)
        return values
    return keep_rows(values, good)


def weighted(values: Tensor, weights: Tensor) -> Tensor:
    """Each row times its weight."""
    if values.ndim == 2 and elementwise.fits(values):
        return elementwise.weighted(values, weights)
    return values * weights.view(-1, *[1] * (values.ndim - 1))


def add_weighted(weights: Tensor, gradients: Tensor, out: Tensor) -> None:
    """Adds each model's weighted sum of its rows to `out` (models, *shape)."""
    models = len(out)
    width = math.prod(out.shape[1:])
    if models == 1:
        out.view(-1).addmv_(gradients.reshape(-1, width).T, weights)
        return
    summed = torch.bmm(weights.view(models, 1, -1), gradients.reshape(models, -1, width))
    out.add_(summed.view(out.shape))


def add_product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """out += left @ right, for each model."""
    if len(out) == 1:
        out[0].addmm_(left[0], right[0])
    else:
        out.baddbmm_(left, right)


def merged(shares: Sequence[Share]) -> list[Share]:
    """Shares of one parameter that overlap, made one: a parameter used twice is clipped by what both uses add.

    Disjoint slices stay apart, because their squares add up. In one place, matrix products join their positions;
    anything else is materialised and added.
    """
    if len(shares) == 1:
        return list(shares)
    places: dict[Any, list[Share]] = {}
    for share in shares:
        places.setdefault(share.at and (share.at.start, share.at.stop), []).append(share)
    if None in places and len(places) > 1:
        raise Refused("a parameter is used whole and in parts; use one way throughout")
    return [_joined(group) for group in places.values()]


def _joined(group: list[Share]) -> Share:
    if len(group) == 1:
        return group[0]
    for share in group:
        if isinstance(share, (Outer, Beside)):
            share.apart()
    outer = [share for share in group if isinstance(share, Outer)]
    if len(outer) < len(group):
        return Rows(torch.stack([share.rows() for share in group]).sum(0), at=group[0].at)
    inputs = [share.inputs.reshape(len(share.inputs), -1, share.inputs.shape[-1]) for share in outer]
    gradients = [share.gradients.reshape(len(share.inputs), -1, share.gradients.shape[-1]) for share in outer]
    return Outer(torch.cat(inputs, 1), torch.cat(gradients, 1), group[0].at)
