"""The dictionary of `prior_views`, and the statistics of its views over synthetic images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from privaware.features._prior.maps import feature_maps
from privaware.features._prior.views import CodeWhitening, Dictionary, ViewStatistics, view_parts
from privaware.features._rounded_tensors import restored
from research.pretraining.images import generator_for
from research.pretraining.prior_statistics import statistics_of
from research.pretraining.weights_files import rounded

__all__ = ["CodeMoments", "learn_dictionary", "measure_views"]

POSITIONS = 8192
"""Number of positions that a batch of synthetic images contributes to the dictionary."""
ROUNDS = 6
"""Number of iterations of spherical k-means."""
RIDGE_OF_POSITIONS = 0.05
"""Ridge of the whitening of positions, relative to the mean eigenvalue."""
RANK = 256
"""Number of directions of codes that are whitened with a factor of their own."""

POWER = 0.3
"""Exponent of the whitening factor `(eigenvalue + RIDGE) ** -POWER` of a direction of codes."""

RIDGE = 0.01
"""Number that is added to the eigenvalue of a direction of codes."""

MAX_POSITIONS_AT_ONCE = 2**16
"""Number of positions compared with the dictionary at once."""


def measure_views(
    network: nn.Module,
    batches: Callable[[], Iterator[Tensor]],
    *,
    depths: Sequence[int],
    pools: Sequence[int],
    depth: int,
    entries: int,
    seed: int,
) -> ViewStatistics:
    """Compute statistics over `batches` of preprocessed synthetic images, in two passes."""
    with torch.no_grad():
        positions = torch.cat([_positions(network, batch, depth, seed, at) for at, batch in enumerate(batches())])
        dictionary, moments = learn_dictionary(positions, entries, seed), CodeMoments()

        def pooled() -> Iterator[list[Tensor]]:
            for batch in batches():
                *maps, codes = view_parts(network, batch, True, depths, pools, dictionary, depth)
                moments.add(codes)
                yield maps

        maps = statistics_of(pooled(), depths, pools)
    return ViewStatistics(maps=maps, dictionary=dictionary, codes=moments.whitening(), depth=depth, metadata={})


def _positions(network: nn.Module, images: Tensor, depth: int, seed: int, at: int) -> Tensor:
    """Return the vectors of a feature map at random positions of a batch."""
    vectors = feature_maps(network, images, (depth,), False)[0].movedim(1, 3).flatten(0, 2)
    generator = generator_for(seed, "positions", at, vectors.device)
    return vectors[torch.randint(len(vectors), (POSITIONS,), device=vectors.device, generator=generator)]


def learn_dictionary(positions: Tensor, count: int, seed: int) -> Dictionary:
    """Learn a dictionary of `count` entries from positions (number, channels) of synthetic images."""
    mean = positions.mean(0)
    centred = (positions - mean).double()
    values, vectors = torch.linalg.eigh(centred.T @ centred / len(centred))
    scale = (values.clamp(min=0) + RIDGE_OF_POSITIONS * values.mean()).pow(-0.5)
    white = ((vectors * scale) @ vectors.T).float()
    unit = functional.normalize((positions - mean) @ white, dim=1)
    generator = generator_for(seed, "dictionary", 0, positions.device)
    chosen = torch.randperm(len(unit), device=unit.device, generator=generator)[:count]
    entries = unit[chosen]
    for _ in range(ROUNDS):
        nearest = torch.cat([(slab @ entries.T).argmax(1) for slab in unit.split(MAX_POSITIONS_AT_ONCE)])
        sums = torch.zeros_like(entries).index_add_(0, nearest, unit)
        empty = sums.norm(dim=1, keepdim=True) == 0
        entries = torch.where(empty, entries, functional.normalize(sums, dim=1))
    stored = restored(rounded({"entries": entries}))["entries"]
    return Dictionary(mean=mean, white=white, entries=stored.float().to(entries.device))


class CodeMoments:
    """First and second moments of codes over images and quarters, summed batch by batch."""

    def __init__(self) -> None:
        self.count, self.total, self.square = 0, torch.zeros(()), torch.zeros(())

    def add(self, codes: Tensor) -> None:
        """Add codes of shape (rows, entries, POOL, POOL)."""
        rows = codes.movedim(1, 3).flatten(0, 2).double()
        self.total = self.total.to(rows) + rows.sum(0)
        self.square = self.square.to(rows) + rows.T @ rows
        self.count += len(rows)

    def whitening(self) -> CodeWhitening:
        """Return the whitening that follows from the codes so far."""
        mean = self.total / self.count
        covariance = self.square / self.count - mean[:, None] * mean
        scale = covariance.diagonal().clamp(min=1e-12).sqrt()
        values, vectors = torch.linalg.eigh(covariance / (scale[:, None] * scale))
        factors = (values.clamp(min=0) + RIDGE).pow(-POWER)
        rank = min(RANK, len(values) - 1)
        rest = factors[:-rank].median()
        named = {"mean": mean, "scale": scale, "directions": vectors[:, -rank:], "factors": factors[-rank:] - rest}
        return CodeWhitening(rest=float(rest), **{name: value.float() for name, value in named.items()})
