"""Clipped gradient sums: one forward pass, one backward pass, then only the recorded tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from privaware.descent._clip import Clip, per_layer, quantile
from privaware.descent._example_draws import ExampleDraws
from privaware.descent._losses import example_losses, output_gradient
from privaware.descent._per_example import PerExampleGradient, combined
from privaware.descent._stack import Slot, Stack, Tape

__all__ = [
    "Batch",
    "Gradients",
    "Loss",
    "accumulate",
    "add_clipped",
    "add_sums",
    "example_gradients",
    "squared_norms",
    "zero_others",
]

Loss = Callable[..., Tensor]

Gradients = dict[str, list[PerExampleGradient]]


@dataclass(frozen=True)
class Batch:
    """The examples of one forward pass, model-major; those that are not `valid` are padding.

    `inputs` and `targets` may hold several augmented copies of each of the `examples`, one after another. Dropout takes
    its masks from `draws`, of which every copy has its own.
    """

    inputs: tuple[Tensor, ...]
    targets: Any
    examples: int
    valid: Tensor | None = None
    draws: ExampleDraws | None = None


def accumulate(
    stack: Stack,
    loss: Loss,
    batch: Batch,
    clip: Clip,
    norm: Any,
    total: Tensor,
    *,
    capturing: bool = False,
    bf16: bool = False,
) -> Tensor:
    """Adds the clipped per-example gradients to `total` (models, trainable); their (examples, layers) squared norms.

    With more rows than models `total` takes the sums of equal groups of a model's examples. `norm` is a number or one
    for each example. The last column of `total` takes the centred count where the clip tracks a quantile. `capturing`
    never looks at a value, as a CUDA graph requires. Where the stack has a projection, it decides what is added.
    """
    gradients = example_gradients(stack, loss, batch, bf16=bf16)
    with torch.no_grad():
        if stack.projection is not None:
            return stack.projection.accumulate(gradients, batch, clip, norm, total, capturing)
        return add_clipped(stack, gradients, batch, clip, norm, total, capturing)


def example_gradients(stack: Stack, loss: Loss, batch: Batch, *, bf16: bool = False) -> Gradients:
    """The per-example gradients of each parameter, by its name."""
    outputs, tape = _forward(stack, batch, bf16)
    with torch.enable_grad():
        outputs = outputs.float() if bf16 else outputs
        seeds = output_gradient(loss, outputs, batch.targets, batch.examples)
        if seeds is None:
            outputs = example_losses(loss, outputs, batch.targets, tape.hidden, batch.examples).sum()
    uses = tape.per_example_gradients(outputs, seeds)
    return {name: combined(parts) for name, parts in uses.items()}


def add_clipped(
    stack: Stack,
    gradients: Gradients,
    batch: Batch,
    clip: Clip,
    norm: Any,
    total: Tensor,
    capturing: bool,
    slots: Sequence[Slot] | None = None,
) -> Tensor:
    """Clips the gradients, adds them to `total`, where `slots` say; the squared norms."""
    squares = squared_norms(stack, gradients, batch.examples, by_layer=isinstance(clip, per_layer))
    factors = clip.factors(squares, norm)
    if capturing or not math.isfinite(float(squares.sum())):
        zero_others(gradients, factors[:, 0] != 0)  # a factor of zero marks an example that is not finite
    if batch.valid is not None:
        factors = factors * batch.valid[:, None]
    add_sums(stack, stack.slots if slots is None else slots, gradients, factors, total)
    if isinstance(clip, quantile):
        within = clip.within(squares, norm[:, 0])
        within = within if batch.valid is None else within * batch.valid
        total[:, -1] += within.view(len(total), -1).sum(1)
    return squares


def zero_others(gradients: Gradients, keep: Tensor) -> None:
    """Sets the gradients of all other examples to zero."""
    for parts in gradients.values():
        for part in parts:
            part.zero_others(keep)


def _forward(stack: Stack, batch: Batch, bf16: bool) -> tuple[Any, Tape]:
    if not bf16:
        return stack.forward(batch.inputs, batch.examples, batch.draws)
    with torch.autocast(stack.device.type, torch.bfloat16):
        return stack.forward(batch.inputs, batch.examples, batch.draws)


def squared_norms(stack: Stack, gradients: Gradients, examples: int, *, by_layer: bool) -> Tensor:
    """(examples, layers) squared norms, or (examples, 1) over all layers."""
    columns = stack.layer_numbers if by_layer else dict.fromkeys(gradients, 0)
    width = max(columns.values(), default=0) + 1
    sums: list[Tensor | None] = [None] * width
    for name, parts in gradients.items():
        for part in parts:
            at, squares = columns[name], part.squared_norms()
            if squares is None:
                continue
            if name in stack.excluded:
                squares = (squares.view(stack.models, -1) * stack.excluded[name]).view(-1)
            before = sums[at]
            sums[at] = squares if before is None else before + squares
    zero = torch.zeros(examples, dtype=stack.dtype, device=stack.device)
    if width == 1:
        return (zero if sums[0] is None else sums[0])[:, None]
    return torch.stack([zero if column is None else column for column in sums], 1)


def add_sums(stack: Stack, slots: Sequence[Slot], gradients: Gradients, factors: Tensor, total: Tensor) -> None:
    """Adds the weighted sums of the gradients to the columns of `total` that `slots` say."""
    single = factors.shape[1] == 1
    first = factors.view(-1) if single else factors[:, 0]
    for slot in slots:
        for part in gradients.get(slot.name, ()):
            of_layer = first if single else factors[:, stack.layer_numbers[slot.name]].contiguous()
            part.add_sum(of_layer, stack.view(total, slot))
