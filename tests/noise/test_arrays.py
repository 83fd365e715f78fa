"""Noise for arrays: Gaussian noise by blocks has the bits of one array; Laplace noise has neither gaps nor ends."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privaware.noise import Rng, _arrays, lattice
from privaware.noise._arrays import add_gaussian, add_laplace


def unlucky() -> np.random.Generator:
    """A generator whose first numbers have no bit set but a few of the last."""
    generator = np.random.Generator(np.random.SFC64(0))
    state = generator.bit_generator.state
    state["state"]["state"] = np.zeros(4, dtype=np.uint64)
    generator.bit_generator.state = state
    return generator


def test_laplace_noise_of_an_array_has_no_largest_value() -> None:
    """Floating-point uniform numbers would end the tails at 37 times the scale."""
    rng = Rng()
    rng._streams.cpu["noise"].bit_generator.state = unlucky().bit_generator.state
    assert abs(rng.laplace(np.zeros(1), noise=1.0, sensitivity=1.0)[0]) > 50


@pytest.mark.parametrize("far", [0.0, 0.3, -1e6 / 3, 1e18])
def test_float64_and_decimal_arithmetic_round_alike(far: float, monkeypatch: pytest.MonkeyPatch) -> None:
    exact, scale = np.linspace(far, far + 1, 400), np.array(3.7)
    fast = add_laplace(exact, scale, lattice(scale), np.random.Generator(np.random.SFC64(1)))
    monkeypatch.setattr(_arrays, "COARSE_BELOW", 2**63)
    real = _arrays._nearest
    monkeypatch.setattr(_arrays, "_nearest", lambda *facts: real(*facts[:3], np.random.default_rng(0)))  # of 64 bits
    assert np.array_equal(add_laplace(exact, scale, lattice(scale), np.random.Generator(np.random.SFC64(1))), fast)


def test_numbers_next_to_a_boundary_are_decided_by_decimals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_arrays, "NEAR", 0.25)
    draws = np.random.Generator(np.random.SFC64(2))
    noisy = add_laplace(np.zeros(2000), np.array(2.0), np.array(2.0**-11), draws)
    assert stats.kstest(noisy / 2, "laplace").pvalue > 1e-6


@pytest.mark.parametrize("bits", [1, 5, 2**62, 2**63 - 1])
def test_bounds_of_the_logarithm_hold_it(bits: int) -> None:
    low, high = _arrays._exponential_bounds(bits, 63)
    assert float(low) <= -math.log(bits / 2.0**63) <= float(high)


def test_near_covers_the_error_of_float64() -> None:
    """Against decimals of 40 digits, at both ends of what float64 decides and between."""
    bits = np.array([2**40, 2**41 + 7, 2**52 + 1, 2**60 - 1, 2**62 + 3, 2**63 - 1], dtype=np.uint64)
    floats = -np.log((bits + 0.5) * 2.0**-63)
    for number, value in zip(bits.tolist(), floats.tolist(), strict=True):
        ends = _arrays._exponential_bounds(number, 63)
        assert max(abs(Fraction(value) - end) for end in ends) * 2**13 < _arrays.NEAR


def test_a_scale_of_too_many_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 8192 lattice steps"):
        add_laplace(np.zeros(1), np.array(2.0), np.array(2.0**-13), np.random.default_rng(0))


def test_an_array_without_axes_is_noised_as_one_number() -> None:
    one, several = (Rng(seed=2).laplace(np.zeros(shape), noise=1.0, sensitivity=1.0) for shape in ((), (1,)))
    assert (one.shape, float(one)) == ((), several[0])


def stream() -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(3))


@pytest.mark.parametrize("block", [7, 64, 10_000])
@pytest.mark.parametrize("shape", [(1, 0), (1, 1000), (3, 50), (20, 3)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_blocks_have_the_bits_of_one_array(block: int, shape: tuple[int, int], kind: type, monkeypatch) -> None:
    monkeypatch.setattr(_arrays, "NUMBERS_AT_ONCE", block)
    scale = np.linspace(0.3, 9.0, shape[0])[:, None]
    step = lattice(scale)
    exact = np.random.default_rng(1).normal(0, 50, shape).astype(kind)
    expected = (np.rint(stream().standard_normal(shape) * (scale / step) + exact / step) * step).astype(kind)
    released = add_gaussian(exact, scale, step, stream())
    assert released.dtype == kind
    assert np.array_equal(released, expected)


@pytest.mark.parametrize(
    "exact",
    [
        np.array([[2.0**60, -(2.0**52) - 1, 2.0**51 + 0.5, 3.25]]),
        *(sign * (2.0**power + np.arange(64)[None] / 2) for sign in (-1.0, 1.0) for power in (51, 52, 53, 60)),
    ],
)
def test_values_far_beyond_their_noise_stay_on_the_lattice(exact: np.ndarray) -> None:
    ones = np.ones((1, 1))
    released = add_gaussian(exact, ones, ones, stream())
    assert np.array_equal(released, np.rint(released))
    assert (np.abs(released - exact) <= 8 + np.abs(exact) * 2.0**-51).all()


def test_large_values_without_noise_are_kept() -> None:
    zero = np.zeros((1, 1))
    exact = np.array([[1e12, -1e20, 0.1]])
    assert np.array_equal(add_gaussian(exact, zero, lattice(zero), stream()), exact)
