"""Layers with a fast double backward pass: the same outputs, gradients and gradients of gradients as PyTorch's own."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from privaware.learners._networks.double_backward import speed_up_double_backward

LAYERS: dict[str, Any] = {
    "padded": nn.Conv2d(2, 4, 3, padding=1),
    "strided": nn.Conv2d(2, 4, 3, stride=2, padding=1),
    "dilated, without bias": nn.Conv2d(2, 4, (2, 3), stride=(3, 1), dilation=(1, 2), bias=False),
    "in groups": nn.Conv2d(2, 4, 3, groups=2),
    "pool": nn.AvgPool2d(2),
    "pool of three": nn.AvgPool2d(3),
}
NOT_REPLACED = [nn.Conv2d(2, 4, 3, padding="same"), nn.AvgPool2d(2, padding=1), nn.AvgPool2d(3, 2), nn.MaxPool2d(2)]


def derivatives(network: nn.Module) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(5, 2, 9, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    outputs = network(inputs)
    loss = outputs.pow(2).sum() + outputs.sin().sum()
    first = torch.autograd.grad(loss, [inputs, *network.parameters()], create_graph=True)
    second = torch.autograd.grad(
        torch.stack([one.pow(3).sum() for one in first]).sum(), [inputs, *network.parameters()]
    )
    return [outputs, *first, *second]


@pytest.mark.parametrize("name", LAYERS)
def test_derivatives_are_those_of_pytorch(name: str) -> None:
    torch.manual_seed(0)
    own = nn.Sequential(nn.Conv2d(2, 2, 1), nn.Tanh(), copy.deepcopy(LAYERS[name]), nn.Tanh()).double()
    fast = copy.deepcopy(own)
    speed_up_double_backward(fast)
    assert "forward" in vars(fast[2])
    for one, two in zip(derivatives(own), derivatives(fast), strict=True):
        torch.testing.assert_close(two, one, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("layer", NOT_REPLACED, ids=str)
def test_other_layers_are_not_changed(layer: nn.Module) -> None:
    speed_up_double_backward(layer)
    assert "forward" not in vars(layer)
