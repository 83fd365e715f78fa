"""Pool each channel by single CUDA kernels. Kernels of 3 x 3 windows can add to existing values.

The position of a window's maximum is stored in one byte. Without Triton PyTorch's own operations compute the same.
"""

# mypy: disable-error-code="untyped-decorator, no-untyped-def"
# (what Triton compiles is not Python: annotations other than constexpr would mislead)

from __future__ import annotations

from typing import Any

from privaware.kernels.elementwise import tl, triton

__all__ = ["avg_pool_3x3", "max_pool_2x2", "max_pool_2x2_backward", "max_pool_3x3", "max_pool_3x3_backward"]

SIZE = 512
"""Number of values of an example that one program handles."""


if triton is not None:

    def compiled(function):
        """Compile `function` once for each combination of values of its annotated parameters (`tl.constexpr`).

        Other values of other arguments do not cause another compilation, but arguments of other types do.
        """
        parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
        plain = [name for name in parameters if name not in function.__annotations__]
        return triton.jit(do_not_specialize=plain)(function)

    @triton.jit
    def seen_from(inside, down, across, tap: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr):
        """Return a mask of the positions whose neighbour in the 3 x 3 window lies inside the image.

        `tap` is the number of the neighbour in the window, from 0 to 8 line by line. `inside` is the mask of existing
        positions, `down` and `across` are their lines and columns, and `HIGH` and `WIDE` are the image's height and
        width.
        """
        if tap < 3:
            inside = inside & (down > 0)
        if tap > 5:
            inside = inside & (down < HIGH - 1)
        if tap % 3 == 0:
            inside = inside & (across > 0)
        if tap % 3 == 2:
            inside = inside & (across < WIDE - 1)
        return inside

    @compiled
    def _maxima(x, y, index, x_row, y_row, width, add, HIGH: tl.constexpr, WIDE: tl.constexpr, SIZE: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        at = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
        inside = at < width
        down, across = at // WIDE % HIGH, at % WIDE
        best = tl.full((SIZE,), float("-inf"), tl.float32)
        chosen = tl.full((SIZE,), 4, tl.int32)
        for tap in tl.static_range(9):
            seen = seen_from(inside, down, across, tap, HIGH, WIDE)
            near = x + row * x_row + at + ((tap // 3 - 1) * WIDE + tap % 3 - 1)
            value = tl.load(near, mask=seen, other=float("-inf")).to(tl.float32)
            better = (value > best) | (value != value)
            best = tl.where(better, value, best)
            chosen = tl.where(better, tap, chosen)
        tl.store(index + row * width + at, chosen.to(tl.int8), mask=inside)
        out = y + row * y_row + at
        before = tl.load(out, mask=at < width * add, other=0.0).to(tl.float32)
        tl.store(out, before + best, mask=inside)

    @compiled
    def _maxima_back(
        g,
        index,
        base,
        dx,
        g_row,
        base_row,
        dx_row,
        width,
        add,
        HIGH: tl.constexpr,
        WIDE: tl.constexpr,
        SIZE: tl.constexpr,
    ):
        row = tl.program_id(0).to(tl.int64)
        at = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
        inside = at < width
        down, across = at // WIDE % HIGH, at % WIDE
        total = tl.load(base + row * base_row + at, mask=at < width * add, other=0.0).to(tl.float32)
        for tap in tl.static_range(9):
            seen = seen_from(inside, down, across, tap, HIGH, WIDE)
            near = at + ((tap // 3 - 1) * WIDE + tap % 3 - 1)
            taken = tl.load(index + row * width + near, mask=seen, other=-1)
            value = tl.load(g + row * g_row + near, mask=seen, other=0.0).to(tl.float32)
            total += tl.where(taken.to(tl.int32) == 8 - tap, value, 0.0)
        tl.store(dx + row * dx_row + at, total, mask=inside)

    @compiled
    def _halved(
        x,
        y,
        index,
        width,
        WIDE: tl.constexpr,
        TALL: tl.constexpr,
        BROAD: tl.constexpr,
        PLANE: tl.constexpr,
        SIZE: tl.constexpr,
    ):
        row = tl.program_id(0).to(tl.int64)
        at = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
        inside = at < width
        corner = at // (TALL * BROAD) * PLANE + at // BROAD % TALL * (2 * WIDE) + at % BROAD * 2
        corner += row * (width // (TALL * BROAD) * PLANE)
        best = tl.load(x + corner, mask=inside, other=0.0).to(tl.float32)
        chosen = tl.zeros((SIZE,), tl.int32)
        for tap in tl.static_range(1, 4):
            value = tl.load(x + corner + (tap // 2 * WIDE + tap % 2), mask=inside, other=0.0)
            value = value.to(tl.float32)
            better = (value > best) | (value != value)
            best = tl.where(better, value, best)
            chosen = tl.where(better, tap, chosen)
        tl.store(index + row * width + at, chosen.to(tl.int8), mask=inside)
        tl.store(y + row * width + at, best, mask=inside)

    @compiled
    def _halved_back(
        g,
        index,
        dx,
        width,
        HIGH: tl.constexpr,
        WIDE: tl.constexpr,
        TALL: tl.constexpr,
        BROAD: tl.constexpr,
        SIZE: tl.constexpr,
    ):
        row = tl.program_id(0).to(tl.int64)
        at = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
        down, across = at // WIDE % HIGH, at % WIDE
        seen = (at < width) & (down < 2 * TALL) & (across < 2 * BROAD)
        spot = at // (HIGH * WIDE) * (TALL * BROAD) + down // 2 * BROAD + across // 2
        spot += row * (width // (HIGH * WIDE) * (TALL * BROAD))
        taken = tl.load(index + spot, mask=seen, other=-1).to(tl.int32)
        value = tl.load(g + spot, mask=seen, other=0.0)
        chosen = taken == down % 2 * 2 + across % 2
        tl.store(dx + row * width + at, tl.where(chosen, value, 0.0), mask=at < width)

    @compiled
    def _averaged(
        x, base, y, x_row, base_row, y_row, width, add, HIGH: tl.constexpr, WIDE: tl.constexpr, SIZE: tl.constexpr
    ):
        row = tl.program_id(0).to(tl.int64)
        at = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
        inside = at < width
        down, across = at // WIDE % HIGH, at % WIDE
        total = tl.zeros((SIZE,), tl.float32)
        for tap in tl.static_range(9):
            seen = seen_from(inside, down, across, tap, HIGH, WIDE)
            total += tl.load(x + row * x_row + at + ((tap // 3 - 1) * WIDE + tap % 3 - 1), mask=seen, other=0.0).to(
                tl.float32
            )
        before = tl.load(base + row * base_row + at, mask=at < width * add, other=0.0)
        tl.store(y + row * y_row + at, before.to(tl.float32) + total / 9.0, mask=inside)


def max_pool_3x3(x: Any, y: Any, add: bool) -> Any:
    """Write the maximum of the 3 x 3 window around each position of `x` into `y`, or with `add` add it to `y`.

    Both are (n, channels, height, width). Return the place of each maximum in its window, from 0 to 8 line by line
    (int8). Places beyond the edges of the image do not count.
    """
    index, width = _bytes(y), y[0].numel()
    _maxima[(len(x), triton.cdiv(width, SIZE))](
        x, y, index, x.stride(0), y.stride(0), width, int(add), *x.shape[2:], SIZE
    )
    return index


def max_pool_3x3_backward(g: Any, index: Any, base: Any, dx: Any) -> None:
    """Write the gradient with respect to the input of `max_pool_3x3` into `dx`, plus `base` unless it is None.

    At each position the gradient is the sum of the output gradients `g` of all windows whose maximum is there. `index`
    is what `max_pool_3x3` returned. All are (n, channels, height, width).
    """
    width = dx[0].numel()
    under = dx if base is None else base
    _maxima_back[(len(g), triton.cdiv(width, SIZE))](
        g,
        index,
        under,
        dx,
        g.stride(0),
        under.stride(0),
        dx.stride(0),
        width,
        int(base is not None),
        *dx.shape[2:],
        SIZE,
    )


def max_pool_2x2(x: Any) -> tuple[Any, Any]:
    """Return the maximum of each 2 x 2 block of the images `x`, and its place in the block, from 0 to 3 line by line.

    `x` (n, channels, height, width) is contiguous. The maxima are float32 and the places int8, both with half the
    height and width. An odd last line or column is dropped.
    """
    import torch

    rows, channels, high, wide = x.shape
    y = x.new_empty(rows, channels, high // 2, wide // 2, dtype=torch.float32)
    index, width = _bytes(y), y[0].numel()
    _halved[(rows, triton.cdiv(width, SIZE))](x, y, index, width, wide, *y.shape[2:], high * wide, SIZE)
    return y, index


def max_pool_2x2_backward(g: Any, index: Any, dx: Any) -> None:
    """Write each block's gradient `g` into `dx` at the position `index` of its maximum, and zero elsewhere.

    `index` is the second result of `max_pool_2x2`, and `dx` has the shape of its input.
    """
    width = dx[0].numel()
    _halved_back[(len(g), triton.cdiv(width, SIZE))](g, index, dx, width, *dx.shape[2:], *g.shape[2:], SIZE)


def avg_pool_3x3(x: Any, base: Any, y: Any) -> None:
    """Write `base + window_sum / 9` into `y` for the 3 x 3 window around each position of `x`; no `base` counts as 0.

    All are (n, channels, height, width). Values beyond the edges count as 0. The backward pass is the same operation on
    the gradients.
    """
    width = x[0].numel()
    under = y if base is None else base
    _averaged[(len(x), triton.cdiv(width, SIZE))](
        x, under, y, x.stride(0), under.stride(0), y.stride(0), width, int(base is not None), *x.shape[2:], SIZE
    )


def _bytes(like: Any) -> Any:
    import torch

    return torch.empty(like.shape, dtype=torch.int8, device=like.device)
