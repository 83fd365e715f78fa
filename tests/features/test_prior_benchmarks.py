"""The linear head and the fine-tuning that the prior is measured with."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks import prior_finetune
from benchmarks.prior_heads import Head, accuracies, gaussian_noise, train
from privaware import accounting, features
from privaware.data import Data
from privaware.features.prior import Prior
from privaware.learners.linear import Linear
from privaware.noise import Rng
from privaware.schema import Schema


def test_head_of_the_benchmark_is_the_linear_learner() -> None:
    assert gaussian_noise(1.0, 1e-5) == pytest.approx(3.730631, rel=1e-5)
    schema = Schema(form="image", shape=(1, 3, 4), classes=tuple("0123456789"), rows=200)
    learner = Linear(features=[{"name": "bounded"}])
    for epsilon, many in ((0.1, 200), (1.0, 60_000), (20.0, 60_000)):
        found = learner.step_size(replace(schema, rows=many), Head().noise(epsilon))
        assert Head().lr(epsilon, many) == pytest.approx(found)
    rng = np.random.default_rng(0)
    data = Data(schema=schema, x=rng.random((200, 1, 3, 4), dtype=np.float32), y=rng.integers(0, 10, 200))
    quiet = replace(learner, lr=4.0).run(data, 1e-9, Rng(seed=1))
    rows = torch.from_numpy(features.apply(quiet.features, data.x, schema))
    labels = torch.from_numpy(data.y)
    weights, bias = train(Head(), rows, labels, torch.zeros(1), torch.tensor([4.0]), seed=1)
    assert quiet.tensors["output.weight"] == pytest.approx(weights[:, 0].T.numpy(), abs=1e-4)
    assert quiet.tensors["output.bias"] == pytest.approx(bias[0].numpy(), abs=1e-4)
    noisy = train(Head(), rows, labels, torch.tensor([1e4]), torch.tensor([4.0]), seed=1)
    assert float(accuracies(noisy, rows, labels)[0]) < 0.5


def test_fine_tuning_starts_from_the_prior_with_calibrated_noise() -> None:
    noise = json.loads(prior_finetune.PRICES.read_text())["noise"]
    for epsilon, level in noise.items():
        spent = prior_finetune.recipe(lr=1.0, copies=2).cost(level)
        paid = accounting.epsilon(spent, prior_finetune.DELTA)
        assert 0.99 * float(epsilon) < paid <= float(epsilon)
    network = prior_finetune.begun()
    images = torch.rand(2, 3, 32, 32)
    shown = Prior(depths=(5,), pools=(1,), whiten=0.0, mirror=False, norm=1.0)(images)
    pooled = network[:-1](images * 2 - 1)
    assert torch.allclose(torch.nn.functional.normalize(pooled, dim=1), shown, atol=1e-4)
    assert not network.output.weight.any()
    moved = prior_finetune.moved(images, torch.Generator().manual_seed(1))
    assert moved.shape == images.shape
    assert not torch.equal(moved, images)
