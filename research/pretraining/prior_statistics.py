"""Statistics of a network's feature maps and of scattering coefficients over synthetic images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from privaware.features._prior.maps import pooled_maps, preprocess
from privaware.features._prior.scattering import ScatteringStatistics, scattering
from privaware.features._prior.whitening import Statistics, by_mode, walsh_coefficients
from research.pretraining.images import SyntheticImages

__all__ = ["measure", "measure_scattering", "statistics_of"]

MICROBATCH = 1024
"""Number of images that are processed at once."""


def measure(
    network: nn.Module,
    source: SyntheticImages,
    *,
    rows: int,
    first: int,
    depths: Sequence[int],
    pools: Sequence[int],
    normed: bool,
    mirror: bool = True,
) -> Statistics:
    """Compute statistics over `rows` synthetic images from chunk `first` on, which are held out of pretraining."""
    batches = (
        pooled_maps(network, images, depths, pools, mirror=mirror, normed=normed)
        for images in _inputs(source, rows, first, next(network.parameters()).device)
    )
    with torch.no_grad():
        return statistics_of(batches, depths, pools)


def measure_scattering(source: SyntheticImages, *, rows: int, first: int, device: Any) -> ScatteringStatistics:
    """Compute statistics of scattering coefficients, averaged over each image and its mirror image."""
    scatter = scattering(device)
    batches = ((inputs + 1) / 2 for inputs in _inputs(source, rows, first, device))
    with torch.no_grad():
        return scattering_statistics_of((scatter(images) + scatter(images.flip(3))) / 2 for images in batches)


def _inputs(source: SyntheticImages, rows: int, first: int, device: Any) -> Iterator[Tensor]:
    """Yield preprocessed images, one microbatch at a time."""
    count = 0
    for chunk in source.chunks(device, first):
        for images in chunk[: rows - count].split(MICROBATCH):
            yield preprocess(images.float() / 255)
        count += len(chunk)
        if count >= rows:
            return


def statistics_of(batches: Iterable[Sequence[Tensor]], depths: Sequence[int], pools: Sequence[int]) -> Statistics:
    """Return the statistics over batches of maps at `depths`, each averaged to its entry of `pools`.

    A batch has one tensor (rows, channels, pool, pool) for each depth. The results are on the CPU.
    """
    count = 0
    sums: list[Tensor] = []
    squares: list[Tensor] = []
    for batch in batches:
        coefficients = [walsh_coefficients(maps) for maps in batch]
        modes = [m.double() for m in by_mode(coefficients)]
        first = [c.sum(0, dtype=torch.float64) for c in coefficients]
        second = [m.T @ m for m in modes]
        sums = [a + b for a, b in zip(sums, first, strict=True)] if count else first
        squares = [a + b for a, b in zip(squares, second, strict=True)] if count else second
        count += len(coefficients[0])
    means = [total / count for total in sums]
    centre = by_mode([mean[None] for mean in means])
    raw = [s / count - m[0, :, None] * m[0] for s, m in zip(squares, centre, strict=True)]
    scales = _scales(raw, [m.shape for m in means])
    scales_by_mode = by_mode([s[None, :, None].expand(1, *m.shape) for s, m in zip(scales, means, strict=True)])
    scaled = [c / (s[0, :, None] * s[0]) for c, s in zip(raw, scales_by_mode, strict=True)]
    return Statistics(
        depths=tuple(depths),
        pools=tuple(pools),
        means=tuple(m.float().cpu() for m in means),
        scales=tuple(s.float().cpu() for s in scales),
        covariances=tuple(c.float().cpu() for c in scaled),
    )


def _scales(blocks: list[Tensor], shapes: Sequence[torch.Size]) -> list[Tensor]:
    """Return, for each depth, the square root of each channel's mean variance over its modes; 1 if it is constant.

    `blocks` are the covariances by mode, and `shapes` the (channels, modes) of each depth.
    """
    totals = [torch.zeros(channels, dtype=torch.float64) for channels, _ in shapes]
    for mode, block in enumerate(blocks):
        variance, at = block.diagonal().cpu(), 0
        for total, (channels, modes) in zip(totals, shapes, strict=True):
            if modes > mode:
                total += variance[at : at + channels] / modes
                at += channels
    device = blocks[0].device
    return [torch.where(t > 1e-8, t, 1.0).sqrt().to(device) for t in totals]


def scattering_statistics_of(batches: Iterable[Tensor]) -> ScatteringStatistics:
    """Return the statistics over batches of coefficients (rows, 243, h, w)."""
    count, total, square = 0, torch.zeros(()), torch.zeros(())
    for batch in batches:
        rows = batch.transpose(0, 1).flatten(1).double()
        total = total.to(rows) + rows.sum(1)
        square = square.to(rows) + rows @ rows.T
        count += rows.shape[1]
    mean = total / count
    raw = square / count - mean[:, None] * mean
    scale = raw.diagonal().clamp(min=1e-12).sqrt()
    covariance = raw / (scale[:, None] * scale)
    return ScatteringStatistics(mean=mean.float().cpu(), scale=scale.float().cpu(), covariance=covariance.float().cpu())
