"""Bias, activation and pool kernels agree with PyTorch.

They run on a GPU, or on a CPU in Triton's interpreter where Triton is installed: TRITON_INTERPRET=1 pytest ...
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from privaware.kernels import conv_block

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
kernel = pytest.mark.cuda(instead="triton")
pytestmark = pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # first in a thread

ACTIVE = {"tanh": torch.tanh, "relu": torch.relu}

SHAPES = [(3, 32, 8, 8), (2, 16, 7, 9), (1, 48, 5, 2), (2, 16, 1, 1), (1, 64, 10, 10)]


def channels_last(values):
    return values.contiguous(memory_format=torch.channels_last)


def by_layers(z, bias, kind, pool):
    active = ACTIVE[kind](z if bias is None else z + bias[:, None, None])
    return F.max_pool2d(active, 2) if pool else active


@kernel
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", sorted(ACTIVE))
@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize(("side", "last"), [(True, False), (True, True), (False, True)])
def test_forward_and_backward_agree_with_layers(shape, kind, pool, side, last):
    if pool and min(shape[2:]) < 2:
        pytest.skip("nothing to pool")
    torch.manual_seed(0)
    scale = torch.tensor([0.01, 0.2, 1.0, 8.0])[torch.randint(4, shape)]
    z, bias = torch.randn(shape) * scale, torch.randn(shape[1])
    inputs = channels_last(z.to(DEVICE)) if side else z.to(DEVICE)
    images = conv_block.bias_activation_pool(inputs, bias.to(DEVICE), kind, pool=pool, channels_last=last)
    z.requires_grad_()
    want = by_layers(z, bias, kind, pool)
    torch.testing.assert_close(images.channels_first.cpu(), want, rtol=2e-6, atol=1e-7)
    assert images.channels_first.is_contiguous()
    assert (images.channels_last is None) != last
    y = images.channels_first
    if last:
        assert torch.equal(images.channels_last, images.channels_first)
        y = images.channels_last
        assert y.is_contiguous(memory_format=torch.channels_last)
    g = torch.randn_like(want)
    expected = torch.autograd.grad(want, z, g)[0]
    g = (channels_last(g) if last else g).to(DEVICE)
    size = z.shape[2:]
    above = conv_block.Above(g, y, images.argmax)
    back = conv_block.bias_activation_pool_backward
    actual = back(above, size, kind, channels_last=True, channels_first=True, sums=True)
    for part in actual[:2]:
        torch.testing.assert_close(part.cpu(), expected, rtol=1e-5, atol=2e-6)
    assert actual[0].is_contiguous(memory_format=torch.channels_last)
    assert actual[1].is_contiguous()
    torch.testing.assert_close(actual[2].cpu(), expected.sum((2, 3)), rtol=1e-4, atol=1e-4)
    none = back(above, size, kind, channels_last=False, channels_first=False, sums=False)
    assert none == (None, None, None)


@kernel
def test_unbiased_or_nonfinite_blocks_agree_with_layers():
    z = torch.randn(3, 16, 4, 4)
    z[1, 2, 3, 3] = torch.nan
    images = conv_block.bias_activation_pool(channels_last(z.to(DEVICE)), None, "tanh", pool=True, channels_last=False)
    want = by_layers(z, None, "tanh", True)
    torch.testing.assert_close(images.channels_first.cpu(), want, rtol=2e-6, atol=1e-7, equal_nan=True)
    assert torch.isnan(images.channels_first.cpu()).sum() == 1
    g = torch.ones_like(want).to(DEVICE)
    above = conv_block.Above(g, images.channels_first, images.argmax)
    back = conv_block.bias_activation_pool_backward(
        above, (4, 4), "tanh", channels_last=False, channels_first=True, sums=True
    )
    assert torch.isfinite(back[1][[0, 2]]).all()
    assert torch.isfinite(back[2][[0, 2]]).all()


@kernel
@pytest.mark.parametrize("kind", sorted(ACTIVE))
@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_blocks_stored_in_bf16_agree_with_layers(kind, pool, with_bias, last):
    torch.manual_seed(0)
    z, bias = torch.randn(2, 16, 6, 6).bfloat16(), torch.randn(16) if with_bias else None
    given = None if bias is None else bias.to(DEVICE)
    images = conv_block.bias_activation_pool(channels_last(z.to(DEVICE)), given, kind, pool=pool, channels_last=last)
    exact = z.float().requires_grad_()
    want = by_layers(exact, bias, kind, pool)
    y = images.channels_last if last else images.channels_first
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float().cpu(), want, rtol=2**-8, atol=1e-6)
    g = torch.randn_like(want).bfloat16()
    expected = torch.autograd.grad(want, exact, g.float())[0]
    above = conv_block.Above((channels_last(g) if last else g).to(DEVICE), y, images.argmax)
    settings = {"channels_last": True, "channels_first": True, "sums": True}
    *parts, sums = conv_block.bias_activation_pool_backward(above, (6, 6), kind, **settings)
    for part in parts:
        assert part.dtype == torch.bfloat16
        torch.testing.assert_close(part.float().cpu(), expected, rtol=0.03, atol=0.03)
    assert sums.dtype == torch.float32
    torch.testing.assert_close(sums.cpu(), expected.sum((2, 3)), rtol=0.03, atol=0.2)
