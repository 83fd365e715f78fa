"""Synthetic images depend on their seed only and are valid images."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from research.pretraining.images import SyntheticImages, generator_for, leaves, textures

SOURCE = SyntheticImages(seed=3, size=24, generators=2, each=4)


def test_images_are_a_function_of_the_seed() -> None:
    images = SOURCE.generate(24)
    assert torch.equal(images, SOURCE.generate(24))
    assert torch.equal(images[16:], SOURCE.generate(8, first=1))
    assert not torch.equal(images, replace(SOURCE, seed=4).generate(24))
    flat = images.flatten(1).float()
    assert flat.std(1).min() > 1  # no image is blank
    assert torch.cdist(flat, flat).fill_diagonal_(math.inf).min() > 100  # and no two are alike


def test_textures_and_leaves_are_finite_and_in_range() -> None:
    g = generator_for(1, "test", 0, "cpu")
    bank = textures(2, 3, 32, g)
    for images in (bank, leaves(5, 7, bank, g)):
        assert images.isfinite().all()
        assert images.min() >= 0
        assert images.max() <= 1
