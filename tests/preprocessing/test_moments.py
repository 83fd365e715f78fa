"""Sums over rows have no rounding error: one row moves them by its own term, in any order and number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privaware.data import Data
from privaware.features.project import Project
from privaware.features.random_convolutions import RandomConvolutions
from privaware.features.scatter import Scatter
from privaware.preprocessing import _moments, normalise
from privaware.preprocessing._moments import clipped, transformed
from privaware.preprocessing.normalise import Normalise
from privaware.preprocessing.pca import Pca
from privaware.schema import Schema
from privaware.selectors.cfs_greedy import CfsGreedy
from privaware.selectors.worth import Worth
from privaware.testing import example, rows_for
from tests.selectors.neighbours import losing_bits, ratios, recorded

MECHANISMS = [Worth(bins=1), Pca(components=1), Normalise(), CfsGreedy(bins=3)]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda item: type(item).__name__)
@pytest.mark.parametrize("rows", [1_000_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
def test_p39_one_of_1e6_rows_moves_moments_within_sensitivity(mechanism: Any, rows: int) -> None:
    moved = ratios(mechanism, losing_bits(rows, columns=1))
    assert max(moved) <= 1
    assert max(moved) > 1 - 1e-4  # the row is a worst case: a sum that rounds would exceed its bound


@pytest.mark.parametrize(
    "mechanism", [*MECHANISMS, Pca(norm=0.3), Normalise(means=0.3, squares=0.3)], ids=lambda item: f"{item}"[:24]
)
def test_p39_rows_of_several_columns_move_within_sensitivity(mechanism: Any) -> None:
    data = losing_bits(20_000, columns=4)
    assert max(ratios(mechanism, data)) <= 1
    assert max(ratios(mechanism, data, at=7)) <= 1


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda item: type(item).__name__)
def test_p39_row_order_changes_no_bit_of_noised_moments(mechanism: Any) -> None:
    data = losing_bits(20_000, columns=4)
    mixed = data.take(np.random.default_rng(1).permutation(len(data)))
    for one, two in zip(recorded(mechanism, data), recorded(mechanism, mixed), strict=True):
        assert np.array_equal(one.exact, two.exact)


def test_p39_outer_products_added_in_single_precision_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(total: Any, left: np.ndarray, right: np.ndarray, *_: Any) -> None:
        before = np.zeros((1, 1)) if total._high is None else total.value
        total._high = np.concatenate([before, left * right]).astype(np.float32).cumsum(axis=0)[-1:].astype(float)
        total._low = total._high * 0.0

    monkeypatch.setattr(_moments, "add_outer_sum", planted)
    assert max(ratios(Pca(components=1, norm=0.9), losing_bits(300_000, columns=1))) > 1.0005


def test_p39_columns_added_in_single_precision_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(total: Any, values: np.ndarray, _: Any) -> None:
        total.add(values.astype(np.float32).cumsum(axis=0)[-1].astype(float))

    monkeypatch.setattr(normalise, "add_column_sums", planted)
    assert max(ratios(Normalise(means=0.55), losing_bits(300_000, columns=1))) > 1.00005


class CountsRows:
    """A feature whose last bits depend on how many rows it is given, as a product of matrices may."""

    def __call__(self, x: np.ndarray, schema: Schema) -> np.ndarray:
        return (x * np.float32(1 + 1e-6 * len(x))).astype(np.float32)


@pytest.mark.parametrize(
    "features",
    [
        pytest.param((Scatter(J=1, L=1),), marks=pytest.mark.slow),
        (RandomConvolutions(count=4),),
        (Project(matrix=tuple(map(tuple, np.random.default_rng(2).standard_normal((64, 5)).tolist()))),),
        (CountsRows(),),
    ],
    ids=lambda item: type(item[0]).__name__,
)
def test_p39_features_of_a_row_do_not_depend_on_other_rows(features: tuple[Any, ...]) -> None:
    data = rows_for(example("image", rows=500), 168)
    together = np.concatenate(list(transformed(features, data)))
    for cut in (1, 7, 45):
        fewer = data.take(np.arange(cut, len(data)))
        assert np.array_equal(np.concatenate(list(transformed(features, fewer))), together[cut:])


def test_text_is_filled_up_with_empty_rows() -> None:
    data = rows_for(example("text"), 5)

    def lengths(x: np.ndarray, schema: Schema) -> np.ndarray:
        return np.array([[float(len(text))] for text in x])

    (block,) = transformed((lengths,), data)
    assert block.tolist() == [[len(text)] for text in data.x]


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 5, 5), (2, 1, 1)])
def test_p39_means_over_positions_depend_on_the_row_alone(shape: tuple[int, int, int]) -> None:
    x = np.random.default_rng(3).random((300, *shape)).astype(np.float32)
    schema = replace(example("image", shape=shape), rows=300)
    data = Data(schema=schema, x=x, y=np.zeros(300, np.int64))
    mixed = data.take(np.random.default_rng(4).permutation(300))
    for one, two in zip(recorded(Normalise(), data), recorded(Normalise(), mixed), strict=True):
        assert np.array_equal(one.exact, two.exact)


def test_clipped_rows_are_no_longer_than_the_norm() -> None:
    rows = np.random.default_rng(5).standard_normal((200, 3, 4)) * 10.0 ** np.arange(-3, 1)
    rows[3], rows[4, 0, 0], rows[5] = 1e300, np.nan, np.inf
    lengths = np.linalg.norm(clipped(rows, 0.7), axis=1)
    assert lengths.max() <= 0.7
    assert lengths[3] > 0.6999
    assert lengths[5] == 0
