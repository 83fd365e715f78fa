"""The slow reference: one backward pass an example."""

from __future__ import annotations

import math

import torch

from privaware.descent import clipped_sum, cross_entropy


def slow_sum(module, loss, inputs, targets, norm):
    """Example by example, by autograd."""
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    sums = {name: torch.zeros_like(p) for name, p in named.items()}
    norms = []
    many = inputs if isinstance(inputs, tuple) else (inputs,)
    for at in range(len(targets)):
        example = tuple(item[at : at + 1] for item in many)
        value = loss(module(*example), targets[at : at + 1]).sum()
        gradients = torch.autograd.grad(value, list(named.values()))
        size = math.sqrt(sum(float(g.double().square().sum()) for g in gradients))
        norms.append(size)
        for name, gradient in zip(named, gradients, strict=True):
            sums[name] += gradient * min(1.0, norm / size if size else 1.0)
    return sums, torch.tensor(norms)


def assert_agrees(module, inputs, targets, loss=cross_entropy, norm=0.5):
    """clipped_sum against the slow reference, to 1e-5 relative."""
    sums, norms = clipped_sum(module, loss, inputs, targets, norm)
    expected, expected_norms = slow_sum(module, loss, inputs, targets, norm)
    torch.testing.assert_close(norms, expected_norms.to(norms), rtol=1e-5, atol=1e-6)
    assert sums.keys() == expected.keys()
    scale = max(float(value.abs().max()) for value in expected.values())
    for name, value in expected.items():
        torch.testing.assert_close(sums[name], value, rtol=1e-5, atol=1e-5 * scale)
