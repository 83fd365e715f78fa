"""Walsh functions and whitening of pooled feature maps."""

from __future__ import annotations

import torch

from privaware.features._prior.whitening import Statistics, by_mode, walsh, walsh_coefficients
from research.pretraining.prior_statistics import statistics_of
from research.pretraining.weights_files import statistics_metadata, statistics_tensors


def test_walsh_functions_are_orthonormal_and_nested() -> None:
    for pool in (1, 2, 4):
        assert torch.allclose(walsh(pool) @ walsh(pool).T, torch.eye(pool * pool), atol=1e-6)
    maps = torch.randn(3, 2, 4, 4)
    coarse = torch.nn.functional.avg_pool2d(maps, 2)
    assert torch.allclose(walsh_coefficients(coarse), walsh_coefficients(maps)[..., :4] / 2, atol=1e-6)


def test_whitened_columns_are_uncorrelated() -> None:
    torch.manual_seed(0)
    mixed = torch.einsum("dc,rchw->rdhw", torch.eye(5) + 0.6, torch.randn(4000, 5, 4, 4))
    maps = [mixed, torch.nn.functional.avg_pool2d(mixed[:, :3] + torch.randn(4000, 3, 4, 4), 2)]
    statistics = statistics_of(maps_in_batches(maps), (0, 1), (4, 2))
    restored = Statistics.read(statistics_tensors(statistics), statistics_metadata(statistics))
    for pools in ((4, 2), (2, 2), (2, 1)):
        pooled = [torch.nn.functional.adaptive_avg_pool2d(m, p) for m, p in zip(maps, pools)]
        rows = restored.whitening((0, 1), pools, 0.5)(pooled)
        assert rows.mean(0).abs().max() < 0.05
        at = 0
        for block in by_mode([walsh_coefficients(m) for m in pooled]):
            columns = rows[:, at : at + block.shape[1]]
            assert (columns.T @ columns / len(columns) - torch.eye(columns.shape[1])).abs().max() < 0.35
            assert (torch.corrcoef(columns.T) - torch.eye(columns.shape[1])).abs().max() < 0.1
            at += block.shape[1]


def maps_in_batches(maps: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    return [[m[at : at + 1500] for m in maps] for at in range(0, 4000, 1500)]
