"""Random Fourier features of a few columns of a table."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from privaware.errors import WrongInput
from privaware.features import TableFourier, build, describe
from privaware.features._fourier import CATEGORY_DISTANCE
from privaware.features.table_fourier import places
from privaware.learners.linear import Linear
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for

NUMBERS = Schema(columns=tuple(Column(name=name, low=-1, high=1) for name in "abcdef"), classes=("n", "y"), rows=9)
MIXED = Schema(
    columns=(
        Column(name="age", low=0, high=90, bins=(10, 20), missing="category"),
        Column(name="job", kind="category", categories=("a", "b"), unseen="other"),
    ),
    classes=("n", "y"),
    rows=9,
)


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(5).uniform(-1, 1, size=(count, 6))


@pytest.mark.parametrize("read", [1, 2, 6])
def test_inner_products_approach_mean_of_subset_kernels(read: int) -> None:
    x = rows(5)
    mapped = TableFourier(count=60_000, scale=0.9, columns=(read,))(x, NUMBERS)
    apart = 3 * np.square(x[:, None] - x[None])  # a number between its bounds is multiplied by root 3
    subsets = [list(each) for each in combinations(range(6), read)]
    kernels = [np.exp(-apart[:, :, each].sum(axis=2) / read / (2 * 0.9**2)) for each in subsets]
    np.testing.assert_allclose(2 * mapped @ mapped.T, np.mean(kernels, axis=0), atol=0.03)


def test_a_feature_reads_as_many_columns_as_it_says() -> None:
    x = rows(1)
    feature = TableFourier(count=400, columns=(1, 3, 0))
    changes = [feature(x + 0.1 * np.eye(6)[at], NUMBERS) != feature(x, NUMBERS) for at in range(6)]
    assert np.sum(changes, axis=0)[0].tolist() == [1, 3, 6] * 133 + [1]


def test_numbers_are_ranked_by_bins_and_missing_ones_are_apart() -> None:
    column = MIXED.used[0]
    middle = places(np.array([20.0]), column)[0]
    assert middle == pytest.approx(np.sqrt(3) * (20 / 90 + 2 / 3 - 1))
    assert places(np.array([np.nan, -5.0, 900.0]), column).tolist() == pytest.approx([0.0, -np.sqrt(3), np.sqrt(3)])
    mapped = TableFourier(count=20_000, columns=(0,), scale=1.0)(np.array([[45.0, 0.0], [np.nan, 0.0]]), MIXED)
    apart = places(np.array([45.0]), column)[0] ** 2 + CATEGORY_DISTANCE**2
    assert 2 * mapped[0] @ mapped[1] == pytest.approx(np.exp(-apart / 2 / 2), abs=0.03)


def test_categories_are_codes_and_others_have_their_own_place() -> None:
    """By the inner products of rows that differ in one category."""
    x = np.array([[45.0, 0.0], [45.0, 1.0], [45.0, 2.0], [45.0, 7.0]])
    mapped = TableFourier(count=20_000, columns=(0,), scale=1.0)(x, MIXED)
    products = 2 * mapped @ mapped.T
    assert np.array_equal(mapped[2], mapped[3])  # beyond the last level there is none
    np.testing.assert_allclose(products[0, 1:3], np.exp(-(CATEGORY_DISTANCE**2) / 2), atol=0.03)


def test_rows_are_no_longer_than_one_whatever_they_hold() -> None:
    x = np.array([[np.inf, np.nan], [1e300, 7.0], [-1e300, -3.0], [0.0, 1.0]])
    mapped = TableFourier(count=50)(x, MIXED)
    assert np.isfinite(mapped).all()
    assert (np.square(mapped, dtype=np.float64).sum(axis=1) <= 1 + 1e-6).all()


def test_description_builds_the_same_map_and_draws_differ() -> None:
    feature = TableFourier(count=30, columns=(2, 0), draw=3)
    again = build({**describe(feature), "columns": [2, 0]})
    assert np.array_equal(again(rows(4), NUMBERS), feature(rows(4), NUMBERS))
    assert not np.array_equal(TableFourier(count=30, columns=(2, 0))(rows(4), NUMBERS), feature(rows(4), NUMBERS))


def test_former_name_builds_the_same_map() -> None:
    described = describe(TableFourier(count=30, columns=(2, 0), draw=3))
    assert build({**described, "name": "waves"}) == build(described)


@pytest.mark.parametrize(
    "settings", [{"count": 0}, {"scale": 0.0}, {"columns": ()}, {"columns": (-1,)}, {"columns": (0.5,)}]
)
def test_wrong_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(WrongInput, match="table_fourier"):
        TableFourier(**settings)


def test_images_are_refused() -> None:
    images = Schema(form="image", shape=(1, 2, 2), classes=("n", "y"), rows=9)
    with pytest.raises(WrongInput, match="columns of a table"):
        TableFourier()(np.zeros((1, 1, 2, 2)), images)


def test_head_learns_what_only_two_columns_together_say() -> None:
    facts = Schema(columns=NUMBERS.columns[:2], classes=("n", "y"), rows=4000)
    data = rows_for(facts, 4000)
    data.x[:] = np.random.default_rng(1).uniform(-1, 1, size=data.x.shape)
    data.y[:] = (data.x[:, 0] * data.x[:, 1] > 0).astype(data.y.dtype)
    scores = {}
    for name, features in (("line", None), ("features", [{"name": "table_fourier", "count": 200}])):
        model = Linear(steps=40, features=features).run(data, noise=1.0, rng=Rng(seed=2))
        scores[name] = float(np.mean(model.predictions(data) == data.y))
    assert scores["features"] > 0.85 > 0.6 > scores["line"]
