"""Models padded to one stack are trained as if alone, whatever the update."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from privaware.descent import FullBatch, flat, members, momentum, sgd, tail
from privaware.descent._layers.padded_population import stackable_groups
from privaware.descent._ranks import TrainingJob
from privaware.descent._rounding import LATTICE
from privaware.noise import Rng
from tests.descent.small_training import ROWS, RecordingRng, examples, flat_of, recipe, train


@pytest.mark.parametrize("kind", [nn.ReLU, nn.Sigmoid])
def test_padded_widths_are_trained_as_if_alone(kind):
    x, y = examples()
    models = []
    for width in (7, 8, 6):
        torch.manual_seed(width)
        models.append(nn.Sequential(nn.Linear(4, width), kind(), nn.Linear(width, 3)))
    assert len(stackable_groups(models, "cpu")) == 1
    descent = recipe(sampler=FullBatch(), update=momentum(0.5), steps=6)
    trained = descent.run_population(members(models, noise=[0.0] * 3), x, y, rows=ROWS, rng=Rng(0))
    for model, one in zip(models, trained, strict=True):
        alone = train(descent, noise=0.0, module=model)
        torch.testing.assert_close(flat_of(one), flat_of(alone), rtol=1e-4, atol=1e-5)
    rng = RecordingRng()
    noisy = descent.run_population(members(models, noise=[1.0] * 3), x, y, rows=ROWS, rng=rng)
    assert [flat_of(one).shape for one in noisy] == [flat_of(one).shape for one in models]
    exact = rng.calls[-1][0]
    assert int((exact[0] != 0).sum()) <= flat_of(models[0]).numel()


def chains():
    """Networks of one depth that differ in widths, activations and frozen layers."""
    kinds = [nn.ReLU, nn.Sigmoid, nn.Tanh, nn.Sigmoid, nn.ReLU]
    widths = [(3, 5), (8, 2), (5, 5), (8, 5), (3, 5)]
    frozen = [(), (0,), (2,), (0, 2), (4,)]
    models = []
    for at, (wide, narrow) in enumerate(widths):
        torch.manual_seed(at)
        layers = [nn.Linear(4, wide), kinds[at](), nn.Linear(wide, narrow), kinds[-1 - at]()]
        model = nn.Sequential(*layers, nn.Linear(narrow, 3))
        for layer in frozen[at]:
            model[layer].requires_grad_(False)
        models.append(model)
    return models


def test_mixed_population_is_trained_as_if_each_were_alone():
    x, y = examples()
    descent = recipe(sampler=FullBatch(), update=momentum(0.5), average=tail(0.5), clip=flat(0.05), steps=6)
    models = chains()
    assert stackable_groups(models, "cuda") == [list(range(5))]
    assert len(stackable_groups(models, "cpu")) == 5
    assert len(stackable_groups(models, "cuda", per_layer=True)) == 5
    trained = TrainingJob(members(models, noise=[0.0] * 5), x, y, ROWS, "cpu").run(descent, Rng(0))
    for model, one in zip(models, trained, strict=True):
        alone = train(descent, noise=0.0, module=model)
        torch.testing.assert_close(flat_of(one), flat_of(alone), rtol=1e-4, atol=1e-5)


def test_noise_reaches_neither_padding_nor_frozen_layers():
    x, y = examples()
    descent = recipe(sampler=FullBatch(), update=sgd(0.5), clip=flat(0.05), steps=4)
    models, rng = chains(), RecordingRng()
    trained = TrainingJob(members(models, noise=[1.0] * 5), x[:1], y[:1], ROWS, "cpu").run(descent, rng)
    for model, one in zip(models, trained, strict=True):
        for before, after in zip(model.parameters(), one.parameters(), strict=True):
            assert torch.equal(before, after) != before.requires_grad
    for exact, *_ in rng.calls:  # the sum of one example is its gradient, clipped by what is trained alone
        torch.testing.assert_close(exact.norm(dim=1), torch.full((5,), 0.05).double(), rtol=1e-3, atol=0)
        assert (exact.norm(dim=1) <= 0.05 * (1 + LATTICE)).all()
