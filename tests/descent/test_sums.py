"""Clipped sums against one backward pass a row."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from privaware.descent import clipped_sum, cross_entropy


def slow(module, loss, inputs, targets, norm):
    """Row by row, by autograd."""
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    sums = {name: torch.zeros_like(p) for name, p in named.items()}
    norms = []
    many = inputs if isinstance(inputs, tuple) else (inputs,)
    for at in range(len(targets)):
        row = tuple(item[at : at + 1] for item in many)
        value = loss(module(*row), targets[at : at + 1]).sum()
        gradients = torch.autograd.grad(value, list(named.values()), allow_unused=True)
        gradients = [
            torch.zeros_like(p) if g is None else g
            for g, p in zip(gradients, named.values(), strict=True)
        ]
        size = math.sqrt(sum(float(g.double().square().sum()) for g in gradients))
        norms.append(size)
        for name, gradient in zip(named, gradients, strict=True):
            sums[name] += gradient * min(1.0, norm / size if size else 1.0)
    return sums, torch.tensor(norms)


def assert_agrees(module, inputs, targets, loss=cross_entropy, norm=0.5):
    sums, norms = clipped_sum(module, loss, inputs, targets, norm)
    expected, expected_norms = slow(module, loss, inputs, targets, norm)
    torch.testing.assert_close(norms, expected_norms.to(norms), rtol=1e-5, atol=1e-6)
    assert sums.keys() == expected.keys()
    scale = max(float(value.abs().max()) for value in expected.values())
    for name, value in expected.items():
        torch.testing.assert_close(sums[name], value, rtol=1e-5, atol=1e-5 * scale)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 9), st.integers(1, 6), st.booleans(), st.integers(0, 2**31))
def test_linear_layers_agree_with_one_row_at_a_time(rows, width, bias, seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(4, width, bias=bias), nn.Tanh(), nn.Linear(width, 3))
    assert_agrees(net, torch.randn(rows, 4), torch.randint(3, (rows,)))
