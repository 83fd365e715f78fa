"""Per-example norms and clipped sums are those of Opacus, where it is installed and supports the layer."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from privaware.descent import clipped_sum, cross_entropy

opacus = pytest.importorskip("opacus")
ROWS = 6


class Words(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.table, self.inner = nn.Embedding(11, 5), kind(5, 6, batch_first=True, **options)
        self.head = nn.Linear(12 if options.get("bidirectional") else 6, 3)

    def forward(self, codes):
        return self.head(self.inner(self.table(codes))[0].mean(1))


CASES = {
    "linear": lambda: (nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)), torch.randn(ROWS, 4)),
    "sequence": lambda: (
        nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Flatten(), nn.Linear(30, 3)),
        torch.randn(ROWS, 5, 4),
    ),
    "convolution": lambda: (
        nn.Sequential(
            nn.Conv2d(2, 4, 3, 2, 1, groups=2), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)
        ),
        torch.randn(ROWS, 2, 6, 6),
    ),
    "convolution in one dimension": lambda: (
        nn.Sequential(
            nn.Conv1d(2, 4, 3, dilation=2), nn.InstanceNorm1d(4, affine=True), nn.Flatten(), nn.Linear(16, 3)
        ),
        torch.randn(ROWS, 2, 8),
    ),
    "layer norm": lambda: (nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 3)), torch.randn(ROWS, 4)),
    "lstm": lambda: (Words(nn.LSTM, bidirectional=True), torch.randint(11, (ROWS, 5))),
    "gru": lambda: (Words(nn.GRU, num_layers=2), torch.randint(11, (ROWS, 5))),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_norms_and_sums_agree_with_opacus(name):
    from opacus.grad_sample import GradSampleModule
    from opacus.validators import ModuleValidator

    torch.manual_seed(1)
    module, inputs = CASES[name]()
    targets = torch.randint(3, (ROWS,))
    twin = ModuleValidator.fix(copy.deepcopy(module))
    wrapped = GradSampleModule(twin, loss_reduction="sum")
    cross_entropy(wrapped(inputs), targets).sum().backward()
    each = torch.cat([p.grad_sample.flatten(1) for p in wrapped.parameters()], 1)
    norms = each.norm(dim=1)
    clipped = (each * (0.3 / norms).clamp(max=1)[:, None]).sum(0)
    sums, actual = clipped_sum(module, cross_entropy, inputs, targets, 0.3)
    torch.testing.assert_close(actual, norms, rtol=1e-5, atol=1e-6)
    mine = torch.cat([part.flatten() for part in sums.values()])
    torch.testing.assert_close(mine.norm(), clipped.norm(), rtol=1e-4, atol=1e-6)
    if [p.shape for p in module.parameters()] == [p.shape for p in twin.parameters()]:
        torch.testing.assert_close(mine, clipped, rtol=1e-4, atol=1e-6)
