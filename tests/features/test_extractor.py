"""EfficientNet-Lite0 and other frozen networks as features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from privaware.datasets._download import present
from privaware.errors import WrongInput
from privaware.features.extractor import WEIGHTS, Extractor, _convolve, extract
from privaware.schema import Schema

IMAGES = Schema(form="image", shape=(1, 12, 12), classes=("a", "b"))
needs_weights = pytest.mark.skipif(
    present("efficientnet_lite0", (WEIGHTS,)) is None,
    reason="no EfficientNet-Lite0 weights: set PRIVAWARE_DATA to a folder that has efficientnet_lite0",
)


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


@needs_weights
def test_weights_other_than_the_published_are_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from privaware.features import extractor

    (tmp_path / "efficientnet_lite0").mkdir()
    (tmp_path / "efficientnet_lite0" / WEIGHTS.name).write_bytes(b"something else")
    monkeypatch.setenv("PRIVAWARE_DATA", str(tmp_path))
    extractor._weights.cache_clear()
    with pytest.raises(WrongInput, match="differs from the published file"):
        Extractor(size=32)(np.zeros((1, 3, 32, 32), np.float32))
    extractor._weights.cache_clear()


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
