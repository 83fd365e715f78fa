"""Inputs of a pretrained network: one image at a time, finite and in [-1, 1]."""

from __future__ import annotations

import numpy as np
import pytest

from privaware import features
from privaware.errors import WrongInput
from privaware.features.prior_inputs import MICROBATCH, PriorInputs

pytestmark = pytest.mark.cuda(instead="cpu")  # the prior takes a GPU where there is one


@pytest.mark.parametrize("shape", [(1, 6, 9), (3, 8, 8)])
def test_image_does_not_depend_on_others_and_stays_in_range(shape: tuple[int, int, int]) -> None:
    images = np.random.default_rng(1).random((MICROBATCH + 3, *shape), dtype=np.float32)
    images[1], images[2, 0, 0, :3] = 7.0, [np.nan, np.inf, -np.inf]
    feature = PriorInputs(side=8)
    resized = feature(images)
    assert resized.shape == (len(images), 3, 8, 8)
    assert resized.min() >= -1
    assert resized.max() <= 1
    for at in (0, 2, MICROBATCH, MICROBATCH + 2):
        assert np.array_equal(feature(images[at : at + 1])[0], resized[at])
    assert features.build(features.describe(feature)) == feature


def test_image_of_the_right_size_is_only_moved_to_the_range() -> None:
    images = np.random.default_rng(2).random((2, 3, 8, 8), dtype=np.float32)
    assert PriorInputs(side=8)(images) == pytest.approx(2 * images - 1, abs=1e-6)
    assert PriorInputs(side=8).width() == 192


def test_what_is_no_image_is_refused() -> None:
    with pytest.raises(WrongInput, match="prior_inputs: expected images"):
        PriorInputs()(np.zeros((2, 5), np.float32))
    with pytest.raises(WrongInput, match="prior_inputs: expected side"):
        PriorInputs(side=0)
