"""Convolutions and pools in sequence, then dense layers: the form of most of the papers' networks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from privaware.errors import WrongInput
from privaware.models._description import ImageDescription, output_size

if TYPE_CHECKING:
    from torch import nn


class Conv(NamedTuple):
    """A convolution with bias, then the activation; `kernel` is a filter's side, `padding` the zeros on each side."""

    filters: int
    kernel: int
    stride: int = 1
    padding: int = 0


class Pool(NamedTuple):
    """A pooling layer over squares of `kernel` x `kernel` pixels, which begin every `stride` pixels.

    The network's setting `pooling` says whether it takes the maximum or the mean of a square.
    """

    kernel: int = 2
    stride: int = 2


ConvLayer = Conv | Pool
"""One layer of a stack."""


def flattened_size(model: ImageDescription, stack: Iterable[ConvLayer]) -> int:
    """Return the number of values that `stack` computes from one image of `model`.

    Raise `WrongInput` if the image is smaller than a layer needs.
    """
    channels, height, width = model.inputs
    for layer in stack:
        padding = layer.padding if isinstance(layer, Conv) else 0
        height = output_size(height, layer.kernel, layer.stride, padding)
        width = output_size(width, layer.kernel, layer.stride, padding)
        if min(height, width) < 1:
            raise WrongInput(
                f"{model.name}: expected images large enough for every layer, got inputs {list(model.inputs)};"
                " remove a pool or use larger images"
            )
        channels = layer.filters if isinstance(layer, Conv) else channels
    return channels * height * width


def conv_layers(model: ImageDescription, stack: Iterable[ConvLayer], groups: int = 0) -> list[tuple[str, nn.Module]]:
    """Return the layers of `stack` as (name, layer), in order.

    A name has the position in `stack`, from 1, such as "conv1", "norm1", "activation1" and "pool2". A `Conv` gives a
    convolution and the activation of `model`, a `Pool` a pool of the kind `model.pooling`. The first convolution has
    the input channels of `model`. Unless `groups` is 0, a group norm of `groups` groups, without weights, precedes each
    activation.
    """
    from torch import nn

    from privaware.models._layers import pool

    layers: list[tuple[str, nn.Module]] = []
    channels = model.inputs[0]
    for at, layer in enumerate(stack, start=1):
        if isinstance(layer, Pool):
            layers.append((f"pool{at}", pool(model.pooling, layer.kernel, layer.stride)))
            continue
        conv = nn.Conv2d(channels, layer.filters, layer.kernel, layer.stride, layer.padding)
        channels = layer.filters
        layers.append((f"conv{at}", conv))
        if groups:
            layers.append((f"norm{at}", nn.GroupNorm(groups, channels, affine=False)))
        layers.append((f"activation{at}", model._activation()))
    return layers


def build_stack(
    model: ImageDescription,
    stack: tuple[ConvLayer, ...],
    hidden: tuple[int, ...],
    *,
    dropout: float = 0.0,
    groups: int = 0,
) -> nn.Sequential:
    """Return a network: the layers of `stack`, dense layers of `hidden` units with activations, and a linear output.

    `model` gives inputs, outputs, activation and pooling. `dropout` is the rate of one dropout layer before the output;
    0 means no dropout layer. Unless `groups` is 0, a group norm of `groups` groups precedes the activation of each
    convolution.
    """
    from torch import nn

    from privaware.models._layers import dense_layers

    layers = conv_layers(model, stack, groups)
    dense = [(units, model._activation()) for units in hidden]
    head = dense_layers(flattened_size(model, stack), dense, model.outputs, dropout=dropout)
    return nn.Sequential(OrderedDict([*layers, ("flatten", nn.Flatten()), *head]))
