"""Depthwise convolutions have a rule of their own."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.descent.one_at_a_time import assert_agrees

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
def test_depthwise_rule_agrees_with_autograd(
    dimensions: int, channels: int, kernel: int, stride: int, dilation: int, padding: int
) -> None:
    torch.manual_seed(7)
    slide = {"stride": stride, "dilation": dilation, "padding": padding}
    conv = CONVOLUTIONS[dimensions - 1](channels, channels, kernel, groups=channels, **slide)
    inputs = torch.randn(4, channels, *(7, 6, 5)[:dimensions])
    width = conv(inputs)[0].numel()
    module = nn.Sequential(conv, nn.Tanh(), nn.Flatten(), nn.Linear(width, 3))
    assert_agrees(module, inputs, torch.arange(4) % 3)
