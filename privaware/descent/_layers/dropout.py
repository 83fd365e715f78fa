"""The rules of dropout layers. Each example has its own masks, from a keyed function (`_example_draws`)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from privaware.descent._stack import Stack
from privaware.errors import Refused

ALPHA = 1.7580993408473766
"""Alpha dropout sets dropped units to `-ALPHA`, the negative saturation value of SELU."""

CHANNELS = {
    nn.Dropout1d.forward: 3,
    nn.Dropout2d.forward: 3,
    nn.Dropout3d.forward: 5,
    nn.FeatureAlphaDropout.forward: 3,
}
"""Smallest number of input dimensions of each layer that drops whole channels, by its `forward` function."""


def has_dropout(layer: nn.Module) -> bool:
    """Return whether the layer is dropout, attention or recurrent with a dropout rate above 0."""
    if isinstance(layer, nn.modules.dropout._DropoutNd):
        return layer.p > 0
    return isinstance(layer, (nn.MultiheadAttention, nn.RNNBase)) and layer.dropout > 0


@contextlib.contextmanager
def without_dropout(module: nn.Module) -> Iterator[None]:
    """Switch off dropout in `module`, because each example would have its own mask; restore all modes at the end."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        for part, training in modes:
            part.training = training and not has_dropout(part)
        yield
    finally:
        for part, training in modes:
            part.training = training


def dropout_rule(stack: Stack, layer: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """Return the replacement of the forward function of a torch dropout layer; None for every other layer.

    In training mode the replacement raises `Refused` if the stack's forward pass was given no random draws. It also
    raises `Refused` if a layer that drops whole channels gets an input of fewer than 3 dimensions (5 for `Dropout3d`).
    """
    kind = type(layer).forward
    alpha = kind in (nn.AlphaDropout.forward, nn.FeatureAlphaDropout.forward)
    if not alpha and kind is not nn.Dropout.forward and kind not in CHANNELS:
        return None
    return _rule(stack, layer, CHANNELS.get(kind), _alpha_dropped if alpha else _dropped)


def _rule(stack: Stack, layer: Any, dimensions: int | None, drop: Callable[..., Tensor]) -> Callable[[Tensor], Tensor]:
    def forward(values: Tensor) -> Tensor:
        if not layer.training or not layer.p:
            return values
        if dimensions is not None and values.ndim < dimensions:
            raise Refused(
                f"{type(layer).__name__} drops channels: expected examples, channels and positions, got an input of "
                f"{values.ndim} dimensions"
            )
        channels = (*values.shape[:2], *[1] * (values.ndim - 2))
        return drop(stack, values, layer.p, values.shape if dimensions is None else channels)

    return forward


def dropped(stack: Stack, values: Tensor, rate: float, training: bool) -> Tensor:
    """Apply dropout as `torch.nn.functional.dropout` does, but with the examples' own masks.

    `rate` is the probability that a value is dropped. `values` are unchanged unless `training` and `rate` > 0; then
    raise `Refused` if the forward pass of `stack` has no draws.
    """
    return _dropped(stack, values, rate, values.shape) if training and rate else values


def _dropped(stack: Stack, values: Tensor, rate: float, shape: Any) -> Tensor:
    mask, share = stack.expect_draws().kept(shape, rate, values.dtype)
    return values * (mask.mul_(1 / share) if share else mask)


def _alpha_dropped(stack: Stack, values: Tensor, rate: float, shape: Any) -> Tensor:
    """Set dropped units to `-ALPHA`, then restore mean and variance (Klambauer et al. 2017); at rate 1 all units are 0.

    `rate` is the probability that a unit is dropped. `shape` is the shape of the mask, which is broadcast to `values`.
    """
    mask, share = stack.expect_draws().kept(shape, rate, values.dtype)
    if not share:
        return values * mask
    scale = 1 / math.sqrt((ALPHA**2 * (1 - share) + 1) * share)
    return values * (mask * scale) + (mask - share) * (ALPHA * scale)
