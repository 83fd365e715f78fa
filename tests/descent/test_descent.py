"""Populations through the public class."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn

from privaware.descent import Callbacks, FullBatch, adam, cosine, members, momentum, sgd, tail
from privaware.descent._descent import seeded
from privaware.noise import Rng
from tests.descent.small_training import ROWS, examples, flat_of, net, recipe, train


def test_members_have_their_own_noise_lr_norm_and_sample():
    x, y = examples()
    descent = recipe(steps=1, sampler=FullBatch())
    trained = descent.run_population(
        members([net()] * 3, noise=[0.0] * 3, lr=[0.1, 0.2, 0.1], norm=[1e9, 1e9, 0.01]), x, y, rows=ROWS, rng=Rng(0)
    )
    updates = [flat_of(one) - flat_of(net()) for one in trained]
    torch.testing.assert_close(updates[1], 2 * updates[0], rtol=1e-4, atol=1e-6)
    assert float(updates[2].norm()) <= 0.1 * 0.01 * 1.001
    sampled = recipe(steps=1).run_population(members([net()] * 2, noise=[0.0] * 2), x, y, rows=ROWS, rng=Rng(0))
    assert not torch.equal(flat_of(sampled[0]), flat_of(sampled[1]))


@pytest.mark.parametrize("update", [momentum(0.5), adam(0.05)], ids=["momentum", "adam"])
def test_a_noiseless_population_equals_its_models_alone(update):
    x, y = examples()
    descent = recipe(sampler=FullBatch(), update=update, average=tail(0.5), steps=6, noise_schedule=cosine())
    models = [net(seed=seed) for seed in range(3)]
    trained = descent.run_population(members(models, noise=[0.0] * 3), x, y, rows=ROWS, rng=Rng(0))
    for model, one in zip(models, trained, strict=True):
        alone = train(descent, noise=0.0, module=model)
        torch.testing.assert_close(flat_of(one), flat_of(alone), rtol=1e-4, atol=1e-5)


def test_models_of_several_stacks_are_trained_in_turn():
    x, y = examples()
    models = [net(), nn.Linear(4, 3), net(seed=1), nn.Sequential(nn.Linear(4, 99), nn.ReLU(), nn.Linear(99, 3))]
    descent = recipe(sampler=FullBatch(), steps=3)
    reports = []
    trained = descent.run_population(
        members(models, noise=[0.0] * 4, lr=[0.1, 0.2, 0.3, 0.4]),
        x,
        y,
        rows=ROWS,
        rng=Rng(0),
        callbacks=Callbacks(progress=lambda *facts: reports.append(facts[:2])),
    )
    for model, one, lr in zip(models, trained, (0.1, 0.2, 0.3, 0.4), strict=True):
        alone = train(recipe(sampler=FullBatch(), steps=3, update=sgd(lr)), noise=0.0, module=model)
        torch.testing.assert_close(flat_of(one), flat_of(alone), rtol=1e-4, atol=1e-5)
    assert reports[-1] == (9, 9)


def test_training_on_the_cpu_seeds_no_other_device(monkeypatch):
    """Such seeds would stay after the training, and each would keep a text of the stack where CUDA is not started."""
    seeded_devices = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded_devices.append)
    monkeypatch.setattr(torch.cuda, "manual_seed", seeded_devices.append)
    with seeded(Rng(0), "cpu"):
        assert torch.default_generator.initial_seed() == int(Rng(0).initial.integers(2**63))
    assert seeded_devices == []


def test_training_makes_its_gpu_the_current_device(monkeypatch):
    """Else graphs, events and kernels would be of the first, and what runs on the second would not wait for them."""
    reports = []

    @contextlib.contextmanager
    def current(device):
        reports.append(device)
        yield
        reports.append("back")

    monkeypatch.setattr(torch.cuda, "device", current)
    monkeypatch.setattr(torch.cuda, "manual_seed", reports.append)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: contextlib.nullcontext())
    with seeded(Rng(0), "cuda:1"):
        assert reports == [torch.device("cuda:1"), int(Rng(0).initial.integers(2**63))]
    assert reports[-1] == "back"
