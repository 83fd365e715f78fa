"""Scattering on a GPU agrees with the CPU."""

from __future__ import annotations

import pytest
import torch

from privaware.features import Scatter, _scattering, scatter

pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("largest", [2**25, 0], ids=["matrix", "fourier"])
@pytest.mark.parametrize(
    ("shape", "J", "L"),
    [((5, 1, 28, 28), 2, 8), ((3, 3, 32, 32), 2, 8), ((2, 2, 45, 61), 3, 6), ((0, 1, 28, 28), 2, 8)],
)
def test_gpu_agrees_with_cpu(shape, J, L, largest, monkeypatch) -> None:
    monkeypatch.setattr(_scattering, "MAX_MATRIX_ENTRIES", largest)
    scatter._layers.cache_clear()
    x = torch.rand(shape, generator=torch.Generator().manual_seed(2))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")  # what a caller allows must not change features
    try:
        got = Scatter(J=J, L=L)(x.cuda())
    finally:
        torch.set_float32_matmul_precision(before)
        expected = Scatter(J=J, L=L)(x)
        scatter._layers.cache_clear()
    assert got.is_cuda
    assert got.shape == expected.shape
    assert float((got.cpu() - expected).norm()) <= 1e-5 * float(expected.norm())
