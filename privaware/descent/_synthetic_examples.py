"""Synthetic examples for the checks before a training: random values with the shapes and types of its examples."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from privaware.descent._accumulate import Batch, Loss
from privaware.descent._losses import example_losses

EXAMPLES = 3
"""Number of synthetic examples of a probe."""


def synthetic_inputs(inputs: Sequence[Tensor], examples: int, draw: int = 0) -> tuple[Tensor, ...]:
    """Return as many random examples as `examples` says, one tensor for each of `inputs`, with its shape and type.

    Entries are floats in [0, 1], or the integers 0 and 1. Each number `draw` gives other examples. No value of `inputs`
    is read.

    >>> [item.shape for item in synthetic_inputs([torch.zeros(100, 2)], examples=3)]
    [torch.Size([3, 2])]
    """
    return tuple(_synthetic(item, seed, examples) for seed, item in enumerate(inputs, draw * len(inputs)))


def _synthetic(like: Tensor, seed: int, examples: int) -> Tensor:
    generator = torch.Generator().manual_seed(2**31 + seed)
    shape = (examples, *like.shape[1:])
    if like.is_floating_point():
        return torch.rand(shape, generator=generator, dtype=torch.float64).to(like)
    return torch.randint(2, shape, generator=generator).to(like)


def flipped(item: Tensor) -> Tensor:
    return ~item if item.dtype == torch.bool else 1 - item


def widened(values: Tensor, width: float) -> Tensor:
    """Return floats in [0, 1] as floats in `[-width / 2, width / 2]`, and other values unchanged."""
    return (values - 0.5) * width if values.is_floating_point() else values


def replaced(items: Tensor, at: int, item: Tensor) -> Tensor:
    changed = items.clone()
    changed[at] = item
    return changed


@dataclass(frozen=True)
class Case:
    """A module with its loss, and `EXAMPLES` synthetic examples (`inputs` and `targets`)."""

    module: nn.Module
    loss: Loss
    inputs: tuple[Tensor, ...]
    targets: Tensor

    def outputs(self, inputs: tuple[Tensor, ...]) -> Any:
        with self._seeded():
            return self.module(*inputs)

    def losses(self, outputs: Any, targets: Tensor) -> Tensor:
        with self._seeded():
            return example_losses(self.loss, outputs, targets, [], len(targets))

    @contextlib.contextmanager
    def _seeded(self) -> Iterator[None]:
        with torch.random.fork_rng(devices=[self.targets.device] if self.targets.is_cuda else []):
            torch.default_generator.manual_seed(2**31)  # `torch.manual_seed` also changes generators of other devices
            if self.targets.is_cuda:
                torch.cuda.manual_seed(2**31)
            yield

    def batch(self, part: slice, models: int) -> Batch:
        """Return the synthetic examples of the slice `part`, repeated for each of `models` models."""
        targets, *inputs = (torch.cat([item[part]] * models) for item in (self.targets, *self.inputs))
        return Batch(tuple(inputs), targets, len(targets))
