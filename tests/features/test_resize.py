"""Resized images."""

from __future__ import annotations

import numpy as np
import pytest

from privaware.errors import WrongInput
from privaware.features import Resize


def test_resize_keeps_constant_images_and_means_of_blocks() -> None:
    flat = np.full((2, 3, 37, 50), 0.25, np.float32)
    np.testing.assert_allclose(Resize(side=8)(flat), 0.25, atol=1e-6)
    ramp = np.tile(np.linspace(0, 1, 64, dtype=np.float32), (1, 1, 64, 1))
    small = Resize(side=32)(ramp)
    assert small.mean() == pytest.approx(0.5, abs=1e-4)
    assert (np.diff(small[0, 0, 0]) > 0).all()


def test_resize_leaves_images_of_its_size_and_refuses_tables() -> None:
    images = np.random.default_rng(1).random((2, 1, 32, 32), np.float32)
    assert np.array_equal(Resize()(images), images)
    with pytest.raises(WrongInput, match="expected images"):
        Resize()(np.zeros((2, 5)))
