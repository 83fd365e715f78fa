"""Layers of the network `dpnas` as CUDA kernels: depthwise 3 x 3 convolution, group norm, activation and pools.

These layers form cells: small graphs, in which a node is the sum of several layers' outputs.
A program handles one group of channels of one example, so examples never mix. A convolution, its group norm and its
activation read the input once. The backward pass reads the stored normalised values. The kernels of convolutions and of
3 x 3 pools can add to existing values, so the sum over a node's inputs needs no separate pass. Values are stored as
float32 or bf16 and computed in float32. Without Triton, or for other shapes, PyTorch's own operations compute the same.
"""

# mypy: disable-error-code="untyped-decorator, no-untyped-def"
# (what Triton compiles is not Python: annotations other than constexpr would mislead)

from __future__ import annotations

from typing import Any

from privaware.kernels import elementwise
from privaware.kernels.elementwise import tl, triton
from privaware.kernels.pooling import (
    avg_pool_3x3,
    max_pool_2x2,
    max_pool_2x2_backward,
    max_pool_3x3,
    max_pool_3x3_backward,
)

__all__ = [
    "ACTIVATIONS",
    "avg_pool_3x3",
    "conv_norm_activation",
    "conv_norm_activation_backward",
    "fits",
    "fits_groups",
    "group_norm",
    "group_norm_backward",
    "max_pool_2x2",
    "max_pool_2x2_backward",
    "max_pool_3x3",
    "max_pool_3x3_backward",
]

ACTIVATIONS = ("linear", "relu", "selu", "tanh", "hardtanh", "sigmoid")
"""Names of the activations. The position of a name is the activation's number, the argument `kind` of the kernels."""

WIDEST = 16384
"""Largest number of values of one group of channels of one example that one program holds."""


