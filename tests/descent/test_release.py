"""The Gaussian release of a step."""

from __future__ import annotations

import pytest
import torch

from privaware.descent import flat, quantile
from privaware.descent._population import StepSettings
from privaware.descent._release import GaussianRelease
from privaware.noise import Rng
from tests.descent.small_training import RecordingRng


def column(*values):
    return torch.tensor(values)[:, None]


def test_one_model_gets_noise_of_multiplier_times_norm():
    rng = Rng(0)
    release = GaussianRelease(flat(0.5), torch.tensor([0.5]), 100.0, 1.25, rng)
    noisy, deviation = release.noisy(torch.zeros(1, 100_000), StepSettings(2.0, 2.0, 0.1, 0.0, 0.0), 0.5)
    assert deviation == 1.25
    assert float(noisy.std()) == pytest.approx(1.25, rel=0.02)


def test_each_model_of_a_population_gets_its_own_noise():
    release = GaussianRelease(flat(1.0), torch.tensor([0.5, 2.0]), 100.0, 1.25, Rng(0))
    settings = StepSettings(column(1.0, 3.0), column(1.0, 3.0), 0.1, 0.0, 0.0)
    noisy, deviation = release.noisy(torch.zeros(2, 100_000), settings, 0.5)
    assert deviation.flatten().tolist() == [0.625, 7.5]
    assert (noisy.std(1) / deviation[:, 0]).tolist() == pytest.approx([1.0, 1.0], rel=0.02)


@pytest.mark.parametrize(("count", "direction"), [(50.0, -1), (-50.0, 1)])
def test_quantile_moves_the_norm_towards_target_in_one_release(count, direction):
    clip, norms, rng = quantile(norm=1.0, count_noise=1.0), torch.tensor([1.0]), RecordingRng(0)
    exact = torch.zeros(1, 5)
    exact[0, -1] = count  # all of 100 examples within the norm, or none
    _, deviation = GaussianRelease(clip, norms, 100.0, 1.25, rng).noisy(
        exact, StepSettings(1.0, clip.gradient_noise(1.0), 0.1, 0.0, 0.0), 1.0
    )
    assert len(rng.calls) == 1
    assert float(deviation) == pytest.approx(1.25 * clip.gradient_noise(1.0))
    assert (float(norms) - 1.0) * direction > 0
