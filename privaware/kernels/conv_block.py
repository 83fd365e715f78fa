"""Bias, activation and 2 x 2 max pool after a convolution, as one CUDA kernel forwards and one backwards.

Tensor cores convolve images in channels-last layout. Per-example gradients with respect to the filters are fastest in
channels-first layout. The kernels write each number in both layouts while it is in a register, so no pass over memory
converts it. The maximum is taken before the activation, which is monotonic. If the activation makes several values of a
window equal, the kernel chooses the position of the largest input, and PyTorch the first position.

Images may be stored in float32 or bf16. The kernels compute in float32 in both cases.
"""

# mypy: disable-error-code="untyped-decorator, no-untyped-def"
# (what Triton compiles is not Python: annotations other than constexpr would mislead)

from __future__ import annotations

from typing import Any, NamedTuple

from privaware.kernels.elementwise import tl, triton

__all__ = ["Above", "Images", "bias_activation_pool", "bias_activation_pool_backward"]


class Images(NamedTuple):
    """The outputs of `bias_activation_pool`.

    `channels_first` holds the images (n, filters, height, width) in channels-first memory layout. `channels_last` holds
    the same images, of the same shape, in channels-last memory layout, or None if they were not requested. `argmax` is
    the position, from 0 to 3, of the largest input of each 2 x 2 window (int8), or None without a pool.
    """

    channels_first: Any
    channels_last: Any
    argmax: Any


class Above(NamedTuple):
    """What the backward pass of `bias_activation_pool` reads.

    `gradient` is the gradient with respect to the output, and `output` the output; both have the same layout. `argmax`
    is as in `Images`.
    """

    gradient: Any
    output: Any
    argmax: Any


