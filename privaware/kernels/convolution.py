"""Compute the per-example gradients of convolution filters in one CUDA kernel, without unfolded inputs in memory.

One program computes a tile of one example's gradient, a matrix (filters, kernel x channels). The gradient is the
product of the example's output gradients and the unfolded inputs, which are gathered from the unpadded input, summed
over the positions of all copies of the example. While the tile is in registers, the program computes what norms need,
and it writes the tile only if gradients are kept. A weighted sum over examples repeats the same product for one example
after another, and multiplies each product by its factor before adding it. So products have the same rounding errors in
the norm and in the sum.

With few positions, norms need no such product. The inner product of two columns of the unfolded input is a sum, over
kernel taps, of inner products of two positions of the input. There are fewer inner products of input positions than of
unfolded columns, by a factor of nine for a 3 x 3 kernel.
"""

# mypy: disable-error-code="untyped-decorator, no-untyped-def"
# (what Triton compiles is not Python: annotations other than constexpr would mislead)

from __future__ import annotations

from typing import Any, NamedTuple

from privaware.kernels import elementwise
from privaware.kernels.elementwise import tl, triton

__all__ = ["Conv2dGeometry", "Tile", "fits", "ghost_norm_sums", "per_example_gradients", "weighted_gradient_sum"]

MOST_POSITIONS = 2**20
"""A kernel finds line and column of positions below this number exactly, although it divides in float32."""

LARGEST_OFFSET = 2**30
"""Number of tensor entries that a kernel can address with offsets of 32 bits."""

PROGRAMS = 2048
"""Number of programs among which a weighted sum is split; they fill a GPU several times, so it is busy to the end."""


