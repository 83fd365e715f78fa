"""Random Fourier features."""

from __future__ import annotations

import numpy as np

from privaware.features import RandomFourier


def test_inner_products_approximate_the_gaussian_kernel() -> None:
    rows = np.random.default_rng(5).normal(size=(6, 4)).astype(np.float32)
    mapped = RandomFourier(count=40_000, scale=1.7)(rows)
    apart = np.square(rows[:, None] - rows[None]).sum(axis=2)
    np.testing.assert_allclose(2 * mapped @ mapped.T, np.exp(-apart / (2 * 1.7**2)), atol=0.03)
    assert (np.square(mapped).sum(axis=1) <= 1).all()
    other = RandomFourier(count=40_000, scale=1.7, draw=1)(rows)
    assert np.abs(other - mapped).max() > 1e-3