if triton is not None:

    @triton.jit
    def _active(value, KIND: tl.constexpr):
        if KIND == "relu":
            return tl.where(value < 0.0, 0.0, value)
        square = value * value
        series = 0.13333334 - square * (0.053968254 - square * 0.021869488)
        small = value * (1.0 - square * (0.33333334 - square * series))
        shrunk = tl.exp(-2.0 * tl.abs(value))
        large = (1.0 - shrunk) / (1.0 + shrunk)
        return tl.where(square < 0.09, small, tl.where(value < 0.0, -large, large))

    @triton.jit
    def _slope(value, KIND: tl.constexpr):
        """Return the derivative of ReLU if `KIND` is "relu", else of tanh, from the activation's output `value`."""
        if KIND == "relu":
            return tl.where(value > 0.0, 1.0, 0.0)
        return 1.0 - value * value

    @triton.jit
    def _activated(
        z,
        bias,
        last,
        first,
        index,
        filters,
        high,
        wide,
        places,
        broad,
        KIND: tl.constexpr,
        BIAS: tl.constexpr,
        POOL: tl.constexpr,
        SIDE: tl.constexpr,
        LAST: tl.constexpr,
        FILTERS: tl.constexpr,
        PLACES: tl.constexpr,
    ):
        row = tl.program_id(0).to(tl.int64)
        channel = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
        z += row * high * wide * filters
        out = row * places * filters
        for start in range(0, places, PLACES):
            place = start + tl.arange(0, PLACES)
            inside = place < places
            here = out + place[:, None] * filters + channel[None, :]
            corner = place
            if POOL:
                corner = place // broad * (2 * wide) + place % broad * 2
            if SIDE:
                source = z + corner[:, None] * filters + channel[None, :]
                away, used = filters, inside[:, None]
            else:
                source = z + channel[:, None] * (high * wide) + corner[None, :]
                away, used = 1, inside[None, :]
            best = tl.load(source, mask=used, other=0.0).to(tl.float32)
            if POOL:
                chosen = tl.zeros_like(best).to(tl.int32)
                for tap in tl.static_range(1, 4):
                    value = tl.load(source + (tap // 2 * wide + tap % 2) * away, mask=used, other=0.0)
                    value = value.to(tl.float32)
                    better = (value > best) | (value != value)
                    best = tl.where(better, value, best)
                    chosen = tl.where(better, tap, chosen)
                if not SIDE:
                    chosen = tl.trans(chosen)
                tl.store(index + here, chosen.to(tl.int8), mask=inside[:, None])
            if not SIDE:
                best = tl.trans(best)
            if BIAS:
                best += tl.load(bias + channel)[None, :]
            made = _active(best, KIND)
            if LAST:
                tl.store(last + here, made, mask=inside[:, None])
            turned = first + out + channel[:, None] * places + place[None, :]
            tl.store(turned, tl.trans(made), mask=inside[None, :])

    @triton.jit
    def _activated_back(
        g,
        y,
        index,
        last,
        first,
        sums,
        filters,
        high,
        wide,
        places,
        tall,
        broad,
        KIND: tl.constexpr,
        POOL: tl.constexpr,
        SIDE: tl.constexpr,
        LAST: tl.constexpr,
        FIRST: tl.constexpr,
        SUMS: tl.constexpr,
        FILTERS: tl.constexpr,
        PLACES: tl.constexpr,
    ):
        row = tl.program_id(0).to(tl.int64)
        channel = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
        image = high * wide
        out = row * places * filters
        into = row * image * filters
        total = tl.zeros((FILTERS,), tl.float32)
        for start in range(0, image, PLACES):
            place = start + tl.arange(0, PLACES)
            inside = place < image
            spot, seen = place, inside
            if POOL:
                down, across = place // wide, place % wide
                seen = inside & (down < 2 * tall) & (across < 2 * broad)
                spot = down // 2 * broad + across // 2
            here = out + spot[:, None] * filters + channel[None, :]
            if SIDE:
                slope = tl.load(g + here, mask=seen[:, None], other=0.0).to(tl.float32)
                value = tl.load(y + here, mask=seen[:, None], other=0.0).to(tl.float32)
                slope *= _slope(value, KIND)
            else:
                turned = out + channel[:, None] * places + spot[None, :]
                slope = tl.load(g + turned, mask=seen[None, :], other=0.0).to(tl.float32)
                value = tl.load(y + turned, mask=seen[None, :], other=0.0).to(tl.float32)
                slope = tl.trans(slope * _slope(value, KIND))
            if POOL:
                taken = tl.load(index + here, mask=seen[:, None], other=-1).to(tl.int32)
                slope = tl.where(taken == (down % 2 * 2 + across % 2)[:, None], slope, 0.0)
            if SUMS:
                total += tl.sum(slope, 0)
            if LAST:
                to = into + place[:, None] * filters + channel[None, :]
                tl.store(last + to, slope, mask=inside[:, None])
            if FIRST:
                to = into + channel[:, None] * image + place[None, :]
                tl.store(first + to, tl.trans(slope), mask=inside[None, :])
        if SUMS:
            tl.store(sums + row * filters + channel, total)


def bias_activation_pool(z: Any, bias: Any, activation: str, *, pool: bool, channels_last: bool) -> Images:
    """Return `activation(z + bias)` for the outputs `z` (n, filters, height, width) of a convolution.

    `z` may have either layout, and its number of filters is a multiple of 16. `bias` (filters,) may be None.
    `activation` is "tanh" or "relu". With `pool` a max pool over 2 x 2 windows follows, which drops an odd last line or
    column. With `channels_last` the outputs are written in channels-last layout too. The outputs have the type of `z`.
    """
    import torch

    examples, filters, high, wide = z.shape
    tall, broad = (high // 2, wide // 2) if pool else (high, wide)
    first = z.new_empty(examples, filters, tall, broad)
    last = _channels_last(first, first.shape) if channels_last else None
    argmax = _channels_last(first, first.shape, torch.int8) if pool else None
    positions = tall * broad
    grid, tile = _grid(examples, filters, positions)
    _activated[grid](
        z,
        z if bias is None else bias,
        first if last is None else last,
        first,
        first if argmax is None else argmax,
        filters,
        high,
        wide,
        positions,
        broad,
        KIND=activation,
        BIAS=bias is not None,
        POOL=pool,
        SIDE=z.is_contiguous(memory_format=torch.channels_last),
        LAST=channels_last,
        **tile,
    )
    return Images(first, last, argmax)


def bias_activation_pool_backward(
    above: Above, size: Any, activation: str, *, channels_last: bool, channels_first: bool, sums: bool
) -> tuple[Any, Any, Any]:
    """Return the gradient with respect to `z`, the argument of `bias_activation_pool`, in up to three forms.

    The forms are: channels-last layout, channels-first layout, and summed over positions, (n, filters) in float32. A
    form that is not requested by `channels_last`, `channels_first` or `sums` is None. `above` is what the backward pass
    reads. `size` is the (height, width) of `z`, and `activation` is "tanh" or "relu".
    """
    import torch

    g, y, argmax = above
    (examples, filters, tall, broad), (high, wide) = y.shape, size
    side = y.is_contiguous(memory_format=torch.channels_last)
    first = y.new_empty(examples, filters, high, wide) if channels_first else None
    last = _channels_last(y, (examples, filters, high, wide)) if channels_last else None
    total = y.new_empty(examples, filters, dtype=torch.float32) if sums else None
    grid, tile = _grid(examples, filters, high * wide)
    _activated_back[grid](
        g,
        y,
        y if argmax is None else argmax,
        *(y if part is None else part for part in (last, first, total)),
        filters,
        high,
        wide,
        tall * broad,
        tall,
        broad,
        KIND=activation,
        POOL=argmax is not None,
        SIDE=side,
        LAST=channels_last,
        FIRST=channels_first,
        SUMS=sums,
        **tile,
    )
    return last, first, total


def _grid(examples: int, filters: int, positions: int) -> tuple[tuple[int, int], dict[str, int]]:
    """Return the launch grid of a kernel and its tile size, by the names of the kernel's constants.

    A program handles 16 or 32 filters of one example, at all `positions` in turn. `filters` is a multiple of 16.
    """
    each = 32 if filters % 32 == 0 else 16
    wide = max(16, min(64, 1 << (positions - 1).bit_length()))
    return (examples, filters // each), {"FILTERS": each, "PLACES": wide}


def _channels_last(like: Any, shape: Any, dtype: Any = None) -> Any:
    import torch

    kind = {"dtype": dtype or like.dtype, "device": like.device}
    return torch.empty(shape, memory_format=torch.channels_last, **kind)
