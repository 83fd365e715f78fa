"""Per-example gradients in slices."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from privaware.descent import _example_slices, cross_entropy
from privaware.descent._accumulate import Batch, example_gradients
from privaware.descent._example_slices import example_slices
from privaware.descent._layers.rules import stacked

NETWORKS = {
    "linear": lambda: nn.Linear(12, 3),
    "convolution": lambda: nn.Sequential(nn.Unflatten(1, (2, 2, 3)), nn.Conv2d(2, 3, 2, bias=False), nn.Flatten()),
    "materialised": lambda: nn.Sequential(nn.LayerNorm(12), nn.Linear(12, 3)),
}


@pytest.mark.parametrize("at_once", [1, 100, 10_000])
@pytest.mark.parametrize("kind", NETWORKS)
def test_slices_hold_every_example_of_every_model_once(kind, at_once, monkeypatch):
    monkeypatch.setattr(_example_slices, "FLOATS_AT_ONCE", at_once)
    torch.manual_seed(0)
    nets = [NETWORKS[kind]() for _ in range(2)]
    x, y = torch.randn(14, 12), torch.zeros(14, dtype=torch.int64)
    gradients = example_gradients(stacked(nets), cross_entropy, Batch((x,), y, 14))
    for uses in gradients.values():
        every = uses[0].materialise()
        joined = torch.full_like(every, torch.nan)
        for model, part, values in example_slices(uses[0], 2, 14):
            assert values[0].numel() * len(values) <= max(at_once, values[0].numel()) or len(values) == 7
            joined[7 * model + part.start : 7 * model + part.stop] = values
        torch.testing.assert_close(joined, every)
