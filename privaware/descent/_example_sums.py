"""Norms and weighted sums of per-example gradients, and what they are computed from in parts.

Every sum adds one number an example to each entry: an example's positions are added up first, so what rounding does to
the sum of many examples is bounded by their clipped norms (`_rounding.py`), whatever cancels within an example.
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

__all__ = [
    "GHOST_POSITIONS",
    "add_at",
    "add_product",
    "add_slice",
    "add_weighted",
    "ghost_norms",
    "keep_examples",
    "materialised_limit",
    "rounded_up",
    "scale_examples",
    "slices",
    "square_sums",
    "sum_copies",
    "zero_in_place",
]

GHOST_POSITIONS = 256
"""Above so many positions a ghost norm would be raised by too much of what cancels; see `rounded_up`."""

CACHED = 2**18
"""Numbers of a slice of examples that a CPU adds up while its cache holds them."""


@functools.cache
def materialised_limit(device: torch.device) -> int:
    """How many numbers of a layer's per-example gradients may be kept between norm and sum: 1/64 of a GPU's memory."""
    if device.type != "cuda":
        return 2**26
    return int(torch.cuda.get_device_properties(device).total_memory) // 256


def square_sums(values: Tensor) -> Tensor:
    """The sum of squares of each example; that of long ones from those of blocks, because many additions round more."""
    flat = values.reshape(len(values), -1)
    width = flat.shape[1]
    if width <= 2 * NORM_BLOCK:
        return torch.linalg.vector_norm(flat, dim=1).square_()
    even = width // NORM_BLOCK * NORM_BLOCK
    sizes = torch.linalg.vector_norm(flat[:, :even].view(len(flat), -1, NORM_BLOCK), dim=2)
    squares = torch.linalg.vector_norm(sizes, dim=1).square_()
    return squares if even == width else squares + torch.linalg.vector_norm(flat[:, even:], dim=1).square_()


def add_at(out: Tensor, index: Tensor, values: Tensor) -> Tensor:
    """Adds rows of `values` to the rows `index` of `out`, in an order that is the same each time."""
    return out.index_put_((index,), values, accumulate=True) if out.is_cuda else out.index_add_(0, index, values)


def ghost_norms(left: Tensor, right: Tensor, terms: int) -> Tensor:
    """Squared norms from Gram matrices of positions, (n, positions, positions), that are sums of `terms` in all."""
    of_inputs, of_gradients = (t.diagonal(dim1=1, dim2=2).sum(1) for t in (left, right))
    return rounded_up((left * right).sum((1, 2)), of_inputs, of_gradients, terms, left.shape[1])


def rounded_up(squares: Tensor, of_inputs: Tensor, of_gradients: Tensor, terms: int, positions: int) -> Tensor:
    """Ghost norms raised by the rounding error of the products they come from: none is underestimated.

    A matrix product adds about eight terms at a time and rounds or truncates each sum, by at most eps of the product of
    two positions' norms. All positions together are wrong by at most so many eps of the squared norms of all inputs
    and all output gradients. Sixteen more are for the sums over pairs of positions. The gradient itself is computed
    later, as a sum over positions; norms are raised so far that this rounds at most `POSITION_ROUNDING` of them.
    """
    eps = torch.finfo(squares.dtype).eps
    of_sum = positions * eps * (1 / 8 if tf32_allowed() else 1 / 2) / POSITION_ROUNDING
    slack = max(eps * (terms / 8 + 16), of_sum**2)
    return (squares + slack * of_inputs * of_gradients).clamp_min_(0)


def keep_examples(values: Tensor, keep: Tensor) -> Tensor:
    """`values` with all other examples set to zero, even where they are not finite."""
    return torch.where(keep.view(-1, *[1] * (values.ndim - 1)), values, 0)


def zero_in_place(values: Tensor, keep: Tensor) -> Tensor:
    """The same for a tensor that nothing else reads: examples that are kept need not be copied."""
    if len(values) > 1 and values.is_contiguous() and elementwise.fits(values):
        elementwise.zero_rows(values, keep)
        return values
    return keep_examples(values, keep)


def scale_examples(values: Tensor, factors: Tensor) -> Tensor:
    """Each example times its factor."""
    if values.ndim == 2 and elementwise.fits(values):
        return elementwise.scale_rows(values, factors)
    return values * factors.view(-1, *[1] * (values.ndim - 1))


def add_weighted(factors: Tensor, gradients: Tensor, out: Tensor) -> None:
    """Adds each model's weighted sum of its examples to `out` (models, *shape)."""
    models = len(out)
    width = math.prod(out.shape[1:])
    if models == 1:
        out.view(-1).addmv_(gradients.reshape(-1, width).T, factors)
        return
    rows = out.view(models, 1, width)
    rows.baddbmm_(factors.view(models, 1, -1), gradients.reshape(models, -1, width))


def slices(examples: int, numbers: int, device: torch.device) -> Iterator[slice]:
    """Parts of the examples whose gradients, so many `numbers` each, are materialised at once."""
    limit = materialised_limit(device) if device.type == "cuda" else min(CACHED, materialised_limit(device))
    size = max(1, limit // numbers)
    return (slice(start, min(start + size, examples)) for start in range(0, examples, size))


def add_slice(factors: Tensor, gradients: Tensor, part: slice, out: Tensor) -> None:
    """Adds the weighted gradients of the examples in `part`, each to its own model's sum."""
    if len(gradients) == len(factors):
        add_weighted(factors, gradients, out)
        return
    each = len(factors) // len(out)
    for model in range(part.start // each, (part.stop - 1) // each + 1):
        start, stop = max(part.start, model * each), min(part.stop, (model + 1) * each)
        of_model = gradients[start - part.start : stop - part.start]
        add_weighted(factors[start:stop], of_model, out[model : model + 1])


def add_product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """out += left @ right, for each model."""
    if len(out) == 1:
        out[0].addmm_(left[0], right[0])
    else:
        out.baddbmm_(left, right)


def sum_copies(values: Tensor, examples: int) -> Tensor:
    """(n, ...) summed over the augmented copies of each example."""
    return values if len(values) == examples else values.view(examples, -1, *values.shape[1:]).sum(1)
