"""Maps of several channels as one image."""

from __future__ import annotations

import numpy as np
import pytest

from privaware.errors import WrongInput
from privaware.features import Channels
from privaware.learners.hand_dp import HandDp
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.testing import rows_for

IMAGES = Schema(form="image", shape=(3, 16, 16), classes=("no", "yes"), rows=100)
SCATTER = [{"name": "scatter", "J": 1, "L": 2}, {"name": "group_norm", "groups": 9}]


def test_maps_follow_each_other_channel_by_channel() -> None:
    rows = np.arange(2 * 3 * 4 * 2 * 2, dtype=np.float32).reshape(2, 3, 4, 2, 2)
    joined = Channels()(rows)
    assert joined.shape == (2, 12, 2, 2)
    np.testing.assert_array_equal(joined[1, 4 * 2 + 3], rows[1, 2, 3])


def test_rows_without_maps_are_refused() -> None:
    with pytest.raises(WrongInput, match="expected maps"):
        Channels()(np.ones((2, 5), np.float32))


def test_a_network_of_convolutions_learns_from_scattering() -> None:
    network = {"name": "simple_cnn", "filters": [4], "hidden": [4]}
    learner = HandDp(steps=2, features=[*SCATTER, {"name": "channels"}], architecture=network)
    model = learner.run(rows_for(IMAGES, 40), 0.5, Rng(seed=0))
    assert model.architecture["inputs"] == [9, 8, 8]
    assert model.predictions(rows_for(IMAGES, 5)).shape == (5,)
