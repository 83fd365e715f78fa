"""Clipped gradient sums of one batch."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from privaware.descent import clipped_sum, cross_entropy, flat
from privaware.descent._accumulate import Batch, accumulate
from privaware.descent._layers.rules import stacked


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e38])
@pytest.mark.parametrize("capturing", [False, True], ids=["eager", "captured"])
def test_p6_a_nonfinite_example_adds_nothing(value, capturing):

    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv1d(1, 3, 2), nn.GroupNorm(1, 3), nn.ReLU(), nn.Flatten(), nn.Linear(9, 9), nn.Linear(9, 3)
    )
    x, y = torch.randn(6, 1, 4), torch.randint(3, (6,))
    expected, _ = clipped_sum(module, cross_entropy, x[1:], y[1:], 0.5)
    x[0] = value
    x[0, 0, 1] = -1.0
    stack = stacked([module])
    total = torch.zeros_like(stack.theta)
    accumulate(stack, cross_entropy, Batch((x,), y, 6), flat(0.5), 0.5, total, capturing=capturing)
    actual = {segment.name: stack.view(total, segment)[0] for segment in stack.segments}
    if value == 1e38:
        assert all(torch.isfinite(part).all() for part in actual.values())
    else:
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)