class Conv2dGeometry(NamedTuple):
    """How filters slide in two dimensions: kernel size, stride, padding and dilation, each as (height, width)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]


class Tile(NamedTuple):
    """The work of one program: a tile of `filters` x `columns` entries of one example's gradient, a matrix.

    The program adds the products of `positions` output positions at a time. `warps` and `stages` are the launch options
    `num_warps` and `num_stages` of Triton.
    """

    filters: int
    columns: int
    positions: int
    warps: int
    stages: int


if triton is not None:

    @triton.jit(
        do_not_specialize=[
            "rows",
            "each",
            "parts",
            "many",
            "count",
            "wide",
            "channels",
            "filters",
            "height",
            "width",
            "kernel_w",
            "stride_h",
            "stride_w",
            "pad_h",
            "pad_w",
            "far_h",
            "far_w",
            "columns",
            "broad",
        ]
    )
    def _row_gradients(
        x,
        g,
        centred,
        weights,
        kept,
        sums,
        rows,
        each,
        parts,
        many,
        count,
        places,
        wide,
        channels,
        filters,
        height,
        width,
        kernel_w,
        stride_h,
        stride_w,
        pad_h,
        pad_w,
        far_h,
        far_w,
        columns,
        broad,
        per_place,
        per_line,
        WHOLE: tl.constexpr,
        EVEN: tl.constexpr,
        KEEP: tl.constexpr,
        ALONG: tl.constexpr,
        SUM: tl.constexpr,
        PRECISION: tl.constexpr,
        FILTERS: tl.constexpr,
        COLUMNS: tl.constexpr,
        PLACES: tl.constexpr,
    ):
        if EVEN:  # one copy, whose places are a whole number of steps
            count = places
        tall = tl.cdiv(filters, FILTERS)
        part, tile = tl.program_id(0) // (tall * broad), tl.program_id(0) % (tall * broad)
        if SUM:  # a program sums `many` of the `each` rows of a model, or the fewer that remain
            model = part // parts
            first = model * each + (part - model * parts) * many
            steps = tl.minimum(many, (model + 1) * each - first) * tl.cdiv(count, PLACES)
        else:
            first, steps = part, tl.cdiv(count, PLACES)
        row = first.to(tl.int64)
        filter_at = (tile % tall) * FILTERS + tl.arange(0, FILTERS)
        present = filter_at < filters
        # Beyond the edge the last filter is computed again and dropped at the end, so the loop needs no mask.
        filter_at = tl.minimum(filter_at, filters - 1)
        if WHOLE:  # all columns of the tile belong to one kernel tap, so they share one mask of the image's edges
            strips = tl.cdiv(channels, COLUMNS)
            spot = tile // tall // strips
            channel = (tile // tall % strips) * COLUMNS + tl.arange(0, COLUMNS)
            used = channel < channels
            to = spot * channels + channel
            channel = tl.minimum(channel, channels - 1)
        else:
            column = (tile // tall) * COLUMNS + tl.arange(0, COLUMNS)
            used = column < columns
            to = column
            column = tl.minimum(column, columns - 1)
            spot, channel = (column // channels)[:, None], column % channels
        down, across = (spot // kernel_w) * far_h - pad_h, (spot % kernel_w) * far_w - pad_w
        image = height * width
        slopes = g + row * count * filters + filter_at[:, None] * places
        values = x + row * (count // places) * channels * image
        values += channel[:, None] * image + down * width + across
        total = tl.zeros((FILTERS, COLUMNS), tl.float32)
        for step in range(steps):
            at = step * PLACES + tl.arange(0, PLACES)
            if SUM:
                after = step // tl.cdiv(count, PLACES)
                at -= after * tl.cdiv(count, PLACES) * PLACES
            # Divisions as products: in these ranges they are exact, and much cheaper.
            if EVEN:
                place = at
            else:
                copy = ((at.to(tl.float32) + 0.5) * per_place).to(tl.int32)
                place = at - copy * places
            line = ((place.to(tl.float32) + 0.5) * per_line).to(tl.int32)
            top, left = line * stride_h, (place - line * wide) * stride_w
            # Tell the compiler that neighbouring places are neighbours in memory, so that the threads of a warp read
            # along places. It knows the alignment to 16 bytes for even steps only.
            to_g, to_x = place, top * width + left
            if not EVEN:
                to_g = tl.max_contiguous(copy * filters * places + place, PLACES)
                to_x += copy * channels * image
            if SUM:
                to_g += after * count * filters
                to_x += after * (count // places) * channels * image
            to_x = tl.max_contiguous(to_x, PLACES)[None, :]
            top, left = top[None, :], left[None, :]
            seen = (top + down >= 0) & (top + down < height)
            seen = seen & (left + across >= 0) & (left + across < width)
            if EVEN:
                slope = tl.load(slopes + to_g[None, :])
            else:
                inside = (at < count)[None, :]
                seen = seen & inside
                slope = tl.load(slopes + to_g[None, :], mask=inside, other=0.0)
            value = tl.load(values + to_x, mask=seen, other=0.0)
            if SUM:  # a row whose weight is zero may contain NaN
                made = tl.dot(slope, tl.trans(value), input_precision=PRECISION)
                weight = tl.load(weights + row + after)
                total = tl.where(weight != 0, total + weight * made, total)
            else:
                total = tl.dot(slope, tl.trans(value), total, input_precision=PRECISION)
        # Keep all columns in order, even unused ones, so that the compiler sees that threads write side by side.
        flat = filter_at[:, None] * columns + to[None, :]
        inside = present[:, None] & used[None, :]
        total = tl.where(inside, total, 0.0)
        if KEEP:
            tl.store(kept + part.to(tl.int64) * filters * columns + flat, total, mask=inside)
        if ALONG:
            weight = tl.load(centred + (row // each) * filters * columns + flat, mask=inside, other=0.0)
            out, here = sums + ((tile // tall) * 3 * rows + row) * filters + filter_at, present
            tl.store(out, tl.sum(total * total, 1), mask=here)
            tl.store(out + rows * filters, tl.sum(total * weight, 1), mask=here)
            tl.store(out + 2 * rows * filters, tl.sum(total, 1), mask=here)
        elif not SUM:
            tl.store(sums + tl.program_id(0), tl.sum(tl.sum(total * total, 1), 0))

    @triton.jit(
        do_not_specialize=[
            "places",
            "seen",
            "height",
            "width",
            "image",
            "wide",
            "stride_h",
            "stride_w",
            "pad_h",
            "pad_w",
            "far_h",
            "far_w",
            "blocks",
        ]
    )
    def _overlaps(
        left,
        right,
        sums,
        places,
        seen,
        height,
        width,
        image,
        wide,
        stride_h,
        stride_w,
        pad_h,
        pad_w,
        far_h,
        far_w,
        blocks,
        HIGH: tl.constexpr,
        WIDE: tl.constexpr,
        SIZE: tl.constexpr,
    ):
        row = (tl.program_id(0) // blocks).to(tl.int64)
        p = (tl.program_id(0) % blocks) * SIZE + tl.arange(0, SIZE)
        left += row * seen * seen
        right += row * places * places
        p_from = p // image * height * width
        p_top, p_left = p % image // wide * stride_h - pad_h, p % image % wide * stride_w - pad_w
        norm = tl.zeros((SIZE,), tl.float32)
        saw = tl.zeros((SIZE,), tl.float32)
        sent = tl.zeros((SIZE,), tl.float32)
        for start in range(0, places, SIZE):
            q = start + tl.arange(0, SIZE)
            q_from = q // image * height * width
            q_top, q_left = (q % image // wide * stride_h - pad_h, q % image % wide * stride_w - pad_w)
            common = tl.zeros((SIZE, SIZE), tl.float32)
            for spot in tl.static_range(HIGH * WIDE):  # unrolled, so that loads do not wait for each other
                down, across = spot // WIDE * far_h, spot % WIDE * far_w
                p_y, p_x, q_y, q_x = p_top + down, p_left + across, q_top + down, q_left + across
                p_in = (p < places) & (p_y >= 0) & (p_y < height) & (p_x >= 0) & (p_x < width)
                q_in = (q < places) & (q_y >= 0) & (q_y < height) & (q_x >= 0) & (q_x < width)
                # Neighbours in q are neighbours in memory; without this hint the compiler does not read along q.
                along = tl.max_contiguous(q_from + q_y * width + q_x, SIZE)[None, :]
                at = (p_from + p_y * width + p_x)[:, None] * seen + along
                common += tl.load(left + at, mask=p_in[:, None] & q_in[None, :], other=0.0)
            inside = (p < places)[:, None] & (q < places)[None, :]
            slopes = tl.load(right + p[:, None] * places + q[None, :], mask=inside, other=0.0)
            same = p[:, None] == q[None, :]
            norm += tl.sum(common * slopes, 1)
            saw += tl.sum(tl.where(same, common, 0.0), 1)
            sent += tl.sum(tl.where(same, slopes, 0.0), 1)
        out = sums + tl.program_id(0).to(tl.int64) * 3
        tl.store(out, tl.sum(norm, 0))
        tl.store(out + 1, tl.sum(saw, 0))
        tl.store(out + 2, tl.sum(sent, 0))


def fits(x: Any, g: Any, copies: int) -> bool:
    """Return whether the kernels should handle inputs `x` (n, channels, *positions) and output gradients `g`.

    `n` counts all augmented copies of all examples. Both must be float32 on a GPU with TF32 products and not empty.
    Without TF32 the kernels have no advantage, because they would not use tensor cores. The `copies` augmented copies
    of one example together must have fewer than `LARGEST_OFFSET` entries, in `x` and in `g`, and fewer than
    `MOST_POSITIONS` output positions.
    """
    import torch

    largest = copies * max(x[0].numel(), g[0].numel()) if len(x) else LARGEST_OFFSET
    small = largest < LARGEST_OFFSET and copies * g.shape[2:].numel() < MOST_POSITIONS
    tf32 = torch.backends.cuda.matmul.allow_tf32
    float32 = x.is_cuda and x.dtype == g.dtype == torch.float32
    return small and tf32 and float32 and elementwise.ready(x.device)


def per_example_gradients(
    x: Any,
    g: Any,
    geometry: Conv2dGeometry,
    examples: int,
    *,
    keep: bool,
    centred: Any = None,
    tile: Tile | None = None,
) -> tuple[Any, Any]:
    """Return per-example gradients of filters (None unless `keep`), and sums from which norms are computed.

    The gradients are (examples, filters, kernel x channels). `x` (n, channels, height, width) are the inputs and `g`
    (n, filters, output height, output width) the output gradients of `examples` examples, the copies of an example one
    after another. `geometry` is the convolution's. Without `centred` the sums are squared norms (examples,). With
    `centred` filters (minus their mean; (models, filters, kernel x channels)) they are (3, examples, filters): for each
    filter the gradient's squared norm, its inner product with the centred filter, and the sum of its entries. Then each
    model has equally many consecutive examples. `tile` is chosen by `_tile` if None.
    """
    tile = tile or _tile_of(x, g, geometry, examples)
    tiles, broad, _ = _tiles(tile, g.shape[1], x.shape[1], _columns(x, geometry))
    kept = g.new_empty(examples, g.shape[1], _columns(x, geometry)) if keep else None
    sums = g.new_empty((broad, 3, examples, g.shape[1]) if centred is not None else (examples, tiles))
    each = examples // (1 if centred is None else len(centred))
    _launch(x, g, geometry, tile, _Launch(examples, each, kept=kept, sums=sums, centred=centred))
    return kept, sums.sum(0 if centred is not None else 1)


def weighted_gradient_sum(
    x: Any, g: Any, factors: Any, geometry: Conv2dGeometry, models: int, tile: Tile | None = None
) -> Any:
    """Return each model's sum of `factors` (examples,) times gradients, as (models, filters, kernel x channels).

    `x` (n, channels, height, width) are the inputs and `g` (n, filters, output height, output width) the output
    gradients, the copies of an example one after another. Each model has equally many consecutive examples. `geometry`
    is the convolution's; `tile` is chosen by `_tile` if None. An example with a factor of zero adds nothing, even if
    its gradient is not finite.
    """
    examples = len(factors)
    tile = tile or _tile_of(x, g, geometry, examples)
    tiles, _, _ = _tiles(tile, g.shape[1], x.shape[1], _columns(x, geometry))
    each = examples // models
    many = -(-each // max(1, PROGRAMS // (tiles * models)))
    many = max(1, min(many, LARGEST_OFFSET // (max(x.numel(), g.numel()) // examples)))
    parts = -(-each // many)
    kept = g.new_empty(models * parts, g.shape[1], _columns(x, geometry))
    _launch(x, g, geometry, tile, _Launch(examples, each, parts, many, kept=kept, factors=factors))
    return kept.view(models, parts, *kept.shape[1:]).sum(1)


class _Launch(NamedTuple):
    """The arguments of one launch.

    `examples` is the number of examples of all models, `each` of one model. With `factors`, a model's examples are
    summed in `parts` parts of `many` examples (the last may have fewer). The kernel reads `centred` and `factors`, and
    writes gradients or their weighted sums to `kept` and sums for norms to `sums`; each may be None.
    """

    examples: int
    each: int
    parts: int = 1
    many: int = 1
    kept: Any = None
    sums: Any = None
    centred: Any = None
    factors: Any = None


def _launch(x: Any, g: Any, geometry: Conv2dGeometry, tile: Tile, launch: _Launch) -> None:
    import torch

    x, g = x.contiguous(), g.contiguous()
    (channels, height, width), (filters, high, wide) = x.shape[1:], g.shape[1:]
    examples, kept, weights = launch.examples, launch.kept, launch.factors
    columns, positions = _columns(x, geometry), high * wide
    tiles, broad, one_tap = _tiles(tile, filters, channels, columns)
    grid = (tiles * (examples if weights is None else len(kept)),)
    absent = g
    _row_gradients[grid](
        x,
        g,
        absent if launch.centred is None else launch.centred,
        absent if weights is None else weights,
        absent if kept is None else kept,
        absent if launch.sums is None else launch.sums,
        examples,
        launch.each,
        launch.parts,
        launch.many,
        positions * (len(g) // examples),
        positions,
        wide,
        channels,
        filters,
        height,
        width,
        geometry.kernel[1],
        *geometry.stride,
        *geometry.padding,
        *geometry.dilation,
        columns,
        broad,
        1 / positions,
        1 / wide,
        WHOLE=one_tap,
        EVEN=len(g) == examples and positions % tile.positions == 0,
        KEEP=kept is not None,
        ALONG=launch.centred is not None,
        SUM=weights is not None,
        PRECISION="tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee",
        FILTERS=tile.filters,
        COLUMNS=tile.columns,
        PLACES=tile.positions,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )


def ghost_norm_sums(left: Any, right: Any, geometry: Conv2dGeometry, input_size: Any, output_size: Any) -> Any:
    """Return (examples, 3): the squared norms of each example's gradient, unfolded inputs and output gradients.

    The norms are computed from inner products of positions. `left` (examples, inputs, inputs) holds the inner products,
    over channels, of all pairs of positions of the input. `right` (examples, outputs, outputs) holds the inner
    products, over filters, of all pairs of positions of the output gradient. Positions of all copies of an example
    follow one another. `input_size` and `output_size` are the (height, width) of one copy; `geometry` is the
    convolution's.
    """
    examples, positions = len(right), right.shape[1]
    size = 32 if positions > 16 else 16
    blocks = -(-positions // size)
    sums = right.new_empty(examples, blocks, 3)
    _overlaps[(examples * blocks,)](
        left.contiguous(),
        right.contiguous(),
        sums,
        positions,
        left.shape[1],
        *input_size,
        output_size[0] * output_size[1],
        output_size[1],
        *geometry.stride,
        *geometry.padding,
        *geometry.dilation,
        blocks,
        HIGH=geometry.kernel[0],
        WIDE=geometry.kernel[1],
        SIZE=size,
        num_warps=8 if size > 16 else 4,
    )
    return sums.sum(1)


def _columns(x: Any, geometry: Conv2dGeometry) -> int:
    return geometry.kernel[0] * geometry.kernel[1] * int(x.shape[1])


def _tile_of(x: Any, g: Any, geometry: Conv2dGeometry, examples: int) -> Tile:
    count = g.shape[2:].numel() * (len(g) // examples)
    return _tile(g.shape[1], x.shape[1], _columns(x, geometry), count)


def _tiles(tile: Tile, filters: int, channels: int, columns: int) -> tuple[int, int, bool]:
    """Return the number of tiles of one example's gradient, how many of them lie along its columns, and a flag.

    The gradient of an example has `filters` rows and `columns` (kernel taps x `channels`) columns. A kernel tap is one
    position of the convolution's kernel. The flag is True if no tile has columns of two kernel taps. This is so if the
    tiles of one tap together have at most a third more columns than the tap.
    """
    parts = -(-channels // tile.columns)
    one_tap = parts * tile.columns * 3 <= channels * 4
    broad = columns // channels * parts if one_tap else -(-columns // tile.columns)
    return -(-filters // tile.filters) * broad, broad, one_tap


def _tile(filters: int, channels: int, columns: int, count: int) -> Tile:
    """Return a tile size that is fast on an H200 for the convolutions of Tramèr and Boneh's networks.

    A gradient has `filters` rows and `columns` (kernel taps x `channels`) columns. `count` is the number of output
    positions of an example, over all its copies.
    """
    deep = 32 if count > 16 else 16
    if filters > 64 and channels >= 64:
        return Tile(128, 64, deep, 4, 3)
    tall = min(64, max(16, 1 << (filters - 1).bit_length()))
    broad = 128 if channels > 192 or tall < 64 else 64
    if tall < 64 and 16 < channels <= 32:  # a tile covers one kernel tap
        broad = 32
    return Tile(tall, min(broad, max(16, 1 << (columns - 1).bit_length())), deep, 4, 3)
