"""Scattering agrees with kymatio and with its definition, by matrix products and by FFT."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from privaware.errors import WrongInput
from privaware.features import GroupNorm, Scatter, _scattering, apply, scatter
from privaware.schema import Schema
from tests.features.reference_scatter import scatter as reference


@pytest.fixture(params=["matrix", "fourier"])
def layers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two implementations."""
    if request.param == "fourier":
        monkeypatch.setattr(_scattering, "MAX_MATRIX_ENTRIES", 0)
    scatter._layers.cache_clear()
    yield request.param
    scatter._layers.cache_clear()


def distance(features: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(features - expected) / np.linalg.norm(expected))


def golden() -> dict[str, np.ndarray]:
    golden = os.environ.get("PRIVAWARE_GOLDEN")
    folder = Path(golden) if golden else Path(__file__).resolve().parents[3] / "shared" / "golden"
    if not (folder / "scattering.npz").is_file():
        pytest.skip("no golden file: set PRIVAWARE_GOLDEN to the folder that has scattering.npz")
    with np.load(folder / "scattering.npz") as stored:
        return dict(stored)


def test_features_agree_with_kymatio(layers: str) -> None:
    stored = golden()
    features = Scatter(J=2, L=8)(stored["images"])
    assert features.shape == stored["features"].shape
    for order in (slice(0, 1), slice(1, 17), slice(17, 81)):
        assert distance(features[:, :, order], stored["features"][:, :, order]) < 1e-5
    assert np.abs(features - stored["features"]).max() < 1e-5 * np.abs(stored["features"]).max()


@pytest.mark.parametrize(
    ("J", "L", "height", "width"),
    [(1, 8, 7, 10), (1, 4, 2, 3), (2, 4, 13, 8), (2, 6, 5, 11), (2, 3, 9, 9), (2, 1, 6, 6), (3, 4, 8, 11)],
)
def test_features_agree_with_the_definition(layers: str, J: int, L: int, height: int, width: int) -> None:
    images = np.random.default_rng(J + L).random((2, 2, height, width), np.float32)
    features = Scatter(J=J, L=L)(images)
    expected = np.array([[reference(channel, J, L) for channel in image] for image in images])
    assert features.shape == expected.shape == (2, 2, *expected.shape[2:3], height >> J, width >> J)
    assert distance(features, expected) < 2e-6
    if J > 1:
        assert distance(features[:, :, 1 + J * L :], expected[:, :, 1 + J * L :]) < 1e-5


@pytest.mark.parametrize(("J", "L", "size"), [(3, 8, 19), (3, 6, 24), (2, 8, 28)])
def test_features_agree_with_the_definition_on_larger_images(layers: str, J: int, L: int, size: int) -> None:
    image = np.random.default_rng(size).random((1, 1, size, size), np.float32)
    assert distance(Scatter(J=J, L=L)(image)[0, 0], reference(image[0, 0], J, L)) < 2e-6


@pytest.mark.parametrize(("J", "L", "size"), [(3, 16, 20), (4, 8, 16), (2, 8, 32), (3, 8, 50), (2, 5, 31)])
def test_matrix_products_agree_with_fft(monkeypatch: pytest.MonkeyPatch, J: int, L: int, size: int) -> None:
    images = np.random.default_rng(size).random((3, 1, size, size), np.float32)
    one = Scatter(J=J, L=L)(images)
    monkeypatch.setattr(_scattering, "MAX_MATRIX_ENTRIES", 0)
    scatter._layers.cache_clear()
    other = Scatter(J=J, L=L)(images)
    scatter._layers.cache_clear()
    assert distance(one, other) < 2e-6


def test_constant_image_has_zero_wavelet_coefficients(layers: str) -> None:
    features = Scatter()(np.full((1, 1, 32, 32), 0.7, np.float32))
    assert np.allclose(features[:, :, 0], 0.7, atol=1e-4)
    assert np.abs(features[:, :, 1:]).max() < 1e-6


def test_features_do_not_depend_on_other_rows_or_the_microbatch(layers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.random.default_rng(1).random((9, 2, 12, 16), np.float32)
    together = Scatter()(images)
    images[0] = 1e6
    assert distance(Scatter()(images)[1:], together[1:]) < 1e-6
    assert distance(Scatter()(images[4:6]), together[4:6]) < 1e-6
    monkeypatch.setitem(scatter.MAX_BYTES_PER_THREAD, "cpu", 1)
    assert distance(Scatter()(images)[1:], together[1:]) < 1e-6


def test_non_finite_pixels_affect_only_their_row(layers: str) -> None:
    images = np.random.default_rng(2).random((3, 1, 12, 12), np.float32)
    together = Scatter()(images)
    images[1, 0, 3, 3], images[1, 0, 4, 4] = np.nan, np.inf
    features = Scatter()(images)
    assert np.isfinite(features).all()
    assert distance(features[[0, 2]], together[[0, 2]]) < 1e-6


def test_microbatch_does_not_depend_on_the_number_of_images() -> None:
    bank = _scattering.FilterBank(J=2, L=8, height=28, width=28)
    microbatch = Scatter()._microbatch(bank, "cpu")
    large = Scatter()._microbatch(_scattering.FilterBank(J=2, L=8, height=224, width=224), "cpu")
    assert 8 <= microbatch <= 256  # for any number of images: the features are all that grows
    assert large == 1


def test_features_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.random.default_rng(4).random((11, 1, 8, 8), np.float32)
    before, together = torch.get_num_threads(), Scatter()(images)
    monkeypatch.setitem(scatter.MAX_BYTES_PER_THREAD, "cpu", 1)
    try:
        torch.set_num_threads(3)
        assert distance(Scatter()(images), together) < 1e-6
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_arrays_give_arrays_and_tensors_give_tensors() -> None:
    images = np.random.default_rng(3).random((2, 3, 8, 8))
    features = Scatter()(torch.from_numpy(images))
    assert isinstance(features, torch.Tensor)
    assert np.array_equal(features.numpy(), Scatter()(images))
    assert Scatter()(images[:0]).shape == (0, 3, 81, 2, 2)


def test_apply_on_a_device_gives_the_same_array() -> None:
    x = np.random.default_rng(0).random((3, 1, 16, 16), dtype=np.float32)
    chain = (Scatter(), GroupNorm(groups=1))
    schema = Schema(form="image", shape=(1, 16, 16), classes=("a", "b"), rows=3)
    here, there = (apply(chain, x, schema, device) for device in ("cpu", "cpu:0"))
    assert isinstance(there, np.ndarray)
    np.testing.assert_allclose(there, here, rtol=1e-6)


def test_matmul_precision_of_the_caller_is_restored() -> None:
    torch.set_float32_matmul_precision("high")
    try:
        Scatter()(np.ones((1, 1, 8, 8), np.float32))
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("wrong", [{"J": 0}, {"J": 2.0}, {"L": 0}, {"L": 65}, {"J": True}])
def test_invalid_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(WrongInput, match="whole number"):
        Scatter(**wrong)


@pytest.mark.parametrize("shape", [(3, 28, 28), (1, 1, 3, 28), (1, 0, 8, 8)])
def test_shapes_that_are_not_images_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(WrongInput, match="smaller J"):
        Scatter()(np.ones(shape, np.float32))
