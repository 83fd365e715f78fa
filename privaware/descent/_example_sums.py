"""Compute norms and weighted sums of per-example gradients.

A layer is applied at the positions of an example, such as the places of an image or of a sequence. An example's
positions are always added up first, so a sum over examples adds one number for each example to an entry. Therefore the
rounding error of a sum over examples is bounded by their clipped norms (`_rounding.py`), even if positions within an
example cancel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from privaware.descent._precision import tf32_allowed
from privaware.descent._rounding import NORM_BLOCK, POSITION_ROUNDING
from privaware.kernels import elementwise

GHOST_POSITIONS = 256
"""Largest number of positions for ghost norms; for more, the error bound added by `rounded_up` would be too large."""

CACHED_FLOATS = 2**18
"""Number of floats in a slice of examples that a CPU's cache holds while they are summed."""


@functools.cache
def materialised_limit(device: torch.device) -> int:
    """Return how many floats of a layer's per-example gradients may stay in memory between norm and sum.

    On a CPU these are 2^26 floats. On a GPU they take 1/64 of its memory (4 bytes each).
    """
    if device.type != "cuda":
        return 2**26
    return int(torch.cuda.get_device_properties(device).total_memory) // 256


def square_sums(values: Tensor) -> Tensor:
    """Return the sum of squares of each example, as a tensor of shape (examples,).

    The first dimension of `values` counts examples. An example of more than `2 * NORM_BLOCK` numbers is summed in
    blocks, which reduces rounding.
    """
    flat = values.reshape(len(values), -1)
    width = flat.shape[1]
    if width <= 2 * NORM_BLOCK:
        return torch.linalg.vector_norm(flat, dim=1).square_()
    even = width // NORM_BLOCK * NORM_BLOCK
    sizes = torch.linalg.vector_norm(flat[:, :even].view(len(flat), -1, NORM_BLOCK), dim=2)
    squares = torch.linalg.vector_norm(sizes, dim=1).square_()
    return squares if even == width else squares + torch.linalg.vector_norm(flat[:, even:], dim=1).square_()


def add_at(out: Tensor, index: Tensor, values: Tensor) -> Tensor:
    """Add row i of `values` to row `index[i]` of `out`, in place and in a deterministic order, and return `out`."""
    return out.index_put_((index,), values, accumulate=True) if out.is_cuda else out.index_add_(0, index, values)


def ghost_norms(left: Tensor, right: Tensor, terms: int) -> Tensor:
    """Return squared gradient norms (examples,) from two Gram matrices, both (examples, positions, positions).

    The norms are raised by `rounded_up`. `left` is of the inputs and `right` of the output gradients. `terms` is the
    number of products summed for an entry of `left`, plus the number of products summed for an entry of `right`.
    """
    of_inputs, of_gradients = (t.diagonal(dim1=1, dim2=2).sum(1) for t in (left, right))
    return rounded_up((left * right).sum((1, 2)), of_inputs, of_gradients, terms, left.shape[1])


def rounded_up(squares: Tensor, of_inputs: Tensor, of_gradients: Tensor, terms: int, positions: int) -> Tensor:
    """Return the squared ghost norms `squares` (examples,), raised by a bound on their rounding error.

    So no norm is underestimated. `of_inputs` and `of_gradients` are the sums, over an example's `positions`, of squared
    norms of inputs and of output gradients. `terms` is as in `ghost_norms`.

    1. A matrix product adds about eight terms at a time. It rounds or truncates each sum, by at most eps times the
       product of the norms of two positions. So all `terms / 8` sums, over all positions, are wrong by at most
       `eps * terms / 8 * of_inputs * of_gradients`. Another 16 eps cover the sums over pairs of positions.
    2. The gradient itself is computed later, as a sum over positions. Norms are raised so far that this sum rounds by
       at most `POSITION_ROUNDING` times the norm.
    """
    eps = torch.finfo(squares.dtype).eps
    of_sum = positions * eps * (1 / 8 if tf32_allowed() else 1 / 2) / POSITION_ROUNDING
    slack = max(eps * (terms / 8 + 16), of_sum**2)
    return (squares + slack * of_inputs * of_gradients).clamp_min_(0)


def keep_examples(values: Tensor, keep: Tensor) -> Tensor:
    """Return a copy of `values` with all examples outside the mask `keep` set to zero, even if they are not finite."""
    return torch.where(keep.view(-1, *[1] * (values.ndim - 1)), values, 0)


def zero_in_place(values: Tensor, keep: Tensor) -> Tensor:
    """Return `values` with all examples outside the mask `keep` set to zero, overwritten in place if a CUDA kernel can.

    Otherwise a copy is returned. Nothing else may read `values` later.
    """
    if len(values) > 1 and values.is_contiguous() and elementwise.fits(values):
        elementwise.zero_rows(values, keep)
        return values
    return keep_examples(values, keep)


def scale_examples(values: Tensor, factors: Tensor) -> Tensor:
    """Return each example of `values` (examples, ...) times its factor, from `factors` (examples,).

    If a factor is 0, the CUDA kernel returns zeros even if the example is not finite. Without the kernel, entries that
    are not finite then become NaN.
    """
    if values.ndim == 2 and elementwise.fits(values):
        return elementwise.scale_rows(values, factors)
    return values * factors.view(-1, *[1] * (values.ndim - 1))


def add_weighted(factors: Tensor, gradients: Tensor, out: Tensor) -> None:
    """Add to `out` (models, *shape) the sum of `factors * gradients` over the examples of each model.

    `factors` are (examples,) and `gradients` (examples, *shape), in model-major order.
    """
    models = len(out)
    width = math.prod(out.shape[1:])
    if models == 1:
        out.view(-1).addmv_(gradients.reshape(-1, width).T, factors)
        return
    rows = out.view(models, 1, width)
    rows.baddbmm_(factors.view(models, 1, -1), gradients.reshape(models, -1, width))


def slices(examples: int, numbers: int, device: torch.device) -> Iterator[slice]:
    """Return slices that together cover all `examples`; the gradients of one slice are materialised at once.

    `numbers` is the number of floats of one example's gradient.
    """
    limit = materialised_limit(device) if device.type == "cuda" else min(CACHED_FLOATS, materialised_limit(device))
    size = max(1, limit // numbers)
    return (slice(start, min(start + size, examples)) for start in range(0, examples, size))


def add_slice(factors: Tensor, gradients: Tensor, part: slice, out: Tensor) -> None:
    """Add the weighted `gradients` of some examples to `out` (models, *shape), in place, each to the sum of its model.

    `gradients` holds the examples of the slice `part` only. `part` counts all examples of all models, model 0 first.
    `factors` has one weight for each example of each model, inside and outside of `part`.
    """
    if len(gradients) == len(factors):
        add_weighted(factors, gradients, out)
        return
    each = len(factors) // len(out)
    for model in range(part.start // each, (part.stop - 1) // each + 1):
        start, stop = max(part.start, model * each), min(part.stop, (model + 1) * each)
        of_model = gradients[start - part.start : stop - part.start]
        add_weighted(factors[start:stop], of_model, out[model : model + 1])


def add_product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Add `left @ right` to `out`, in place, for each model: (models, a, b) times (models, b, c) to (models, a, c)."""
    if len(out) == 1:
        out[0].addmm_(left[0], right[0])
    else:
        out.baddbmm_(left, right)


def sum_copies(values: Tensor, examples: int) -> Tensor:
    """Return `values` summed over the augmented copies of each example, which are consecutive rows.

    Without copies `values` itself is returned.
    """
    return values if len(values) == examples else values.view(examples, -1, *values.shape[1:]).sum(1)
