"""The type of a layer rule, and the checks that all layer rules share.

A rule takes the stack and one layer, and returns a replacement of the layer's forward function. The replacement
computes each model's outputs with the model's own parameters. It records how to compute per-example gradients from the
gradient with respect to the output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from privaware.descent._stack import Builder, Stack
from privaware.errors import Refused

__all__ = ["Rule", "check_batch_first", "check_unmodified", "record_leaf"]

Rule = Callable[[Stack, Any], Callable[..., Any]]


def check_batch_first(values: Tensor, examples: int) -> None:
    """Raise `Refused` unless the length of `values` is a multiple of `examples` (augmented copies), which is not 0."""
    if examples == 0 or len(values) % examples:
        raise Refused(
            f"expected the examples first in every layer's input, got shape {tuple(values.shape)} for {examples} "
            "examples; keep the batch dimension in front"
        )


def check_unmodified(values: Tensor, version: int) -> None:
    """Raise `Refused` if the recorded tensor `values` was modified in place since `version`."""
    if values._version != version:
        raise Refused(
            "the input of a layer is modified in place by the module's forward; use the out-of-place operation"
        )


def record_leaf(stack: Stack, leaf: Tensor, build: Builder) -> None:
    """Record a leaf tensor whose gradient `build` turns into per-example gradients; do nothing without gradients."""
    if torch.is_grad_enabled():
        stack.tape.edges.append(get_gradient_edge(leaf))
        stack.tape.builders.append(build)
