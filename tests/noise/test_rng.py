"""Noise has the promised distribution, comes from the operating system, and shows no low-order bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from privaware.errors import WrongInput
from privaware.noise import Rng, lattice

DRAWS = 40_000


@pytest.mark.parametrize("make", [np.zeros, torch.zeros], ids=["array", "tensor"])
@pytest.mark.parametrize("scale", [0.01, 3.0, 1000.0])
def test_gaussian_noise_has_deviation_noise_times_sensitivity(make: object, scale: float) -> None:
    noisy = np.asarray(Rng().gaussian(make(DRAWS), noise=2.0, sensitivity=scale / 2))  # type: ignore[operator]
    assert stats.kstest(noisy / scale, "norm").pvalue > 1e-6


def test_tensor_noise_is_drawn_in_float64_for_any_dtype() -> None:
    """float32 draws lie on a grid of their own, which beyond 6 deviations is coarser than the lattice of releases."""
    exact = torch.full((1000,), 0.1)
    released = [
        Rng(seed=3).gaussian(exact.to(kind), noise=1.0, sensitivity=1.0) for kind in (torch.float32, torch.float64)
    ]
    draws = Rng(seed=3).gaussian(exact.double().numpy(), noise=1.0, sensitivity=1.0)
    assert released[0].dtype == torch.float32
    assert torch.equal(released[0].double(), released[1])
    assert np.array_equal(released[1].numpy(), draws)


def test_laplace_noise_has_scale_noise_times_sensitivity() -> None:
    noisy = Rng().laplace(np.zeros(DRAWS), noise=2.0, sensitivity=3.0)
    assert stats.kstest(noisy / 6.0, "laplace").pvalue > 1e-6


@pytest.mark.parametrize("seed", [None, 5], ids=["opendp", "seeded"])
def test_scalar_noise_has_the_distribution_of_vector_noise(seed: int | None) -> None:
    rng = Rng(seed)
    normal = [rng.gaussian(1.0, noise=2.0, sensitivity=1.5) for _ in range(2000)]
    heavy = [rng.laplace(1.0, noise=2.0, sensitivity=1.5) for _ in range(2000)]
    assert stats.kstest((np.array(normal) - 1) / 3, "norm").pvalue > 1e-6
    assert stats.kstest((np.array(heavy) - 1) / 3, "laplace").pvalue > 1e-6


def test_response_keeps_the_truth_with_promised_probability() -> None:
    responses = Rng().respond(np.full(DRAWS, 3), epsilon=1.0, classes=10)
    keep = math.e / (math.e + 9)
    counts = np.bincount(responses, minlength=10)
    expected = np.where(np.arange(10) == 3, keep, (1 - keep) / 9) * DRAWS
    assert stats.chisquare(counts, expected).pvalue > 1e-6


@pytest.mark.parametrize("seed", [None, 5], ids=["opendp", "seeded"])
def test_private_choice_has_the_promised_probabilities(seed: int | None) -> None:
    rng = Rng(seed)
    lower = sum(rng.choose(np.array([0.0, 1.5]), epsilon=2.0, sensitivity=1.0) == 0 for _ in range(4000))
    assert stats.binomtest(lower, 4000, math.exp(-1.5) / 2).pvalue > 1e-6


@pytest.mark.parametrize("scale", [0.3, 7.0])
def test_p25_released_values_lie_on_a_lattice_no_row_can_move(scale: float) -> None:
    exact = np.random.default_rng(0).normal(size=5000) * 10
    step = float(lattice(scale))
    assert math.log2(step) == int(math.log2(step))
    for released in (
        Rng().gaussian(exact, noise=scale, sensitivity=1.0),
        Rng().laplace(exact, noise=scale, sensitivity=1.0),
        Rng().gaussian(torch.from_numpy(exact), noise=scale, sensitivity=1.0).numpy(),
    ):
        assert np.array_equal(released / step, np.round(released / step))


@pytest.mark.parametrize("size", [0.0, 3.0, 3e9, -1e30])
def test_values_without_noise_are_returned_as_they_are(size: float) -> None:
    array = np.full((2, 3), size)
    for seed in (None, 0):
        rng = Rng(seed)
        assert np.array_equal(rng.gaussian(array, noise=0.0, sensitivity=1.0), array)
        assert np.array_equal(rng.laplace(array, noise=0.0, sensitivity=1.0), array)
        assert rng.gaussian(size, noise=0.0, sensitivity=1.0) == rng.laplace(size, noise=0.0, sensitivity=1.0) == size
        for kind in (torch.float32, torch.float64):
            exact = torch.full((3, 2), size, dtype=kind).T  # not contiguous
            for noise in (0.0, torch.zeros(2, 3), torch.zeros(2, 1), torch.zeros(())):
                for tensor in (exact, exact.contiguous()):
                    assert torch.equal(rng.gaussian(tensor, noise=noise, sensitivity=1.0), tensor)


def test_p26_streams_are_separate_and_runs_differ() -> None:
    first, second = Rng(seed=4), Rng(seed=4)
    first.poisson(1000, 0.5)
    first.initial.random(10)
    zeros = np.zeros(5)
    assert np.array_equal(
        first.gaussian(zeros, noise=1.0, sensitivity=1.0), second.gaussian(zeros, noise=1.0, sensitivity=1.0)
    )
    assert not np.array_equal(Rng().poisson(64, 0.5), Rng().poisson(64, 0.5))


def test_a_seed_marks_the_result_as_not_for_release() -> None:
    assert Rng().certified
    assert not Rng(seed=0).certified
    with pytest.raises(WrongInput, match="expected seed"):
        Rng(seed=-1)


def test_adding_a_row_keeps_the_partition_of_the_others() -> None:
    fewer, more = Rng(seed=2).shards(99, (1, 2, 3)), Rng(seed=2).shards(100, (1, 2, 3))
    assert np.array_equal(fewer, more[:99])


@pytest.mark.parametrize("rate", [0.03, 0.4, 0.97])
def test_gap_sampling_is_poisson_sampling(rate: float) -> None:
    rows, samples, rng = 12, 4000, Rng(seed=11)
    indices, inside = rng.poisson_indices(rows, rate, samples)
    masks = np.zeros((samples, rows))
    for mask, sample, counted in zip(masks, indices, inside, strict=True):
        mask[sample[counted]] += 1
    assert masks.max() == 1  # no row twice
    spread = np.sqrt(rate * (1 - rate) / samples)
    assert np.abs(masks.mean(0) - rate).max() < 5 * spread
    centred = masks - rate
    pairs = centred.T @ centred / samples
    assert np.abs(pairs - np.diag(np.diag(pairs))).max() < 5 * rate * (1 - rate) / np.sqrt(samples)


def test_long_samples_are_not_cut_off() -> None:
    indices, inside = Rng(seed=3).poisson_indices(5000, 0.999, 3)
    assert (inside.sum(1) > 4950).all()
    assert indices.max() == 4999


@pytest.mark.parametrize("scale", [1e-200, 1e-320, 1e308, math.inf, math.nan, -1.0])
@pytest.mark.parametrize("make", [float, lambda x: np.full(2, x), lambda x: torch.full((2,), x)])
def test_noise_scale_that_rounding_would_lose_is_refused(make: Any, scale: float) -> None:
    for release in (Rng().gaussian, Rng().laplace):
        if release.__name__ == "gaussian" or not isinstance(make(0.0), torch.Tensor):
            with pytest.raises(WrongInput, match="noise scale"):
                release(make(1.0), noise=scale, sensitivity=1.0)
    with pytest.raises(WrongInput, match="noise scale"):
        Rng().iterate(np.ones(2), [], noise=scale, sensitivity=1.0)


def test_noise_scale_that_underflows_is_refused_and_none_is_not() -> None:
    with pytest.raises(WrongInput, match="noise scale"):
        Rng().gaussian(1.0, noise=1e-200, sensitivity=1e-200)
    with pytest.raises(WrongInput, match="noise scale"):
        Rng().gaussian(torch.ones(1), noise=1e-36, sensitivity=1.0)
    assert Rng().gaussian(torch.ones(1), noise=0.0, sensitivity=1.0) == 1.0
    assert Rng().gaussian(np.ones(2), noise=1.0, sensitivity=np.array([0.0, 1.0]))[0] == 1.0
