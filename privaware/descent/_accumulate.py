"""Sum clipped per-example gradients.

A forward pass records layer inputs, and a backward pass gives the gradients with respect to layer outputs. The norms
and the clipped sum are computed from these recorded tensors, without another pass.
"""

from __future__ import annotations

import contextlib
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
from privaware.descent._stack import Segment, Stack

Loss = Callable[..., Tensor]

Gradients = dict[str, list[PerExampleGradient]]


@dataclass(frozen=True)
class Batch:
    """The examples of one forward pass, in model-major order: all examples of model 0, then all of model 1, and so on.

    `examples` is the number of examples of all models, padding included. `inputs` and `targets` may hold several
    augmented copies of each example; the copies of one example are adjacent. `valid` (examples,) is 1 for an example
    and 0 for padding; None means no padding. `draws` gives the random numbers of dropout; each augmented copy has its
    own. It may be None without dropout.
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
    """Add the clipped per-example gradients of `batch` to `total`, and return their squared norms before clipping.

    `loss(outputs, targets)` returns one value for each augmented copy. Padding adds nothing, and an example whose
    gradient is not finite adds a zero gradient. The squared norms have shape (examples, 1), or (examples, layers) for a
    `per_layer` clip. `total` has shape (models, trainable parameters). If `total` has more rows than models, each row
    takes the sum over one of several groups of equal size into which a model's examples are cut. `norm` is one clipping
    norm, or (examples, 1) norms, one for each example. For a `quantile` clip `total` has one more column: each example
    adds 1/2 to it if its norm is at most the clipping norm, and -1/2 otherwise. With `capturing` no tensor value is
    read on the host, as a CUDA graph requires. If the stack has a projection, the projection decides what is added and
    what is returned. `bf16` is passed to `example_gradients`.
    """
    gradients = example_gradients(stack, loss, batch, bf16=bf16)
    with torch.no_grad():
        if stack.projection is not None:
            return stack.projection.accumulate(gradients, batch, clip, norm, total, capturing)
        return add_clipped(stack, gradients, batch, clip, norm, total, capturing)


def example_gradients(stack: Stack, loss: Loss, batch: Batch, *, bf16: bool = False) -> Gradients:
    """Return the per-example gradients of `batch` by parameter name; with `bf16` layers compute in bfloat16.

    The gradient of an example is the mean of the gradients of its augmented copies; `loss` returns one value a copy. A
    parameter has a list of representations (`PerExampleGradient`): one entry, or one entry for each slice if the module
    uses the parameter in disjoint slices. A parameter that the loss does not depend on is left out.
    """
    with torch.autocast(stack.device.type, torch.bfloat16) if bf16 else contextlib.nullcontext():
        outputs, tape = stack.forward(batch.inputs, batch.examples, batch.draws)
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
    segments: Sequence[Segment] | None = None,
) -> Tensor:
    """Clip the per-example `gradients`, add them to `total`, and return their squared norms before clipping.

    `segments` give the columns of `total` for each parameter; None means the segments of `stack`. The gradients of
    examples that are not finite are set to zero, in place. The shape of the result and the other arguments are as in
    `accumulate`.
    """
    squares = squared_norms(stack, gradients, batch.examples, by_layer=isinstance(clip, per_layer))
    factors = clip.factors(squares, norm)
    if capturing or not math.isfinite(float(squares.sum())):
        zero_others(gradients, factors[:, 0] != 0)  # a factor of zero marks an example that is not finite
    if batch.valid is not None:
        factors = factors * batch.valid[:, None]
    add_sums(stack, stack.segments if segments is None else segments, gradients, factors, total)
    if isinstance(clip, quantile):
        within = clip.within(squares, norm[:, 0])
        within = within if batch.valid is None else within * batch.valid
        total[:, -1] += within.view(len(total), -1).sum(1)
    return squares


def zero_others(gradients: Gradients, keep: Tensor) -> None:
    """Set the per-example gradients to zero, in place, for all examples outside the mask `keep` (examples,)."""
    for parts in gradients.values():
        for part in parts:
            part.zero_others(keep)


def squared_norms(stack: Stack, gradients: Gradients, examples: int, *, by_layer: bool) -> Tensor:
    """Return squared gradient norms: (examples, layers) if `by_layer`, otherwise (examples, 1) over all layers.

    A layer that a model does not train (`stack.excluded`) adds nothing to the norms of this model's examples.
    """
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


def add_sums(stack: Stack, segments: Sequence[Segment], gradients: Gradients, factors: Tensor, total: Tensor) -> None:
    """Add per-example `gradients`, weighted by `factors` and summed over examples, to `total`, in place.

    `segments` give the columns of `total` for each parameter; parameters without a segment are left out. `factors` are
    (examples, 1), or (examples, layers) with a factor for each layer. `total` has a row for each model, or for each of
    several equal groups of a model's examples.
    """
    single = factors.shape[1] == 1
    first = factors.view(-1) if single else factors[:, 0]
    for segment in segments:
        for part in gradients.get(segment.name, ()):
            of_layer = first if single else factors[:, stack.layer_numbers[segment.name]].contiguous()
            part.add_sum(of_layer, stack.view(total, segment))
