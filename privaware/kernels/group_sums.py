"""Sum groups of examples in float64 by CUDA kernels, with rounding to a lattice or through weight standardisation.

Rounding to a lattice means rounding to multiples of a power of two. PyTorch would pass over memory for each operation.
These kernels read a model's groups once and keep them in registers.
"""

# mypy: disable-error-code="untyped-decorator, no-untyped-def"
# (what Triton compiles is not Python: annotations other than constexpr would mislead)

from __future__ import annotations

from typing import Any

from privaware.kernels.elementwise import tl, triton

__all__ = ["MOST_NUMBERS", "add_on_lattice", "add_standardised"]

NUMBERS_PER_PROGRAM = 512
"""Number of columns that one program of `add_on_lattice` sums."""

MOST_NUMBERS = 2**13
"""Largest number of entries of a filter that one program can hold in its registers."""


if triton is not None:

    @triton.jit
    def _add_on_lattice(sums, total, offsets, groups, width, parameters, SIZE: tl.constexpr):
        model = tl.program_id(1).to(tl.int64)
        at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
        inside = at < width
        offset = tl.load(offsets + model)
        value = tl.load(total + model * width + at, mask=inside, other=0.0)
        for group in range(groups):
            term = tl.load(sums + (model * groups + group) * width + at, mask=inside, other=0.0).to(tl.float64)
            term = tl.where(at < parameters, (term + offset) - offset, term)
            value += term
        tl.store(total + model * width + at, value, mask=inside)

    @triton.jit
    def _add_standardised(gradients, centred, sizes, out, groups, filters, count, stride, SIZE: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        group, channel = row // filters, row % filters
        own = (group // groups) * filters + channel
        at = tl.arange(0, SIZE)
        inside = at < count
        size = tl.load(sizes + own).to(tl.float64)
        middle = tl.load(centred + own * count + at, mask=inside, other=0.0).to(tl.float64)
        gradient = tl.load(gradients + row * count + at, mask=inside, other=0.0).to(tl.float64)
        along = tl.sum(gradient * middle, 0)
        part = gradient / size - middle * (along * count / tl.maximum(count - 1, 1) / (size * size * size))
        part = part - tl.sum(part, 0) / count
        place = out + group * stride + channel * count + at
        before = tl.load(place, mask=inside, other=0.0).to(tl.float64)
        tl.store(place, (before + part).to(tl.float32), mask=inside)


def add_on_lattice(sums: Any, total: Any, offset: Any, parameters: int) -> None:
    """Add float32 `sums` (models, groups, width), over their groups, to the float64 `total` (models, width), in place.

    In the first `parameters` columns each sum is first rounded to a multiple of the spacing of float64 numbers near
    `offset` (models, 1); for each model this spacing is a power of two. Other columns are added without rounding.
    """
    models, groups, width = sums.shape
    grid = (triton.cdiv(width, NUMBERS_PER_PROGRAM), models)
    _add_on_lattice[grid](sums, total, offset, groups, width, parameters, SIZE=NUMBERS_PER_PROGRAM)


def add_standardised(gradients: Any, centred: Any, sizes: Any, out: Any) -> None:
    """Turn gradients with respect to standardised filters into gradients with respect to original ones, added to `out`.

    For a gradient g with respect to a filter of n entries, which has the centred values c and the scale s, let
    `p = g / s - c * sum(g * c) * n / (max(n - 1, 1) * s^3)`. Then `p - mean(p)` is added to `out`, in place.
    `gradients` and `out` are (rows, filters, ...), `centred` is (models, filters, ...) and `sizes`, the scales,
    (models, filters). Each model has equally many consecutive rows. A filter has at most `MOST_NUMBERS` entries. The
    rows of `out` need not be adjacent in memory.
    """
    filters, count = gradients.shape[1], gradients[0, 0].numel()
    groups = len(gradients) // len(centred)
    size = triton.next_power_of_2(count)
    numbers = (groups, filters, count, out.stride(0))
    _add_standardised[(len(gradients) * filters,)](
        gradients, centred, sizes, out, *numbers, SIZE=size, num_warps=8 if size > 2048 else 4
    )
