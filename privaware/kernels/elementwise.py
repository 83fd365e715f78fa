"""Fuse chains of small operations of a private step into single CUDA kernels, if Triton and a compiler are installed.

A step of a small model takes a few dozen kernel launches of about a microsecond each, so fewer launches are faster.
Without Triton PyTorch's own operations compute the same.
"""

# mypy: disable-error-code="untyped-decorator, no-untyped-def"
# (what Triton compiles is not Python: annotations other than constexpr would mislead)

from __future__ import annotations

import functools
from typing import Any

try:
    import triton
    from triton import language as tl
except ImportError:
    tl = triton = None

__all__ = [
    "clip_factors",
    "depthwise_gradients",
    "fits",
    "in_order",
    "product_squares",
    "ready",
    "scale_rows",
    "tl",
    "triton",
    "zero_rows",
]

NUMBERS_PER_PROGRAM = 1024
"""Largest number of values that one program of a kernel loads at once."""

WIDEST = 16 * NUMBERS_PER_PROGRAM
"""Largest width of a row that one program handles; PyTorch's own reductions are faster for wider rows."""


if triton is not None:

    @triton.jit
    def _product_squares(a, g, out, a_width, g_width, a_stride, g_stride, BIAS: tl.constexpr, SIZE: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        left = tl.zeros((SIZE,), tl.float32)
        right = tl.zeros((SIZE,), tl.float32)
        for start in range(0, a_width, SIZE):
            at = start + tl.arange(0, SIZE)
            value = tl.load(a + row * a_stride + at, mask=at < a_width, other=0.0)
            left += value * value
        for start in range(0, g_width, SIZE):
            at = start + tl.arange(0, SIZE)
            value = tl.load(g + row * g_stride + at, mask=at < g_width, other=0.0)
            right += value * value
        tl.store(out + row, (tl.sum(left, 0) + BIAS) * tl.sum(right, 0))

    @triton.jit
    def _factors(squares, norms, norm, out, count, slack, EACH: tl.constexpr, SIZE: tl.constexpr):
        at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
        inside = at < count
        square = tl.load(squares + at, mask=inside, other=1.0)
        if EACH:
            bound = tl.load(norms + at, mask=inside, other=1.0)
        else:
            bound = norm
        factor = tl.minimum(bound / (tl.sqrt(square) * slack), 1.0)
        tl.store(out + at, tl.where(square < float("inf"), factor, 0.0), mask=inside)

    @triton.jit
    def _weighted(values, weights, out, width, stride, SIZE: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        at = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
        weight = tl.load(weights + row)
        value = tl.load(values + row * stride + at, mask=at < width, other=0.0)
        scaled = tl.where(weight == 0.0, 0.0, value * weight)
        tl.store(out + row * width + at, scaled, mask=at < width)

    @triton.jit
    def _zero_rows(values, good, width, SIZE: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        if tl.load(good + row) == 0:
            for start in range(0, width, SIZE):
                at = start + tl.arange(0, SIZE)
                tl.store(values + row * width + at, tl.zeros((SIZE,), tl.float32), mask=at < width)

    @triton.jit
    def _in_order(keys, index, valid, index_out, valid_out, width, OWN: tl.constexpr, OTHERS: tl.constexpr):
        row = tl.program_id(1).to(tl.int64) * width
        at = tl.program_id(0) * OWN + tl.arange(0, OWN)
        inside = at < width
        own = tl.load(keys + row + at, mask=inside, other=0.0)[:, None]
        rank = tl.zeros((OWN,), tl.int32)
        for start in range(0, width, OTHERS):
            near = start + tl.arange(0, OTHERS)
            key = tl.load(keys + row + near, mask=near < width, other=float("inf"))[None, :]
            before = (key < own) | ((key == own) & (near[None, :] < at[:, None]))
            rank += tl.sum(before.to(tl.int32), 1)
        tl.store(index_out + row + rank, tl.load(index + row + at, mask=inside, other=0), mask=inside)
        tl.store(valid_out + row + rank, tl.load(valid + row + at, mask=inside, other=0.0), mask=inside)

    @triton.jit
    def _apart_gradients(
        x,
        g,
        out,
        height,
        width,
        high,
        wide,
        kernel_h,
        kernel_w,
        stride_h,
        stride_w,
        pad_h,
        pad_w,
        far_h,
        far_w,
        KERNEL: tl.constexpr,
        SIZE: tl.constexpr,
    ):
        plane = tl.program_id(0).to(tl.int64)
        spot = tl.arange(0, KERNEL)[:, None]
        used = spot < kernel_h * kernel_w
        down, across = (spot // kernel_w) * far_h - pad_h, (spot % kernel_w) * far_w - pad_w
        total = tl.zeros((KERNEL, SIZE), tl.float32)
        for start in range(0, high * wide, SIZE):
            at = start + tl.arange(0, SIZE)[None, :]
            inside = at < high * wide
            slope = tl.load(g + plane * high * wide + at, mask=inside, other=0.0)
            row, column = (at // wide) * stride_h + down, (at % wide) * stride_w + across
            seen = (row >= 0) & (row < height) & (column >= 0) & (column < width) & inside & used
            place = x + plane * height * width + row * width + column
            total += slope * tl.load(place, mask=seen, other=0.0)
        spots = tl.arange(0, KERNEL)
        area = kernel_h * kernel_w
        tl.store(out + plane * area + spots, tl.sum(total, 1), mask=spots < area)


@functools.cache
def ready(device: Any) -> bool:
    """Return whether kernels can be compiled for `device`, by compiling one; False without Triton or without CUDA."""
    import torch

    if triton is None or device.type != "cuda":
        return False
    try:
        one = torch.ones(1, device=device)
        _weighted[(1, 1)](one, one, one, 1, 1, SIZE=NUMBERS_PER_PROGRAM)
        return bool(one.item() == 1)
    except Exception:  # no compiler, an old driver, a read-only cache: any of it means "not here"
        return False


def fits(*tensors: Any) -> bool:
    """Return whether the kernels support `tensors`: float32, last axis contiguous, on a device that is `ready`."""
    import torch

    return all(t.is_cuda and t.dtype == torch.float32 and t.stride(-1) == 1 for t in tensors) and (
        ready(tensors[0].device)
    )


def product_squares(a: Any, g: Any, bias: bool) -> Any:
    """Return `(|a|^2 + bias) * |g|^2` for each row of the matrices `a` and `g`, where `bias` counts as 0 or 1."""
    out = a.new_empty(len(a))
    widths = (a.shape[1], g.shape[1])
    _product_squares[(len(a),)](a, g, out, *widths, a.stride(0), g.stride(0), BIAS=float(bias), SIZE=_size(max(widths)))
    return out


def clip_factors(squares: Any, norm: Any, slack: float) -> Any:
    """Return `min(1, norm / (sqrt(squares) * slack))`; 0 where a square is not finite.

    `norm` is a float for all squares, or a tensor with a number for each square. `slack` is a factor for the rounding
    of the norms. A square of 0 has the factor 1.
    """
    out = squares.new_empty(squares.shape)
    each = not isinstance(norm, float)
    norms, number = (norm, 1.0) if each else (squares, norm)
    grid = (triton.cdiv(squares.numel(), 256),)
    _factors[grid](squares, norms, number, out, squares.numel(), slack, EACH=each, SIZE=256)
    return out


def scale_rows(values: Any, weights: Any) -> Any:
    """Return each row of the matrix `values` times its entry of `weights`.

    A row with weight zero becomes zeros even if it is not finite.
    """
    out = values.new_empty(values.shape)
    width = values.shape[1]
    size = _size(width)
    _weighted[(len(values), triton.cdiv(width, size))](values, weights, out, width, values.stride(0), SIZE=size)
    return out


def zero_rows(values: Any, good: Any) -> None:
    """Write zeros, in place, into `values[r]` for each r with `good[r] == 0`; `values` is contiguous."""
    width = values.numel() // len(values)
    _zero_rows[(len(values),)](values, good, width, SIZE=_size(width))


def in_order(keys: Any, index: Any, valid: Any) -> tuple[Any, Any]:
    """Return `index` and `valid` with the entries of each row sorted by ascending `keys`; all are (rows, width).

    An entry's new position is the number of smaller keys in its row, plus the number of equal keys before it.
    """
    keys, index, valid = keys.contiguous(), index.contiguous(), valid.contiguous()
    out = index.new_empty(index.shape), valid.new_empty(valid.shape)
    rows, width = keys.shape
    _in_order[(triton.cdiv(width, 32), rows)](keys, index, valid, *out, width, OWN=32, OTHERS=128)
    return out


def depthwise_gradients(x: Any, g: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """Return the gradients (n, channels, kernel height * width) with respect to the weights of a depthwise convolution.

    `x` (n, channels, height, width) are the inputs and `g` the output gradients. `kernel`, `stride`, `padding` and
    `dilation` are (height, width).
    """
    area = kernel[0] * kernel[1]
    out = g.new_empty(*g.shape[:2], area)
    planes, places = g.shape[0] * g.shape[1], g.shape[2] * g.shape[3]
    size = min(128, _size(places))
    if planes:
        _apart_gradients[(planes,)](
            x,
            g,
            out,
            *x.shape[2:],
            *g.shape[2:],
            *kernel,
            *stride,
            *padding,
            *dilation,
            KERNEL=1 << (area - 1).bit_length(),
            SIZE=size,
        )
    return out


def _size(width: int) -> int:
    return min(NUMBERS_PER_PROGRAM, max(32, 1 << (width - 1).bit_length()))
