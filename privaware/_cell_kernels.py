"""The operations of a cell as single CUDA kernels: 3 x 3 convolutions of each channel with what follows, and pools.

A program takes one row's group of channels, so that rows never meet. A convolution, its group norm and its activation
read the input once and write once; the backward pass convolves again instead of keeping what was convolved. Everything
adds to what is there already, so that a node's sum is never a pass of its own. Where Triton is not there, or the
shapes do not fit, PyTorch's own operations do the same.
"""

# mypy: disable-error-code="untyped-decorator, no-untyped-def"
# (what Triton compiles is not Python: annotations other than constexpr would mislead)

from __future__ import annotations

from typing import Any

from privaware import _kernels
from privaware._pool_kernels import averaged, halved, halved_back, maxima, maxima_back

try:
    import triton
    from triton import language as tl
except ImportError:
    triton = None

__all__ = [
    "ACTIVATIONS",
    "averaged",
    "convolved",
    "convolved_back",
    "fits",
    "fits_groups",
    "halved",
    "halved_back",
    "maxima",
    "maxima_back",
]

ACTIVATIONS = ("linear", "relu", "selu", "tanh", "hardtanh", "sigmoid")
WIDEST = 16384
"""The most numbers of a group that one program holds."""


if triton is not None:
    from privaware._pool_kernels import compiled, seen_from

    @triton.jit
    def _bent(v, kind):
        """The activation; what is not a number stays so."""
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
        """`g` times the activation's slope at `v`."""
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
    def _slid(
        x, w, channel, place, used, inside, TURNED: tl.constexpr, HIGH: tl.constexpr,
        WIDE: tl.constexpr,
    ):  # fmt: skip
        """Each channel convolved with its own nine weights; turned, that is the way back."""
        down, across = place // WIDE, place % WIDE
        at = x + channel * (HIGH * WIDE) + place
        total = tl.zeros(inside.shape, tl.float32)
        for tap in tl.static_range(9):
            weight = tl.load(w + channel * 9 + (8 - tap if TURNED else tap), mask=used, other=0.0)
            seen = seen_from(inside, down, across, tap, HIGH, WIDE)
            total += weight * tl.load(
                at + ((tap // 3 - 1) * WIDE + tap % 3 - 1), mask=seen, other=0.0
            )
        return total

    @compiled
    def _convolved(
        x, w, y, means, scales, x_row, y_row, w_model, each, groups, kind, add, eps,
        HIGH: tl.constexpr, WIDE: tl.constexpr, CHANNELS: tl.constexpr, C: tl.constexpr,
        S: tl.constexpr,
    ):  # fmt: skip
        at = tl.program_id(0)
        row, group = (at // groups).to(tl.int64), at % groups
        channel, place = tl.arange(0, C)[:, None], tl.arange(0, S)[None, :]
        used = channel < CHANNELS
        inside = used & (place < HIGH * WIDE)
        start = group * (CHANNELS * HIGH * WIDE)
        weights = w + (row // each) * w_model + group * (CHANNELS * 9)
        z = _slid(x + row * x_row + start, weights, channel, place, used, inside, False, HIGH, WIDE)
        mean = tl.sum(tl.sum(z, 0), 0) / (CHANNELS * HIGH * WIDE)
        z = tl.where(inside, z - mean, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(tl.sum(z * z, 0), 0) / (CHANNELS * HIGH * WIDE) + eps)
        tl.store(means + at, mean)
        tl.store(scales + at, scale)
        out = y + row * y_row + start + channel * (HIGH * WIDE) + place
        made = _bent(z * scale, kind)
        before = tl.load(out, mask=used & (place < HIGH * WIDE * add), other=0.0)
        tl.store(out, before + made, mask=inside)

    @compiled
    def _convolved_back(
        x, w, g, means, scales, base, dx, dw, x_row, g_row, base_row, dx_row, w_model, each, groups,
        kind, add, HIGH: tl.constexpr, WIDE: tl.constexpr, CHANNELS: tl.constexpr, C: tl.constexpr,
        S: tl.constexpr,
    ):  # fmt: skip
        at = tl.program_id(0)
        row, group = (at // groups).to(tl.int64), at % groups
        channel, place = tl.arange(0, C)[:, None], tl.arange(0, S)[None, :]
        down, across = place // WIDE, place % WIDE
        used = channel < CHANNELS
        inside = used & (place < HIGH * WIDE)
        start = group * (CHANNELS * HIGH * WIDE)
        spot = start + channel * (HIGH * WIDE) + place
        weights = w + (row // each) * w_model + group * (CHANNELS * 9)
        rows, own = x + row * x_row, dx + row * dx_row
        z = _slid(rows + start, weights, channel, place, used, inside, False, HIGH, WIDE)
        scale = tl.load(scales + at)
        z = (z - tl.load(means + at)) * scale
        slope = _bent_back(tl.load(g + row * g_row + spot, mask=inside, other=0.0), z, kind)
        level = tl.sum(tl.sum(slope, 0), 0) / (CHANNELS * HIGH * WIDE)
        tilt = tl.sum(tl.sum(tl.where(inside, slope * z, 0.0), 0), 0) / (CHANNELS * HIGH * WIDE)
        slope = tl.where(inside, scale * (slope - level - z * tilt), 0.0)
        tl.store(own + spot, slope, mask=inside)
        taps = tl.arange(0, 16)[None, :]
        found = tl.zeros((C, 16), tl.float32)
        for tap in tl.static_range(9):
            seen = seen_from(inside, down, across, tap, HIGH, WIDE)
            near = rows + spot + ((tap // 3 - 1) * WIDE + tap % 3 - 1)
            share = tl.sum(slope * tl.load(near, mask=seen, other=0.0), 1)
            found = tl.where(taps == tap, share[:, None], found)
        to = dw + (row * groups + group) * (CHANNELS * 9) + channel * 9 + taps
        tl.store(to, found, mask=used & (taps < 9))
        tl.debug_barrier()  # what the neighbours wrote is there
        back = _slid(own + start, weights, channel, place, used, inside, True, HIGH, WIDE)
        before = base + row * base_row + spot
        back += tl.load(before, mask=used & (place < HIGH * WIDE * add), other=0.0)
        tl.debug_barrier()  # all neighbours have read
        tl.store(own + spot, back, mask=inside)


def fits(*tensors: Any) -> bool:
    """Whether the kernels can take these images: single precision on a ready device, without gaps in a row."""
    return _kernels.fits(*tensors) and all(map(_dense, tensors))


def _dense(images: Any) -> bool:
    high, wide = images.shape[2:]
    return images.stride()[1:] == (high * wide, wide, 1) and images.numel() > 0


def fits_groups(images: Any, groups: int) -> bool:
    """Whether a group of channels is small enough for one program."""
    if images.shape[1] % groups:
        return False
    tile = _tile(images.shape, groups)
    return tile["C"] * tile["S"] <= WIDEST


def convolved(
    x: Any, weight: Any, y: Any, groups: int, eps: float, kind: int, add: bool
) -> tuple[Any, Any]:
    """Writes into `y` (or adds) the activation of the group norm of the convolution; each group's mean and scale.

    `weight` is (models, channels, 1, 3, 3), rows are model-major; `kind` is the activation's number.
    """
    rows = len(x)
    means, scales = x.new_empty(rows, groups), x.new_empty(rows, groups)
    tile = _tile(x.shape, groups)
    _convolved[(rows * groups,)](
        x, weight, y, means, scales, x.stride(0), y.stride(0), weight.stride(0),
        rows // len(weight), groups, kind, int(add), eps, **tile, **_threads(tile, back=False),
    )  # fmt: skip
    return means, scales


def convolved_back(
    x: Any, weight: Any, g: Any, moments: tuple[Any, Any], base: Any, dx: Any, groups: int,
    kind: int,
) -> Any:  # fmt: skip
    """Writes `base` plus the gradient by `x` into `dx`; each row's gradient by the weights (rows, channels, 9).

    On the way `dx` holds something else: it must be apart from `base`.
    """
    rows, channels = x.shape[:2]
    dw = x.new_empty(rows, channels, 9)
    tile = _tile(x.shape, groups)
    under = g if base is None else base
    _convolved_back[(rows * groups,)](
        x, weight, g, *moments, under, dx, dw, x.stride(0), g.stride(0), under.stride(0),
        dx.stride(0), weight.stride(0), rows // len(weight), groups, kind, int(base is not None),
        **tile, **_threads(tile, back=True),
    )  # fmt: skip
    return dw


def _tile(shape: Any, groups: int) -> dict[str, int]:
    _, channels, high, wide = shape
    each = channels // groups
    sizes = {"C": _power(each), "S": max(32, _power(high * wide))}
    return {"HIGH": high, "WIDE": wide, "CHANNELS": each, **sizes}


def _power(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _threads(tile: dict[str, int], back: bool) -> dict[str, int]:
    """By trial on an H200: on the way back, where every warp adds up for itself, few warps with much to do each."""
    total, places = tile["C"] * tile["S"], tile["S"]
    most = total // 2048 if back else min(8, places // 32, total // 512)
    return {"num_warps": min(16, max(1, most))}
