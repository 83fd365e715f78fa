"""Which pools use a kernel, and clipped sums through it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from privaware.descent import cross_entropy, flat
from privaware.descent._accumulate import Batch, accumulate
from privaware.descent._layers.pooling import is_max_pool_2x2, max_pool_2x2
from privaware.descent._layers.rules import stacked
from privaware.kernels import elementwise

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
kernel = pytest.mark.cuda(instead="triton")


@kernel
def test_clipped_sums_through_the_pool_kernel_are_the_same(monkeypatch):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.MaxPool2d(2), nn.Tanh(), nn.Flatten(), nn.Linear(64, 3))
    x, y = torch.randn(5, 1, 8, 8), torch.arange(5) % 3
    sums, plain = [], elementwise.fits
    for there in (False, True):
        if there:
            monkeypatch.setattr(elementwise, "fits", lambda *t: plain(*t) or t[0].ndim == 4)
        device = DEVICE if there else "cpu"
        stack = stacked([net], device=device)
        total = torch.zeros_like(stack.theta)
        accumulate(stack, cross_entropy, Batch((x.to(device),), y.to(device), 5), flat(0.3), 0.3, total)
        sums.append(total.cpu())
    torch.testing.assert_close(*sums, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "meant"),
    [
        (nn.MaxPool2d(2), True),
        (nn.MaxPool2d((2, 2), stride=(2, 2)), True),
        (nn.MaxPool2d(3), False),
        (nn.MaxPool2d(2, stride=1), False),
        (nn.MaxPool2d(2, padding=1), False),
        (nn.MaxPool2d(2, dilation=2), False),
        (nn.MaxPool2d(2, ceil_mode=True), False),
        (nn.MaxPool2d(2, return_indices=True), False),
        (nn.AvgPool2d(2), False),
    ],
)
def test_only_adjacent_2x2_blocks_use_the_kernel(layer, meant):
    assert is_max_pool_2x2(layer) == meant


def test_without_the_kernel_pooling_is_that_of_pytorch():
    x = torch.randn(2, 3, 5, 4)
    assert torch.equal(max_pool_2x2(x), F.max_pool2d(x, 2))
    assert torch.equal(max_pool_2x2(x[0]), F.max_pool2d(x[0], 2))
