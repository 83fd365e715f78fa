"""Every published network gets the clipped sum that one backward pass an example gives.

In float64: in float32 deep networks of ReLUs take other branches for one example than for three.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from privaware import models
from privaware.descent import Descent, FullBatch, cross_entropy, flat, sgd, squared
from privaware.noise import Rng
from tests.descent.one_at_a_time import assert_agrees

QUICK = 700_000
"""Parameters above which a network is left to the slow run."""


def cases():
    for name, one in models.named().items():
        deep = name.startswith("dpmlbench.resnet") or one.description["name"] == "nas_cells"
        heavy = one.parameters > QUICK or deep
        yield pytest.param(one, id=name, marks=[pytest.mark.slow] if heavy else [])


@pytest.mark.parametrize("published", list(cases()))
def test_published_network_agrees_with_autograd(published):
    torch.manual_seed(0)
    module = models.build(published.description, np.random.default_rng(1)).eval().double()
    inputs = models.example(published.description, 3, np.random.default_rng(2))
    inputs = inputs.double() if inputs.is_floating_point() else inputs
    with torch.no_grad():
        outputs = module(inputs).shape[1]
    if outputs == 1:
        assert_agrees(module, inputs, torch.randn(3, 1).double(), squared)
    else:
        assert_agrees(module, inputs, torch.randint(outputs, (3,)), cross_entropy, norm=1.0)


@pytest.mark.parametrize("cells", ["darts", "nasnet_a", "amoebanet_a"])
def test_short_network_of_searched_cells_agrees_with_autograd(cells):
    torch.manual_seed(0)
    description = {"name": "nas_cells", "inputs": [3, 8, 8], "outputs": 4, "cells": cells, "channels": 4, "depth": 3}
    module = models.build(description, np.random.default_rng(1)).double()
    assert_agrees(module, torch.randn(3, 3, 8, 8).double(), torch.randint(4, (3,)), norm=1.0)


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
@pytest.mark.parametrize("name", models.named())
def test_published_network_trains_in_every_precision(name, precision):
    description = models.named()[name].description
    module = models.build(description, np.random.default_rng(1))
    inputs = models.example(description, 4, np.random.default_rng(2))
    with torch.no_grad():
        outputs = module.eval()(inputs).shape[1]
    targets, loss = (torch.zeros(4, 1), squared) if outputs == 1 else (torch.arange(4) % outputs, cross_entropy)
    settings = {"steps": 1, "sampler": FullBatch(), "clip": flat(1.0), "update": sgd(1.0), "loss": loss}
    descent = Descent(**settings, precision=precision)
    trained = descent.run(module.train(), inputs, targets, noise=0.1, rows=4, rng=Rng(seed=0), device="cuda")
    weights = torch.cat([values.flatten() for values in trained.parameters()]).cpu()
    assert torch.isfinite(weights).all()
    assert not torch.equal(weights, torch.cat([values.detach().flatten() for values in module.parameters()]))


LARGE = ("simple_cnn.colour.171246", "resnet20.colour.268346", "inception.colour.1609690", "vgg.colour.128807306")
"""The networks of DPMLBench. Convolutions of the last two round differently in different slots of most microbatches."""


@pytest.mark.cuda
@pytest.mark.parametrize("batch", [256, 288])
@pytest.mark.parametrize("name", LARGE)
def test_network_of_dpmlbench_trains_in_tf32_in_large_batches(name, batch):
    description = models.named()[f"dpmlbench.{name}"].description
    module = models.build(description, np.random.default_rng(1))
    inputs = models.example(description, batch, np.random.default_rng(2))
    settings = {"steps": 1, "sampler": FullBatch(), "clip": flat(1.0), "update": sgd(1.0), "precision": "tf32"}
    targets = torch.arange(batch) % 10
    trained = Descent(**settings).run(module, inputs, targets, noise=0.1, rows=batch, rng=Rng(seed=0), device="cuda")
    assert all(torch.isfinite(values).all() for values in trained.parameters())