if triton is not None:
    from privaware.kernels.pooling import compiled, seen_from

    @triton.jit
    def _bent(v, kind):
        """Return the activation of `v` with the number (index in `ACTIVATIONS`) `kind`; NaN stays NaN."""
        if kind == 1:
            v = tl.where(v <= 0.0, 0.0, v)
        elif kind == 2:
            low = 1.7580993408473766 * (tl.exp(v) - 1.0)
            v = tl.where(v > 0.0, 1.0507009873554805 * v, low)
        elif kind == 3:
            v = 2.0 / (1.0 + tl.exp(-2.0 * v)) - 1.0
        elif kind == 4:
            v = tl.where(v < -1.0, -1.0, tl.where(v > 1.0, 1.0, v))
        elif kind == 5:
            v = 1.0 / (1.0 + tl.exp(-v))
        return v

    @triton.jit
    def _bent_back(g, v, kind):
        """Return `g` times the derivative at `v` of the activation with the number (index in `ACTIVATIONS`) `kind`."""
        if kind == 1:
            g = tl.where(v <= 0.0, 0.0, g)
        elif kind == 2:
            g *= tl.where(v > 0.0, 1.0507009873554805, 1.7580993408473766 * tl.exp(v))
        elif kind == 3:
            bent = 2.0 / (1.0 + tl.exp(-2.0 * v)) - 1.0
            g *= 1.0 - bent * bent
        elif kind == 4:
            g = tl.where((v <= -1.0) | (v >= 1.0), 0.0, g)
        elif kind == 5:
            bent = 1.0 / (1.0 + tl.exp(-v))
            g *= bent * (1.0 - bent)
        return g

    @triton.jit
    def _near(x, channel, place, inside, tap: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr):
        """Return, for every position, one neighbour in its 3 x 3 window in `x`; a neighbour beyond the edges is zero.

        `tap` is the number of the neighbour in the window, from 0 to 8 line by line. `x` points to channels of `HIGH` x
        `WIDE` positions. `channel` and `place` are the indices of channels and positions, and `inside` is the mask of
        existing pairs.
        """
        seen = seen_from(inside, place // WIDE, place % WIDE, tap, HIGH, WIDE)
        at = x + channel * (HIGH * WIDE) + place + ((tap // 3 - 1) * WIDE + tap % 3 - 1)
        return tl.load(at, mask=seen, other=0.0).to(tl.float32)

    @triton.jit
    def _slid(x, w, channel, place, used, inside, HIGH: tl.constexpr, WIDE: tl.constexpr):
        """Convolve each channel of `x` with its own nine weights in `w`, by a 3 x 3 window with zeros beyond the edges.

        `used` is the mask of existing channels. The other arguments are as in `_near`.
        """
        total = tl.zeros(inside.shape, tl.float32)
        for tap in tl.static_range(9):
            weight = tl.load(w + channel * 9 + tap, mask=used, other=0.0)
            total += weight * _near(x, channel, place, inside, tap, HIGH, WIDE)
        return total

    @compiled
    def _convolved(
        x,
        w,
        y,
        normed,
        scales,
        x_row,
        y_row,
        w_model,
        each,
        groups,
        kind,
        add,
        keep,
        eps,
        HIGH: tl.constexpr,
        WIDE: tl.constexpr,
        CHANNELS: tl.constexpr,
        C: tl.constexpr,
        S: tl.constexpr,
    ):
        at = tl.program_id(0)
        row, group = (at // groups).to(tl.int64), at % groups
        channel, place = tl.arange(0, C)[:, None], tl.arange(0, S)[None, :]
        used = channel < CHANNELS
        inside = used & (place < HIGH * WIDE)
        start = group * (CHANNELS * HIGH * WIDE)
        weights = w + (row // each) * w_model + group * (CHANNELS * 9)
        z = _slid(x + row * x_row + start, weights, channel, place, used, inside, HIGH, WIDE)
        mean = tl.sum(tl.sum(z, 0), 0) / (CHANNELS * HIGH * WIDE)
        z = tl.where(inside, z - mean, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(tl.sum(z * z, 0), 0) / (CHANNELS * HIGH * WIDE) + eps)
        z *= scale
        spot = channel * (HIGH * WIDE) + place
        kept = normed + row * (groups * CHANNELS * HIGH * WIDE) + start
        tl.store(kept + spot, z, mask=used & (place < HIGH * WIDE * keep))
        tl.store(scales + at, scale)
        out = y + row * y_row + start
        before = tl.load(out + spot, mask=used & (place < HIGH * WIDE * add), other=0.0)
        tl.store(out + spot, before.to(tl.float32) + _bent(z, kind), mask=inside)

    @compiled
    def _convolved_back(
        x,
        w,
        g,
        normed,
        scales,
        base,
        dx,
        dw,
        x_row,
        g_row,
        base_row,
        dx_row,
        w_model,
        each,
        groups,
        kind,
        add,
        HIGH: tl.constexpr,
        WIDE: tl.constexpr,
        CHANNELS: tl.constexpr,
        C: tl.constexpr,
        S: tl.constexpr,
    ):
        at = tl.program_id(0)
        row, group = (at // groups).to(tl.int64), at % groups
        channel, place = tl.arange(0, C)[:, None], tl.arange(0, S)[None, :]
        used = channel < CHANNELS
        inside = used & (place < HIGH * WIDE)
        start = group * (CHANNELS * HIGH * WIDE)
        spot = channel * (HIGH * WIDE) + place
        weights = w + (row // each) * w_model + group * (CHANNELS * 9)
        own = dx + row * dx_row + start
        kept = normed + at.to(tl.int64) * (CHANNELS * HIGH * WIDE) + spot
        z = tl.load(kept, mask=inside, other=0.0).to(tl.float32)
        scale = tl.load(scales + at)
        above = tl.load(g + row * g_row + start + spot, mask=inside, other=0.0).to(tl.float32)
        slope = _bent_back(above, z, kind)
        level = tl.sum(tl.sum(slope, 0), 0) / (CHANNELS * HIGH * WIDE)
        tilt = tl.sum(tl.sum(slope * z, 0), 0) / (CHANNELS * HIGH * WIDE)
        slope = tl.where(inside, scale * (slope - level - z * tilt), 0.0)
        tl.store(own + spot, slope, mask=inside)
        tl.debug_barrier()  # wait until the neighbours have written
        # The gradient with respect to a weight is a sum over places of input times shifted slope; the loop has both.
        value = tl.load(x + row * x_row + start + spot, mask=inside, other=0.0).to(tl.float32)
        before = base + row * base_row + start + spot
        back = tl.load(before, mask=used & (place < HIGH * WIDE * add), other=0.0).to(tl.float32)
        taps = tl.arange(0, 16)[None, :]
        found = tl.zeros((C, 16), tl.float32)
        for tap in tl.static_range(9):
            weight = tl.load(weights + channel * 9 + (8 - tap), mask=used, other=0.0)
            near = _near(own, channel, place, inside, tap, HIGH, WIDE)
            back += weight * near
            found = tl.where(taps == 8 - tap, tl.sum(near * value, 1)[:, None], found)
        to = dw + (row * groups + group) * (CHANNELS * 9) + channel * 9 + taps
        tl.store(to, found, mask=used & (taps < 9))
        tl.debug_barrier()  # wait until all neighbours have read
        tl.store(own + spot, back, mask=inside)

    @compiled
    def _normed(x, y, scales, eps, COUNT: tl.constexpr, SIZE: tl.constexpr):
        at, place = tl.program_id(0), tl.arange(0, SIZE)
        start, inside = at.to(tl.int64) * COUNT, place < COUNT
        z = tl.load(x + start + place, mask=inside, other=0.0)
        z = tl.where(inside, z - tl.sum(z, 0) / COUNT, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(z * z, 0) / COUNT + eps)
        tl.store(y + start + place, z * scale, mask=inside)
        tl.store(scales + at, scale)

    @compiled
    def _normed_back(g, y, scales, dx, COUNT: tl.constexpr, SIZE: tl.constexpr):
        at, place = tl.program_id(0), tl.arange(0, SIZE)
        start, inside = at.to(tl.int64) * COUNT, place < COUNT
        slope = tl.load(g + start + place, mask=inside, other=0.0)
        z = tl.load(y + start + place, mask=inside, other=0.0)
        level, tilt = tl.sum(slope, 0) / COUNT, tl.sum(slope * z, 0) / COUNT
        back = tl.load(scales + at) * (slope - level - z * tilt)
        tl.store(dx + start + place, back, mask=inside)


def fits(images: Any) -> bool:
    """Return whether the kernels support `images` (n, channels, height, width).

    They must not be empty, must be float32 or bf16 on a GPU for which Triton compiles kernels, and each example must be
    contiguous; gaps between examples are allowed.
    """
    import torch

    kinds = (torch.float32, torch.bfloat16)
    ready = images.is_cuda and images.dtype in kinds and elementwise.ready(images.device)
    high, wide = images.shape[2:]
    return ready and images.stride()[1:] == (high * wide, wide, 1) and images.numel() > 0


def fits_groups(images: Any, groups: int) -> bool:
    """Return whether one of `groups` equal groups of the channels of `images` is small enough for one program.

    Return False if `groups` does not divide the number of channels.
    """
    if images.shape[1] % groups:
        return False
    tile = _tile(images.shape, groups)
    return tile["C"] * tile["S"] <= WIDEST


def conv_norm_activation(
    x: Any, weight: Any, y: Any, groups: int, eps: float, kind: int, add: bool, keep: bool
) -> tuple[Any, Any] | None:
    """Write `activation(group_norm(conv(x)))` into `y`, or with `add` add it to `y`.

    `x` and `y` are (n, channels, height, width). The convolution is depthwise, with a window of 3 x 3 and zeros beyond
    the edges. `weight` is (models, channels, 1, 3, 3), and each model has equally many consecutive examples. The group
    norm has `groups` groups and adds `eps` to a variance. `kind` is the number of the activation in `ACTIVATIONS`. With
    `keep`, return the normalised values, shaped as `x`, and the factor (n, groups) that normalised each group, for
    `conv_norm_activation_backward`; otherwise return None.
    """
    rows = len(x)
    normed = y.new_empty(x.shape) if keep else y
    scales = weight.new_empty(rows, groups)
    tile = _tile(x.shape, groups)
    _convolved[(rows * groups,)](
        x,
        weight,
        y,
        normed,
        scales,
        x.stride(0),
        y.stride(0),
        weight.stride(0),
        rows // len(weight),
        groups,
        kind,
        int(add),
        int(keep),
        eps,
        **tile,
        **_threads(tile, back=False),
    )
    return (normed, scales) if keep else None


def conv_norm_activation_backward(
    x: Any, weight: Any, g: Any, kept: tuple[Any, Any], base: Any, dx: Any, groups: int, kind: int
) -> Any:
    """Write `base` plus the gradient with respect to `x` into `dx`, and return per-example weight gradients.

    The weight gradients are (examples, channels, 9). `g` is the gradient with respect to the output, and `kept` what
    `conv_norm_activation` returned for the same `x`, `weight`, `groups` and `kind`. A `base` of None counts as 0. The
    kernel uses `dx` for intermediate values, so `dx` must not overlap `base`.
    """
    rows, channels = x.shape[:2]
    dw = weight.new_empty(rows, channels, 9)
    tile = _tile(x.shape, groups)
    under = g if base is None else base
    _convolved_back[(rows * groups,)](
        x,
        weight,
        g,
        *kept,
        under,
        dx,
        dw,
        x.stride(0),
        g.stride(0),
        under.stride(0),
        dx.stride(0),
        weight.stride(0),
        rows // len(weight),
        groups,
        kind,
        int(base is not None),
        **tile,
        **_threads(tile, back=True),
    )
    return dw


def group_norm(x: Any, groups: int, eps: float) -> tuple[Any, Any]:
    """Return the images `x` with each of `groups` groups of channels normalised, and the scale of each group.

    `x` (n, channels, height, width) is contiguous. The scale (n, groups) is `1 / sqrt(variance + eps)`.
    """
    y, scales = x.new_empty(x.shape), x.new_empty(len(x), groups)
    count = x[0].numel() // groups
    size = _power(count)
    _normed[(len(x) * groups,)](x, y, scales, eps, count, size, num_warps=_warps(size))
    return y, scales


def group_norm_backward(g: Any, y: Any, scales: Any) -> Any:
    """Return the gradient with respect to the inputs of a group norm, from the gradient `g` of its outputs.

    `y` and `scales` are what `group_norm` returned.
    """
    dx, count = y.new_empty(y.shape), y[0].numel() // scales.shape[1]
    size = _power(count)
    _normed_back[(scales.numel(),)](g, y, scales, dx, count, size, num_warps=_warps(size))
    return dx


def _warps(size: int) -> int:
    return min(16, max(1, size // 512))


def _tile(shape: Any, groups: int) -> dict[str, int]:
    _, channels, high, wide = shape
    each = channels // groups
    sizes = {"C": _power(each), "S": max(32, _power(high * wide))}
    return {"HIGH": high, "WIDE": wide, "CHANNELS": each, **sizes}


def _power(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _threads(tile: dict[str, int], back: bool) -> dict[str, int]:
    """Return the launch options that were fastest on an H200, for a program of the size `tile` (from `_tile`).

    With `back` they are for the backward pass. The backward pass uses few warps, because every warp sums separately. In
    the forward pass two programs should fit into the registers of one multiprocessor.
    """
    total, places = tile["C"] * tile["S"], tile["S"]
    most = total // 2048 if back else min(8, places // 32, total // 512)
    warps = min(16, max(1, most))
    return {"num_warps": warps} | ({"maxnreg": 128} if not back and total >= 1024 * warps else {})
