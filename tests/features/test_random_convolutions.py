"""Frozen random convolutions."""

from __future__ import annotations

import numpy as np

from privaware.features import RandomConvolutions


def test_outputs_agree_with_sums_over_pixels() -> None:
    rows = np.random.default_rng(6).random((2, 2, 5, 6), np.float32)
    layer = RandomConvolutions(count=3, size=3, grid=1)
    filters = layer._filters(2)
    windows = np.lib.stride_tricks.sliding_window_view(rows, (3, 3), axis=(2, 3))
    outputs = np.einsum("nchwpq,kcpq->nkhw", windows, filters)
    expected = np.concatenate([np.maximum(outputs, 0), np.maximum(-outputs, 0)], axis=1)
    np.testing.assert_allclose(layer(rows)[..., 0, 0], expected.mean(axis=(2, 3)), atol=1e-6)
    flat = layer(np.ones((1, 2, 5, 6), np.float32))
    assert np.abs(flat).max() < 1e-6  # filters of mean 0 ignore a constant image
