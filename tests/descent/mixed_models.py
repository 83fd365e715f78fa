"""Fully connected networks that differ in widths, activations and frozen layers."""

from __future__ import annotations

import torch
from torch import nn

from privaware.descent import Descent, FullBatch, flat, momentum

ROWS = 40


def data(*shape):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, *(shape or (4,)), generator=generator)
    return x, torch.randint(3, (ROWS,), generator=generator)


def recipe(**changes):
    settings = {"steps": 6, "sampler": FullBatch(), "clip": flat(0.05), "update": momentum(0.5), **changes}
    return Descent(**settings)


def chain(*layers, frozen=(), seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(*(layer() for layer in layers))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen and name.split(".")[0] not in frozen)
    return model


def deep(width, kind, frozen=(), seed=0, middle=()):
    """Three linear layers with activations between them."""
    return chain(
        lambda: nn.Linear(4, width),
        kind,
        *middle,
        lambda: nn.Linear(width, width),
        kind,
        lambda: nn.Linear(width, 3),
        frozen=frozen,
        seed=seed,
    )


def mixed():
    return [deep(5, nn.ReLU), deep(3, nn.Sigmoid, frozen=("0",), seed=1), deep(7, nn.Tanh, frozen=("2",), seed=2)]
