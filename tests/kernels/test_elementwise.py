"""Small kernels of a private step agree with PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from privaware.descent._layers.geometry import Geometry
from privaware.kernels import elementwise


@pytest.mark.cuda
def test_depthwise_gradients_agree_with_products_and_sums() -> None:
    for kernel, stride, padding, dilation in [(3, 1, 1, 1), (5, 2, 2, 1), (3, 1, 2, 2)]:
        conv = nn.Conv2d(6, 6, kernel, stride, padding, dilation, groups=6, bias=False)
        x = torch.randn(5, 6, 14, 13)
        g = torch.randn_like(conv(x))
        slow = Geometry(conv).depthwise_gradients(x, g)
        fast = Geometry(conv).depthwise_gradients(x.cuda(), g.cuda())
        assert elementwise.fits(x.cuda())
        torch.testing.assert_close(fast.cpu(), slow, rtol=1e-4, atol=1e-4)


@pytest.mark.cuda
@pytest.mark.parametrize("width", [1, 31, 432, 4321])
def test_order_of_keys_is_that_of_a_sort(width: int) -> None:
    generator = torch.Generator("cuda").manual_seed(width)
    keys = torch.rand(3, width, generator=generator, device="cuda", dtype=torch.float64)
    index = torch.randint(1000, (3, width), generator=generator, device="cuda")
    valid = torch.rand(3, width, generator=generator, device="cuda")
    order = keys.argsort(1)
    for values, sorted_values in zip((index, valid), elementwise.in_order(keys, index, valid), strict=True):
        assert torch.equal(sorted_values, values.gather(1, order))
    equal = torch.zeros_like(keys)
    assert torch.equal(elementwise.in_order(equal, index, valid)[0], index)
