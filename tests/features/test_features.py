"""Every feature transforms one row at a time, and is rebuilt from its description."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from privaware import features
from privaware.errors import WrongInput
from privaware.features import Bounded, GroupNorm, MaxPool, Pixels, RandomConvolutions, RandomFourier, Scatter
from privaware.features.hashed import Hashed
from privaware.features.onehot import OneHot
from privaware.schema import Schema

IMAGES = Schema(form="image", shape=(1, 12, 12), classes=("a", "b"))
FEATURES = [
    (Scatter(J=1, L=4), GroupNorm(groups=5), Bounded()),
    (MaxPool(size=3), Pixels()),
    (RandomConvolutions(count=5, grid=2), Bounded(norm=2.0, exact=False)),
    (Pixels(), RandomFourier(count=16)),
]


@pytest.mark.parametrize("chain", FEATURES, ids=lambda chain: chain[0].__class__.__name__)
def test_row_does_not_depend_on_other_rows(chain: tuple[Any, ...]) -> None:
    rows = np.random.default_rng(0).random((7, 1, 12, 12), np.float32)
    together = features.apply(chain, rows, IMAGES)
    alone = np.concatenate([features.apply(chain, rows[[at]], IMAGES) for at in range(7)])
    np.testing.assert_allclose(alone, together, atol=1e-6)
    rows[3] = 1e4
    others = [0, 1, 2, 4, 5, 6]
    np.testing.assert_allclose(features.apply(chain, rows, IMAGES)[others], together[others], atol=1e-6)


@pytest.mark.parametrize("chain", FEATURES, ids=lambda chain: chain[0].__class__.__name__)
def test_description_round_trips_through_json(chain: tuple[Any, ...]) -> None:
    descriptions = json.loads(json.dumps([features.describe(feature) for feature in chain]))
    rebuilt = tuple(features.build(description) for description in descriptions)
    rows = np.random.default_rng(1).random((2, 1, 12, 12), np.float32)
    assert rebuilt == chain
    assert np.array_equal(features.apply(rebuilt, rows, IMAGES), features.apply(chain, rows, IMAGES))


def test_build_inverts_describe_and_refuses_unknown_names() -> None:
    for feature in (OneHot(bins=3, norm=0.5), Pixels(), Hashed(slots=32)):
        assert features.build(features.describe(feature)) == feature
    with pytest.raises(WrongInput, match="expected a feature named"):
        features.build({"name": "nothing"})


@pytest.mark.parametrize(
    "feature", [Scatter(J=2, L=6), MaxPool(size=5), RandomConvolutions(), RandomFourier(), Pixels()]
)
def test_width_is_the_number_of_entries(feature: Any) -> None:
    row = feature(np.ones((1, 1, 12, 12), np.float32), IMAGES)
    assert row.size == feature.width(IMAGES)
