"""Maxima of 2 x 2 blocks by a kernel are PyTorch's, there and back.

The kernel runs on a GPU, or on a CPU in Triton's interpreter where Triton is installed: TRITON_INTERPRET=1 pytest ...
"""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from privaware.descent import cross_entropy, flat
from privaware.descent._accumulate import Batch, accumulate
from privaware.descent._pooling import is_max_pool_2x2, max_pool_2x2
from privaware.descent._rules import stacked
from privaware.kernels import elementwise
from privaware.kernels import pooling as pooling_kernels

INTERPRETED = pooling_kernels.triton is not None and os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
kernel = pytest.mark.skipif(DEVICE == "cpu" and not INTERPRETED, reason="needs a CUDA device, or Triton's interpreter")


@kernel
@pytest.mark.parametrize("shape", [(3, 5, 8, 8), (2, 3, 7, 9), (1, 40, 6, 4), (2, 1, 2, 3)])
@pytest.mark.parametrize("ties", [False, True])
def test_the_kernel_is_pytorchs_pooling(shape, ties, monkeypatch):
    monkeypatch.setattr(elementwise, "fits", lambda *tensors: True)
    x = torch.randint(3, shape).float() if ties else torch.randn(shape)
    found, want = (x.to(DEVICE).requires_grad_(), x.clone().requires_grad_())
    made, expected = max_pool_2x2(found), F.max_pool2d(want, 2)
    assert type(made.grad_fn).__name__ == "_MaxPool2x2Backward"
    g = torch.randn_like(expected)
    assert torch.equal(made.cpu(), expected)
    back = torch.autograd.grad(made, found, g.to(DEVICE))[0]
    assert torch.equal(back.cpu(), torch.autograd.grad(expected, want, g)[0])


@kernel
def test_a_network_with_pools_has_the_same_clipped_sums(monkeypatch):
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
def test_only_maxima_of_blocks_side_by_side_are_meant(layer, meant):
    assert is_max_pool_2x2(layer) == meant


def test_where_no_kernel_is_pooling_is_pytorchs():
    x = torch.randn(2, 3, 5, 4)
    assert torch.equal(max_pool_2x2(x), F.max_pool2d(x, 2))
    assert torch.equal(max_pool_2x2(x[0]), F.max_pool2d(x[0], 2))
