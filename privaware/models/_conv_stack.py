"""Convolutions and pools one after another, then dense layers: what most of the papers' networks are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from privaware.errors import WrongInput
from privaware.models._description import Image, smaller

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Conv", "Pool", "Step", "convolutions", "flat", "stack"]


class Conv(NamedTuple):
    """A convolution with bias, then the activation."""

    filters: int
    kernel: int
    stride: int = 1
    padding: int = 0


class Pool(NamedTuple):
    """A pool over squares of `kernel`."""

    kernel: int = 2
    stride: int = 2


Step = Conv | Pool


def flat(model: Image, steps: Iterable[Step]) -> int:
    """How many numbers are left of one image behind `steps`."""
    channels, height, width = model.inputs
    for step in steps:
        padding = step.padding if isinstance(step, Conv) else 0
        height = smaller(height, step.kernel, step.stride, padding)
        width = smaller(width, step.kernel, step.stride, padding)
        if min(height, width) < 1:
            raise WrongInput(
                f"{model.name}: expected images large enough for every layer, got inputs {list(model.inputs)}"
                " of which nothing is left; leave out a pool or take larger images"
            )
        channels = step.filters if isinstance(step, Conv) else channels
    return channels * height * width


def convolutions(model: Image, steps: Iterable[Step], groups: int = 0) -> list[tuple[str, nn.Module]]:
    """The layers of `steps` with their names; `groups` puts a norm without weights before each activation."""
    from torch import nn

    from privaware.models._layers import pool

    layers: list[tuple[str, nn.Module]] = []
    channels = model.inputs[0]
    for at, step in enumerate(steps, start=1):
        if isinstance(step, Pool):
            layers.append((f"pool{at}", pool(model.pooling, step.kernel, step.stride)))
            continue
        conv = nn.Conv2d(channels, step.filters, step.kernel, step.stride, step.padding)
        channels = step.filters
        layers.append((f"conv{at}", conv))
        if groups:
            layers.append((f"norm{at}", nn.GroupNorm(groups, channels, affine=False)))
        layers.append((f"activation{at}", model._activation()))
    return layers


def stack(
    model: Image, steps: tuple[Step, ...], hidden: tuple[int, ...], *, dropout: float = 0.0, groups: int = 0
) -> nn.Sequential:
    """`steps`, then dense layers with activation, dropout before the output, and a linear output."""
    from collections import OrderedDict

    from torch import nn

    layers = convolutions(model, steps, groups)
    layers.append(("flatten", nn.Flatten()))
    width = flat(model, steps)
    for at, units in enumerate(hidden, start=1):
        layers.append((f"dense{at}", nn.Linear(width, units)))
        layers.append((f"dense{at}_activation", model._activation()))
        width = units
    if dropout:
        layers.append(("dropout", nn.Dropout(dropout)))
    layers.append(("output", nn.Linear(width, model.outputs)))
    return nn.Sequential(OrderedDict(layers))
