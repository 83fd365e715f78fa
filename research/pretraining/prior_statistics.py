"""Statistics of a network's feature maps and of scattering coefficients over synthetic images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from privaware.features._prior.maps import pooled_maps, preprocess
from privaware.features._prior.scattering import ScatteringStatistics, scattering
from privaware.features._prior.whitening import Statistics
from research.pretraining.images import SyntheticImages

__all__ = ["measure", "measure_scattering"]

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
        return Statistics.of(batches, depths, pools)


def measure_scattering(source: SyntheticImages, *, rows: int, first: int, device: Any) -> ScatteringStatistics:
    """Compute statistics of scattering coefficients, averaged over each image and its mirror image."""
    scatter = scattering(device)
    batches = ((inputs + 1) / 2 for inputs in _inputs(source, rows, first, device))
    with torch.no_grad():
        return ScatteringStatistics.of((scatter(images) + scatter(images.flip(3))) / 2 for images in batches)


def _inputs(source: SyntheticImages, rows: int, first: int, device: Any) -> Iterator[Tensor]:
    """Yield preprocessed images, one microbatch at a time."""
    count = 0
    for chunk in source.chunks(device, first):
        for images in chunk[: rows - count].split(MICROBATCH):
            yield preprocess(images.float() / 255)
        count += len(chunk)
        if count >= rows:
            return
