"""Contrastive pretraining: the loss of the paper, exact resumption, and learning."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from privaware.errors import WrongInput
from research.pretraining.simclr import ImageRecipe, Pretraining, contrastive_loss

TINY = ImageRecipe(seed=5, images=16, size=24, generators=1, each=4, depth=10, width=1, batch=4, warmup=2)


def test_contrastive_loss_agrees_with_a_plain_loop() -> None:
    first, second = torch.randn(3, 5), torch.randn(3, 5)
    both = [row / row.norm() for row in torch.cat([first, second])]
    losses = []
    for i in range(6):
        scores = {j: math.exp(float(both[i] @ both[j]) / 0.2) for j in range(6) if j != i}
        losses.append(-math.log(scores[(i + 3) % 6] / sum(scores.values())))
    assert float(contrastive_loss(first, second, 0.2)) == pytest.approx(np.mean(losses), rel=1e-5)


def test_training_resumes_exactly() -> None:
    uninterrupted = Pretraining(TINY)
    for step in range(4):
        uninterrupted.step(step / 4)
        if step == 1:
            file = io.BytesIO()
            torch.save(uninterrupted.state(), file)
    file.seek(0)
    resumed = Pretraining(TINY)
    resumed.load(torch.load(file, weights_only=True))
    for step in (2, 3):
        resumed.step(step / 4)
    expected = uninterrupted.modules.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in resumed.modules.state_dict().items())
    with pytest.raises(WrongInput, match="expected a checkpoint of"):
        Pretraining(replace(TINY, lr=1e-4)).load(uninterrupted.state())


def test_loss_falls_on_repeated_views() -> None:
    training = Pretraining(replace(TINY, batch=6, images=64, lr=3e-3, warmup=1))
    losses = []
    for _ in range(6):
        training.step_number = 0  # the same images and the same views again
        losses.append(float(training.step(0.0)))
    assert losses[-1] < losses[0] - 0.3
