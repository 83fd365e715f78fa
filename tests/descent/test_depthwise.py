"""Convolutions that slide over every channel alone have a rule of their own."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from privaware.kernels import elementwise
from tests.descent.slow_reference import assert_agrees

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@settings(deadline=None, max_examples=25)
@given(
    dimensions=st.integers(1, 3),
    channels=st.integers(2, 4),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    dilation=st.integers(1, 2),
    padding=st.integers(0, 2),
)
def test_depthwise_convolutions_agree_with_rows_one_by_one(
    dimensions: int, channels: int, kernel: int, stride: int, dilation: int, padding: int
) -> None:
    torch.manual_seed(7)
    slide = {"stride": stride, "dilation": dilation, "padding": padding}
    conv = CONVOLUTIONS[dimensions - 1](channels, channels, kernel, groups=channels, **slide)
    inputs = torch.randn(4, channels, *(7, 6, 5)[:dimensions])
    width = conv(inputs)[0].numel()
    module = nn.Sequential(conv, nn.Tanh(), nn.Flatten(), nn.Linear(width, 3))
    assert_agrees(module, inputs, torch.arange(4) % 3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernel needs a GPU")
def test_the_kernel_agrees_with_products_and_sums() -> None:
    from privaware.descent._geometry import Geometry

    for kernel, stride, padding, dilation in [(3, 1, 1, 1), (5, 2, 2, 1), (3, 1, 2, 2)]:
        conv = nn.Conv2d(6, 6, kernel, stride, padding, dilation, groups=6, bias=False)
        x = torch.randn(5, 6, 14, 13)
        g = torch.randn_like(conv(x))
        slow = Geometry(conv).depthwise_gradients(x, g)
        fast = Geometry(conv).depthwise_gradients(x.cuda(), g.cuda())
        assert elementwise.fits(x.cuda())
        torch.testing.assert_close(fast.cpu(), slow, rtol=1e-4, atol=1e-4)
