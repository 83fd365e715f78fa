"""Each row's gradient by the filters of a convolution as one CUDA kernel, without columns in memory.

One program does a tile of one row's (filters, kernel x channels) matrix: the product of the row's output gradients and
of what the filters saw, gathered straight from the unpadded input, summed over the places of all copies of the row. It
adds up what norms need while the tile is in registers, and writes the tile only where it is to be kept.
"""

# mypy: disable-error-code="untyped-decorator, no-untyped-def"
# (what Triton compiles is not Python: annotations other than constexpr would mislead)

from __future__ import annotations

from typing import Any, NamedTuple

from privaware import _kernels

try:
    import triton
    from triton import language as tl
except ImportError:
    triton = None

__all__ = ["Slide", "Tile", "fits", "row_gradients", "summed"]

MOST_PLACES = 2**20
"""Places are told apart by a division in single precision, exact up to here."""

LARGEST = 2**30
"""The numbers of a row that an offset of 32 bits reaches."""

PROGRAMS = 1024
"""Programs that fill a GPU."""


class Slide(NamedTuple):
    """How filters slide in two dimensions."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]


class Tile(NamedTuple):
    """How much one program does: filters x columns, so many places at a time."""

    filters: int
    columns: int
    places: int
    warps: int
    stages: int


if triton is not None:

    @triton.jit(
        do_not_specialize=[
            "rows", "each", "count", "places", "wide", "channels", "filters", "height", "width",
            "kernel_w", "stride_h", "stride_w", "pad_h", "pad_w", "far_h", "far_w", "columns", "broad",
        ]
    )  # fmt: skip
    def _row_gradients(
        x, g, centred, kept, sums, rows, each, count, places, wide, channels, filters, height, width,
        kernel_w, stride_h, stride_w, pad_h, pad_w, far_h, far_w, columns, broad, per_place, per_line,
        WHOLE: tl.constexpr, KEEP: tl.constexpr, ALONG: tl.constexpr, PRECISION: tl.constexpr,
        FILTERS: tl.constexpr, COLUMNS: tl.constexpr, PLACES: tl.constexpr,
    ):  # fmt: skip
        tall = tl.cdiv(filters, FILTERS)
        row, tile = (
            (tl.program_id(0) // (tall * broad)).to(tl.int64),
            tl.program_id(0) % (tall * broad),
        )
        filter_at = (tile % tall) * FILTERS + tl.arange(0, FILTERS)
        present = filter_at < filters
        # Beyond the edge the last one is done again, and left out at the end: no mask in the loop.
        filter_at = tl.minimum(filter_at, filters - 1)
        if WHOLE:  # all columns of the tile are of one spot of the kernel: what is outside is told once for all
            parts = tl.cdiv(channels, COLUMNS)
            spot = tile // tall // parts
            channel = (tile // tall % parts) * COLUMNS + tl.arange(0, COLUMNS)
            used = channel < channels
            channel = tl.minimum(channel, channels - 1)
            column = spot * channels + channel
        else:
            column = (tile // tall) * COLUMNS + tl.arange(0, COLUMNS)
            used = column < columns
            column = tl.minimum(column, columns - 1)
            spot, channel = (column // channels)[:, None], column % channels
        down, across = (spot // kernel_w) * far_h - pad_h, (spot % kernel_w) * far_w - pad_w
        image = height * width
        slopes = g + row * count * filters + filter_at[:, None] * places
        values = x + row * (count // places) * channels * image
        values += channel[:, None] * image + down * width + across
        total = tl.zeros((FILTERS, COLUMNS), tl.float32)
        for start in range(0, count, PLACES):
            at = start + tl.arange(0, PLACES)
            # Divisions as products: in these ranges they are exact, and much cheaper.
            copy = ((at.to(tl.float32) + 0.5) * per_place).to(tl.int32)
            place = at - copy * places
            line = ((place.to(tl.float32) + 0.5) * per_line).to(tl.int32)
            top, left = line * stride_h, (place - line * wide) * stride_w
            # Neighbours in places are neighbours in memory: said to the compiler, so that the threads of a warp read
            # along places. Nothing says how these lie to multiples of 16 bytes, so each thread reads one number.
            to_g = tl.max_contiguous(copy * filters * places + place, PLACES)[None, :]
            to_x = tl.max_contiguous(copy * channels * image + top * width + left, PLACES)[None, :]
            inside, top, left = (at < count)[None, :], top[None, :], left[None, :]
            seen = inside & (top + down >= 0) & (top + down < height)
            seen = seen & (left + across >= 0) & (left + across < width)
            slope = tl.load(slopes + to_g, mask=inside, other=0.0)
            value = tl.load(values + to_x, mask=seen, other=0.0)
            total = tl.dot(slope, tl.trans(value), total, input_precision=PRECISION)
        flat = filter_at[:, None] * columns + column[None, :]
        inside = present[:, None] & used[None, :]
        total = tl.where(inside, total, 0.0)
        if KEEP:
            tl.store(kept + row * filters * columns + flat, total, mask=inside)
        if ALONG:
            weight = tl.load(
                centred + (row // each) * filters * columns + flat, mask=inside, other=0.0
            )
            out, here = sums + ((tile // tall) * 3 * rows + row) * filters + filter_at, present
            tl.store(out, tl.sum(total * total, 1), mask=here)
            tl.store(out + rows * filters, tl.sum(total * weight, 1), mask=here)
            tl.store(out + 2 * rows * filters, tl.sum(total, 1), mask=here)
        else:
            tl.store(sums + tl.program_id(0), tl.sum(tl.sum(total * total, 1), 0))


def fits(x: Any, g: Any, copies: int) -> bool:
    """Whether the kernel should take these inputs (n, channels, *places) and output gradients: singles on a GPU.

    With whole mantissas there are no tensor cores to feed, and columns with a library's product are as fast.
    """
    import torch

    largest = copies * max(x[0].numel(), g[0].numel()) if len(x) else LARGEST
    small = largest < LARGEST and copies * g.shape[2:].numel() < MOST_PLACES
    fast = torch.backends.cuda.matmul.allow_tf32
    singles = x.is_cuda and x.dtype == g.dtype == torch.float32
    return small and fast and singles and _kernels.ready(x.device)


def row_gradients(
    x: Any,
    g: Any,
    slide: Slide,
    rows: int,
    *,
    keep: bool,
    centred: Any = None,
    tile: Tile | None = None,
    whole: bool = False,
) -> tuple[Any, Any]:
    """Each row's gradient (rows, filters, kernel x channels), where it is to be kept, and sums of it.

    The sums are the (rows,) squares of its norm; or, with `centred` filters (models, filters, kernel x channels), for
    each filter its square, its product with the filter and its own sum: (3, rows, filters). `whole` mantissas are
    multiplied in parts where products shorten them.
    """
    import torch

    x, g = x.contiguous(), g.contiguous()
    (channels, height, width), (filters, high, wide) = x.shape[1:], g.shape[1:]
    columns, places = slide.kernel[0] * slide.kernel[1] * channels, high * wide
    count = places * (len(g) // rows)
    tile = tile or _tile(filters, channels, columns, count)
    tiles, broad, spotted = _tiles(tile, filters, channels, columns)
    short = "tf32x3" if whole else "tf32"
    kept = g.new_empty(rows, filters, columns) if keep else None
    sums = g.new_empty((broad, 3, rows, filters) if centred is not None else (rows, tiles))
    each = rows // (1 if centred is None else len(centred))
    _row_gradients[(rows * tiles,)](
        x, g, g if centred is None else centred, kept if keep else g, sums, rows, each, count, places,
        wide, channels, filters, height, width, slide.kernel[1], *slide.stride, *slide.padding,
        *slide.dilation, columns, broad, 1 / places, 1 / wide, WHOLE=spotted, KEEP=keep,
        ALONG=centred is not None, PRECISION=short if torch.backends.cuda.matmul.allow_tf32 else "ieee",
        FILTERS=tile.filters, COLUMNS=tile.columns, PLACES=tile.places,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return kept, sums.sum(0 if centred is not None else 1)


def summed(x: Any, g: Any, slide: Slide, models: int) -> Any:
    """The sum of each model's rows' gradients, (models, filters, kernel x channels); nothing where that is slow.

    Parts of a model's rows are summed like copies of one row. Mantissas stay whole.
    """
    many = _parts(x, g, slide, models)
    if many is None:
        return None
    tile = _tile_of(x, g, slide, models)
    kept, _ = row_gradients(x, g, slide, models * many, keep=True, tile=tile, whole=True)
    return kept.view(models, many, *kept.shape[1:]).sum(1)


def _parts(x: Any, g: Any, slide: Slide, models: int) -> int | None:
    """Into how many parts `summed` cuts a model's rows, so that a GPU has enough to do; None where it cannot."""
    each, channels, filters = len(x) // models, x.shape[1], g.shape[1]
    columns = slide.kernel[0] * slide.kernel[1] * channels
    tiles, _, _ = _tiles(_tile_of(x, g, slide, models), filters, channels, columns)
    wanted = max(1, PROGRAMS // (tiles * models))
    many = max(part for part in range(1, wanted + 1) if each % part == 0)
    return None if many * 4 < wanted or not fits(x, g, each // many) else many


def _tile_of(x: Any, g: Any, slide: Slide, models: int) -> Tile:
    columns = slide.kernel[0] * slide.kernel[1] * x.shape[1]
    return _tile(g.shape[1], x.shape[1], columns, len(x) // models)


def _tiles(tile: Tile, filters: int, channels: int, columns: int) -> tuple[int, int, bool]:
    """How many tiles a row has, how many side by side, and whether each is of one spot of the kernel."""
    parts = -(-channels // tile.columns)
    whole = parts * tile.columns * 3 <= channels * 4
    broad = columns // channels * parts if whole else -(-columns // tile.columns)
    return -(-filters // tile.filters) * broad, broad, whole


def _tile(filters: int, channels: int, columns: int, count: int) -> Tile:
    """Sizes by counting what a program holds; they have not been tried one against the other yet."""
    deep = 32 if count > 16 else 16
    if filters > 64 and channels > 64:
        return Tile(128, 128, deep, 8, 3)
    tall = min(64, max(16, 1 << (filters - 1).bit_length()))
    broad = 128 if channels > 192 or tall < 64 else 64
    broad = min(broad, max(16, 1 << (columns - 1).bit_length()))
    return Tile(tall, broad, deep, 8 if tall * broad > 64 * 64 else 4, 3)
