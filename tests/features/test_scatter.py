"""Scattering gives the published numbers, by both ways of computing it, for each image alone."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from privaware.errors import WrongInput
from privaware.features import GroupNorm, Scatter, _scattering, apply, scatter
from privaware.schema import Schema
from tests.features.slow_scatter import scatter as slow


@pytest.fixture(params=["dense", "fourier"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two ways of computing the same."""
    if request.param == "fourier":
        monkeypatch.setattr(_scattering, "LARGEST", 0)
    scatter._layers.cache_clear()
    yield request.param
    scatter._layers.cache_clear()


def distance(got: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))


def golden() -> dict[str, np.ndarray]:
    given = os.environ.get("PRIVAWARE_GOLDEN")
    folder = Path(given) if given else Path(__file__).resolve().parents[3] / "shared" / "golden"
    if not (folder / "scattering.npz").is_file():
        pytest.skip("no golden file: set PRIVAWARE_GOLDEN to the folder that has scattering.npz")
    with np.load(folder / "scattering.npz") as stored:
        return dict(stored)


def test_published_features_come_out(way: str) -> None:
    stored = golden()
    made = Scatter(J=2, L=8)(stored["images"])
    assert made.shape == stored["features"].shape
    for order in (slice(0, 1), slice(1, 17), slice(17, 81)):
        assert distance(made[:, :, order], stored["features"][:, :, order]) < 1e-5
    assert np.abs(made - stored["features"]).max() < 1e-5 * np.abs(stored["features"]).max()


@pytest.mark.parametrize(
    ("J", "L", "height", "width"),
    [(1, 8, 7, 10), (1, 4, 2, 3), (2, 4, 13, 8), (2, 6, 5, 11), (2, 3, 9, 9), (2, 1, 6, 6), (3, 4, 8, 11)],
)
def test_the_definition_gives_the_same(way: str, J: int, L: int, height: int, width: int) -> None:
    images = np.random.default_rng(J + L).random((2, 2, height, width), np.float32)
    made = Scatter(J=J, L=L)(images)
    wanted = np.array([[slow(channel, J, L) for channel in image] for image in images])
    assert made.shape == wanted.shape == (2, 2, *wanted.shape[2:3], height >> J, width >> J)
    assert distance(made, wanted) < 2e-6
    if J > 1:
        assert distance(made[:, :, 1 + J * L :], wanted[:, :, 1 + J * L :]) < 1e-5


@pytest.mark.parametrize(("J", "L", "size"), [(3, 8, 19), (3, 6, 24), (2, 8, 28)])
def test_the_definition_gives_the_same_on_larger_images(way: str, J: int, L: int, size: int) -> None:
    image = np.random.default_rng(size).random((1, 1, size, size), np.float32)
    assert distance(Scatter(J=J, L=L)(image)[0, 0], slow(image[0, 0], J, L)) < 2e-6


@pytest.mark.parametrize(("J", "L", "size"), [(3, 16, 20), (4, 8, 16), (2, 8, 32), (3, 8, 50), (2, 5, 31)])
def test_both_ways_agree(monkeypatch: pytest.MonkeyPatch, J: int, L: int, size: int) -> None:
    images = np.random.default_rng(size).random((3, 1, size, size), np.float32)
    one = Scatter(J=J, L=L)(images)
    monkeypatch.setattr(_scattering, "LARGEST", 0)
    scatter._layers.cache_clear()
    other = Scatter(J=J, L=L)(images)
    scatter._layers.cache_clear()
    assert distance(one, other) < 2e-6


def test_a_constant_image_has_its_value_and_no_waves(way: str) -> None:
    made = Scatter()(np.full((1, 1, 32, 32), 0.7, np.float32))
    assert np.allclose(made[:, :, 0], 0.7, atol=1e-4)
    assert np.abs(made[:, :, 1:]).max() < 1e-6


def test_other_rows_and_the_memory_at_hand_change_nothing(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.random.default_rng(1).random((9, 2, 12, 16), np.float32)
    whole = Scatter()(images)
    images[0] = 1e6
    assert distance(Scatter()(images)[1:], whole[1:]) < 1e-6
    assert distance(Scatter()(images[4:6]), whole[4:6]) < 1e-6
    monkeypatch.setitem(scatter.MEMORY, "cpu", 1)
    assert distance(Scatter()(images)[1:], whole[1:]) < 1e-6


def test_a_broken_row_breaks_only_itself(way: str) -> None:
    images = np.random.default_rng(2).random((3, 1, 12, 12), np.float32)
    whole = Scatter()(images)
    images[1, 0, 3, 3], images[1, 0, 4, 4] = np.nan, np.inf
    made = Scatter()(images)
    assert np.isfinite(made).all()
    assert distance(made[[0, 2]], whole[[0, 2]]) < 1e-6


def test_the_images_at_work_do_not_grow_with_the_images() -> None:
    bank = _scattering.FilterBank(J=2, L=8, height=28, width=28)
    at_once = Scatter()._microbatch(bank, "cpu")
    large = Scatter()._microbatch(_scattering.FilterBank(J=2, L=8, height=224, width=224), "cpu")
    assert 8 <= at_once <= 256  # for any number of images: the features are all that grows
    assert large == 1


def test_threads_share_the_images_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.random.default_rng(4).random((11, 1, 8, 8), np.float32)
    before, whole = torch.get_num_threads(), Scatter()(images)
    monkeypatch.setitem(scatter.MEMORY, "cpu", 1)
    try:
        torch.set_num_threads(3)
        assert distance(Scatter()(images), whole) < 1e-6
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_arrays_give_arrays_and_tensors_tensors() -> None:
    images = np.random.default_rng(3).random((2, 3, 8, 8))
    made = Scatter()(torch.from_numpy(images))
    assert isinstance(made, torch.Tensor)
    assert np.array_equal(made.numpy(), Scatter()(images))
    assert Scatter()(images[:0]).shape == (0, 3, 81, 2, 2)


def test_rows_go_through_on_a_device_and_come_back_as_they_were() -> None:
    x = np.random.default_rng(0).random((3, 1, 16, 16), dtype=np.float32)
    chain = (Scatter(), GroupNorm(groups=1))
    schema = Schema(form="image", shape=(1, 16, 16), classes=("a", "b"), rows=3)
    here, there = (apply(chain, x, schema, device) for device in ("cpu", "cpu:0"))
    assert isinstance(there, np.ndarray)
    np.testing.assert_allclose(there, here, rtol=1e-6)


def test_the_callers_precision_is_left_as_it_was() -> None:
    torch.set_float32_matmul_precision("high")
    try:
        Scatter()(np.ones((1, 1, 8, 8), np.float32))
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("wrong", [{"J": 0}, {"J": 2.0}, {"L": 0}, {"L": 65}, {"J": True}])
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(WrongInput, match="whole number"):
        Scatter(**wrong)


@pytest.mark.parametrize("shape", [(3, 28, 28), (1, 1, 3, 28), (1, 0, 8, 8)])
def test_what_is_not_an_image_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(WrongInput, match="smaller J"):
        Scatter()(np.ones(shape, np.float32))
