"""The score network learns scores, and Langevin dynamics draws from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from privaware.learners._networks.score_network import (
    Denoising,
    Langevin,
    ScoreNetwork,
    ScoreTraining,
    noise_levels,
    residual_loss,
)

SHAPE = (1, 4, 4)


def network(seed: int = 0, classes: int = 0, stages: int = 2) -> ScoreNetwork:
    torch.manual_seed(seed)
    return ScoreNetwork(SHAPE, 6, stages, classes)


@pytest.mark.parametrize(("shape", "stages"), [((1, 1, 2), 4), ((1, 3, 3), 1), ((3, 7, 5), 2), ((1, 28, 28), 3)])
def test_network_returns_images_of_any_size(shape: tuple[int, int, int], stages: int) -> None:
    module = ScoreNetwork(shape, 4, stages, classes=2)
    scaled = module(torch.rand(2, *shape), torch.ones(2), torch.eye(2))
    assert scaled.shape == (2, *shape)
    assert torch.isfinite(scaled).all()
    loss = scaled.square().sum()
    assert len(torch.autograd.grad(loss, list(module.parameters()))) > 20  # raises where one is not used


def test_published_network_has_the_published_number_of_blocks() -> None:
    module: Any = ScoreNetwork((1, 28, 28), 128, 4).refine_net
    dilations = [stage[1].first.dilation[0] for stage in module.residual]
    assert dilations == [1, 1, 2, 4]
    assert [stage[0].halve for stage in module.residual] == [False, True, False, False]
    assert [block.last.first[0].out_channels for block in module.refine] == [256, 256, 128, 128]
    assert [len(block.last.first) for block in module.refine] == [1, 1, 1, 3]


def test_an_image_has_one_score_whatever_is_beside_it() -> None:
    module, images = network(classes=2), torch.rand(5, *SHAPE)
    hot = torch.eye(2)[[0, 1, 0, 1, 1]]
    together = module(images, torch.ones(5), hot)
    alone = torch.cat([module(images[at : at + 1], torch.ones(1), hot[at : at + 1]) for at in range(5)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_residuals_are_the_noise_that_the_score_leaves() -> None:
    module = Denoising(network(classes=2), draws=3)
    module.draw(noise_levels(2.0, 0.5, 4), np.random.default_rng(0))
    images, hot = torch.rand(2, *SHAPE), torch.eye(2)
    residuals = module(images, hot)
    assert residuals.shape == (2, 48)
    by_draw = residuals.view(6, 16)
    for example in range(2):
        for draw in range(3):
            level, noise = module.level[draw], module.noise[draw]
            noisy = images[example] + level * noise
            scaled = module.network(noisy[None], level[None], hot[example : example + 1])
            torch.testing.assert_close(by_draw[3 * example + draw], (scaled + noise).flatten(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(residual_loss(residuals, torch.zeros(2)), residuals.square().mean(1) / 2)


def test_network_learns_the_score_of_a_normal_distribution() -> None:
    """N(0, 1) with noise of deviation s has the score -x / (1 + s^2)."""
    module, generator = network(1, stages=1), np.random.default_rng(0)
    level = torch.full((64,), 0.5)
    parameters = list(module.parameters())

    def gradients() -> tuple[Tensor, ...]:
        clean, noise = torch.from_numpy(generator.standard_normal((2, 64, *SHAPE), dtype=np.float32))
        residuals = module(clean + 0.5 * noise, level) + noise
        return torch.autograd.grad(residuals.square().mean() / 2, parameters)

    learned = ScoreTraining(steps=60, lr=2e-2, ema=0.9).run(module, gradients)
    noisy = torch.from_numpy(generator.standard_normal((64, *SHAPE), dtype=np.float32)) * np.sqrt(1.25)
    score, expected = learned(noisy, level) / 0.5, -noisy / 1.25
    assert float((score - expected).square().mean() / expected.square().mean()) < 0.15


def test_langevin_draws_from_the_distribution_of_the_score() -> None:
    """The exact score of N(centre, 0.1^2) with noise; pixels then are normal around the centre."""
    centre, deviation = 0.4, 0.1

    def scaled_score(images: Tensor, level: Tensor, hot: Tensor | None) -> Tensor:
        spread = level.view(-1, 1, 1, 1)
        return spread * (centre - images) / (spread.square() + deviation**2)

    levels = noise_levels(3.0, 0.01, 232)
    langevin = Langevin(levels=levels, steps=5, rate=6.2e-6, at_once=100)
    initial = np.random.default_rng(0).random((256, *SHAPE), dtype=np.float32)
    images = langevin.run(scaled_score, initial, None, np.random.default_rng(1))
    assert images.shape == initial.shape
    assert images.mean() == pytest.approx(centre, abs=0.01)
    assert images.std() == pytest.approx(deviation, rel=0.1)


def test_training_follows_the_gradients_it_is_shown() -> None:
    module = torch.nn.Linear(2, 1)
    start = module.weight.detach().clone()
    learned: Any = ScoreTraining(steps=20, lr=0.1, ema=0.0).run(module, lambda: (torch.ones(1, 2), torch.zeros(1)))
    assert torch.allclose(learned.weight, start - 20 * 0.1, atol=1e-3)
