"""Noise by blocks is noise for the whole array at once, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from privaware.noise import _cpu_tensors, lattice
from privaware.noise._cpu_tensors import add_noise


def stream() -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(3))


@pytest.mark.parametrize("block", [7, 64, 10_000])
@pytest.mark.parametrize("shape", [(1, 0), (1, 1000), (3, 50), (20, 3)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_blocks_have_the_bits_of_one_array(block: int, shape: tuple[int, int], kind: type, monkeypatch) -> None:
    monkeypatch.setattr(_cpu_tensors, "NUMBERS_AT_ONCE", block)
    scale = np.linspace(0.3, 9.0, shape[0])[:, None]
    step = lattice(scale)
    exact = np.random.default_rng(1).normal(0, 50, shape).astype(kind)
    expected = (np.rint(stream().standard_normal(shape) * (scale / step) + exact / step) * step).astype(kind)
    released = add_noise(exact, scale, step, stream())
    assert released.dtype == kind
    assert np.array_equal(released, expected)


def test_values_far_beyond_their_noise_stay_on_the_lattice() -> None:
    ones = np.ones((1, 1))
    exact = np.array([[2.0**60, -(2.0**52) - 1, 2.0**51 + 0.5, 3.25]])
    released = add_noise(exact, ones, ones, stream())
    assert np.array_equal(released, np.rint(released))
    assert (np.abs(released - exact) <= 8 + np.abs(exact) * 2.0**-51).all()


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("power", [51, 52, 53, 60])
def test_large_values_of_both_signs_are_multiples_of_the_step(sign: float, power: int) -> None:
    ones = np.ones((1, 1))
    exact = sign * (2.0**power + np.arange(64)[None] / 2)
    released = add_noise(exact, ones, ones, stream())
    assert np.array_equal(released, np.rint(released))
    assert (np.abs(released - exact) <= 8 + np.abs(exact) * 2.0**-51).all()


def test_large_values_without_noise_are_kept() -> None:
    zero = np.zeros((1, 1))
    exact = np.array([[1e12, -1e20, 0.1]])
    assert np.array_equal(add_noise(exact, zero, lattice(zero), stream()), exact)
