"""Views of an image: crop, flip, colour jitter and greyscale."""

from __future__ import annotations

import torch

from research.pretraining.augmentation import DRAWS, augment


def test_neutral_draws_give_the_image_its_mirror_and_grey_image() -> None:
    images = torch.rand(2, 3, 16, 16)
    draws = torch.tensor([[1.0, 0.5, 0.5, 0.5, 1.0, 0.9, 0.1, 0.1, 0.1, 0.1, 0.9]]).expand(2, DRAWS)
    assert torch.allclose(augment(images, draws, 16), images * 2 - 1, atol=1e-5)
    flipped, grey = draws.clone(), draws.clone()
    flipped[:, 4], grey[:, 10] = 0.0, 0.0
    assert torch.allclose(augment(images, flipped, 16), images.flip(3) * 2 - 1, atol=1e-5)
    assert augment(images, grey, 16).std(1).max() < 1e-6
