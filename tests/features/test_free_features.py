"""Free features look at one row at a time, keep their bounds, and come back from a model folder as they were."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from privaware import features
from privaware.datasets._download import present
from privaware.errors import WrongInput
from privaware.features import (
    Bounded,
    Drop,
    GroupNorm,
    MaxPool,
    OneHot,
    Pixels,
    RandomConvolutions,
    RandomFourier,
    Scatter,
)
from privaware.features.extractor import WEIGHTS, Extractor, _convolve, extract
from privaware.schema import Column, Schema

IMAGES = Schema(form="image", shape=(1, 12, 12), classes=("a", "b"))
FEATURES = [
    (Scatter(J=1, L=4), GroupNorm(groups=5), Bounded()),
    (MaxPool(size=3), Pixels()),
    (RandomConvolutions(count=5, grid=2), Bounded(norm=2.0, exact=False)),
    (Pixels(), RandomFourier(count=16)),
]


@pytest.mark.parametrize("chain", FEATURES, ids=lambda chain: chain[0].__class__.__name__)
def test_a_row_does_not_depend_on_the_others(chain: tuple[Any, ...]) -> None:
    rows = np.random.default_rng(0).random((7, 1, 12, 12), np.float32)
    whole = features.apply(chain, rows, IMAGES)
    alone = np.concatenate([features.apply(chain, rows[[at]], IMAGES) for at in range(7)])
    np.testing.assert_allclose(alone, whole, atol=1e-6)
    rows[3] = 1e4
    others = [0, 1, 2, 4, 5, 6]
    np.testing.assert_allclose(features.apply(chain, rows, IMAGES)[others], whole[others], atol=1e-6)


@pytest.mark.parametrize("chain", FEATURES, ids=lambda chain: chain[0].__class__.__name__)
def test_a_description_builds_the_same_features(chain: tuple[Any, ...]) -> None:
    stored = json.loads(json.dumps([features.describe(feature) for feature in chain]))
    again = tuple(features.build(description) for description in stored)
    rows = np.random.default_rng(1).random((2, 1, 12, 12), np.float32)
    assert again == chain
    assert np.array_equal(features.apply(again, rows, IMAGES), features.apply(chain, rows, IMAGES))


@pytest.mark.parametrize(
    "feature", [Scatter(J=2, L=6), MaxPool(size=5), RandomConvolutions(), RandomFourier(), Pixels()]
)
def test_the_width_is_what_a_row_has(feature: Any) -> None:
    row = feature(np.ones((1, 1, 12, 12), np.float32), IMAGES)
    assert row.size == feature.width(IMAGES)


@settings(max_examples=200, deadline=None)
@given(
    rows=arrays(np.float32, array_shapes(min_dims=2, max_dims=4, max_side=6), elements=st.floats(width=32)),
    norm=st.floats(1e-6, 1e6),
    exact=st.booleans(),
)
def test_no_row_is_longer_than_its_bound(rows: np.ndarray, norm: float, exact: bool) -> None:
    made = Bounded(norm=norm, exact=exact)(rows)
    length = np.sqrt(np.square(made.astype(float)).sum(axis=1))
    assert np.isfinite(made).all()
    assert (length <= norm).all()
    finite = np.nan_to_num(rows.reshape(len(rows), -1), nan=0.0, posinf=0.0, neginf=0.0)
    if exact:
        assert np.allclose(length[np.abs(finite).max(axis=1) > 0], norm, rtol=1e-5)
    else:
        own = np.sqrt(np.square(finite.astype(float)).sum(axis=1))
        assert np.allclose(length, np.minimum(own, norm), rtol=1e-5, atol=1e-37)


@given(groups=st.sampled_from([1, 2, 3, 6]), shift=st.floats(-5, 5), scale=st.floats(0.5, 20))
def test_group_normalisation_is_the_usual_one(groups: int, shift: float, scale: float) -> None:
    rows = np.random.default_rng(2).normal(shift, scale, (4, 2, 3, 5, 2)).astype(np.float32)
    made = GroupNorm(groups=groups)(rows)
    wanted = torch.nn.functional.group_norm(torch.from_numpy(rows).flatten(1, 2), groups)
    np.testing.assert_allclose(made.reshape(4, 6, 5, 2), wanted.numpy(), atol=2e-5)


def test_groups_must_divide_the_channels() -> None:
    with pytest.raises(WrongInput, match="choose other groups"):
        GroupNorm(groups=4)(np.ones((1, 6, 2, 2), np.float32))


@given(size=st.integers(1, 4), height=st.integers(4, 9), width=st.integers(4, 9))
def test_pooling_keeps_the_largest_of_each_window(size: int, height: int, width: int) -> None:
    rows = np.random.default_rng(3).random((2, 3, height, width), np.float32)
    wanted = torch.nn.functional.max_pool2d(torch.from_numpy(rows), size)
    assert np.array_equal(MaxPool(size=size)(rows), wanted.numpy())


NUMBERS = Schema(columns=(Column(name="a", low=0, high=2), Column(name="b", low=-1, high=1)), classes=("n", "y"))


def test_dropping_categories_leaves_the_numbers_as_one_hot_has_them() -> None:
    sex = Column(name="sex", kind="category", categories=("f", "m"))
    mixed = replace(NUMBERS, columns=(NUMBERS.columns[0], sex, NUMBERS.columns[1]))
    rows = np.array([[0.5, 1.0, 0.1], [9.0, 0.0, np.nan], [2.0, 1.0, -1.0]])
    made = Drop()(rows, mixed)
    np.testing.assert_allclose(made, OneHot()(rows[:, [0, 2]], NUMBERS), atol=1e-7)
    rows[:, 1] = 0.0
    assert np.array_equal(Drop()(rows, mixed), made)
    assert made.shape[1] == Drop().width(mixed)


@given(rows=arrays(np.float64, (3, 2), elements=st.floats(width=64)))
def test_dropped_rows_keep_their_bound(rows: np.ndarray) -> None:
    made = Drop(norm=0.5)(rows, NUMBERS)
    assert (np.sqrt(np.square(made).sum(axis=1)) <= 0.5 + 1e-6).all()


def test_dropping_everything_is_refused() -> None:
    bare = Schema(columns=(Column(name="w", kind="category", categories=("x",)),), classes=("n", "y"))
    with pytest.raises(WrongInput, match="use onehot"):
        Drop()(np.zeros((1, 1)), bare)


def test_products_of_random_fourier_rows_are_the_gaussian_kernel() -> None:
    rows = np.random.default_rng(5).normal(size=(6, 4)).astype(np.float32)
    made = RandomFourier(count=40_000, scale=1.7)(rows)
    apart = np.square(rows[:, None] - rows[None]).sum(axis=2)
    np.testing.assert_allclose(2 * made @ made.T, np.exp(-apart / (2 * 1.7**2)), atol=0.03)
    assert (np.square(made).sum(axis=1) <= 1).all()
    other = RandomFourier(count=40_000, scale=1.7, draw=1)(rows)
    assert np.abs(other - made).max() > 1e-3


def test_random_convolutions_answer_as_sums_over_pixels() -> None:
    rows = np.random.default_rng(6).random((2, 2, 5, 6), np.float32)
    layer = RandomConvolutions(count=3, size=3, grid=1)
    filters = layer._filters(2)
    windows = np.lib.stride_tricks.sliding_window_view(rows, (3, 3), axis=(2, 3))
    answers = np.einsum("nchwpq,kcpq->nkhw", windows, filters)
    wanted = np.concatenate([np.maximum(answers, 0), np.maximum(-answers, 0)], axis=1)
    np.testing.assert_allclose(layer(rows)[..., 0, 0], wanted.mean(axis=(2, 3)), atol=1e-6)
    flat = layer(np.ones((1, 2, 5, 6), np.float32))
    assert np.abs(flat).max() < 1e-6  # filters of mean 0 do not see a constant image


@pytest.mark.parametrize(("size", "stride", "length"), [(3, 2, 8), (5, 2, 7), (5, 1, 6), (3, 2, 5)])
def test_zeros_are_put_below_and_to_the_right_first(size: int, stride: int, length: int) -> None:
    line = np.random.default_rng(7).random(length)
    taps = np.random.default_rng(8).random(size)
    outputs = -(-length // stride)
    before = max((outputs - 1) * stride + size - length, 0) // 2
    wanted = [
        sum(taps[k] * line[at * stride + k - before] for k in range(size) if 0 <= at * stride + k - before < length)
        for at in range(outputs)
    ]
    x = torch.zeros(1, 1, length, length).double()
    x[0, 0] = torch.from_numpy(line)
    kernel = torch.zeros(1, 1, size, size).double()
    middle = max((outputs - 1) * stride + size - length, 0) // 2
    kernel[0, 0, middle] = torch.from_numpy(taps)
    made = _convolve(x, kernel, torch.zeros(1).double(), stride)
    np.testing.assert_allclose(made[0, 0, 0].numpy(), wanted, atol=1e-12)


needs_weights = pytest.mark.skipif(
    present("efficientnet_lite0", (WEIGHTS,)) is None,
    reason="no EfficientNet-Lite0 weights: set PRIVAWARE_DATA to a folder that has efficientnet_lite0",
)


@needs_weights
def test_the_extractor_sees_each_image_alone_and_always_the_same() -> None:
    rows = np.random.default_rng(9).random((3, 3, 32, 32), np.float32)
    made = Extractor(size=32)(rows)
    assert made.shape == (3, Extractor().width(IMAGES))
    assert np.isfinite(made).all()
    assert (made >= 0).all()
    np.testing.assert_allclose(Extractor(size=32)(rows[1:2]), made[1:2], atol=1e-4)
    grey = Extractor(size=32)(rows[:, :1])
    np.testing.assert_allclose(grey, Extractor(size=32)(rows[:, [0, 0, 0]]), atol=1e-4)


@needs_weights
def test_other_weights_are_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from privaware.features import extractor

    (tmp_path / "efficientnet_lite0").mkdir()
    (tmp_path / "efficientnet_lite0" / WEIGHTS.name).write_bytes(b"something else")
    monkeypatch.setenv("PRIVAWARE_DATA", str(tmp_path))
    extractor._weights.cache_clear()
    with pytest.raises(WrongInput, match="differs from the published file"):
        Extractor(size=32)(np.zeros((1, 3, 32, 32), np.float32))
    extractor._weights.cache_clear()


def test_any_module_can_be_the_extractor() -> None:
    module = torch.nn.Sequential(torch.nn.BatchNorm2d(1), torch.nn.Flatten())
    rows = np.random.default_rng(10).random((5, 1, 2, 2), np.float32)
    whole = extract(module.train(), rows)
    np.testing.assert_allclose(whole, extract(module, rows, rows_at_once=2), atol=1e-7)


@pytest.mark.slow
@needs_weights
def test_extracted_features_tell_photographs_apart() -> None:
    from sklearn.linear_model import LogisticRegression

    from privaware import datasets

    try:
        made = datasets.load("cifar10")
    except WrongInput as problem:
        pytest.skip(str(problem))
    train, test = made.train, made.test
    probe = LogisticRegression(C=0.02, max_iter=300)
    probe.fit(Extractor()(train.x[:1000]), train.y[:1000])
    assert probe.score(Extractor()(test.x[:500]), test.y[:500]) > 0.65
