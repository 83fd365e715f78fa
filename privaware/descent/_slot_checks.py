"""Check on synthetic examples that an example's gradient does not depend on the rest of its microbatch.

A slot is the place of one example in a microbatch. Two things could make an example's gradient depend on other
examples:

1. A library may round differently in different slots, for instance because it cuts a microbatch into parts. The bound
   on rounding errors (`_rounding.py`) allows a small difference (`slot_distance`).
2. A module of other code may mix examples in large microbatches only (`check_neighbours`).

Only the shapes and types of a training's examples are used, so the results depend on public facts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from privaware.descent._accumulate import Batch, Loss, accumulate
from privaware.descent._clip import flat
from privaware.descent._layers.dropout import has_dropout
from privaware.descent._probe import flipped, synthetic_inputs
from privaware.descent._stack import Stack
from privaware.errors import Refused

MOST_SLOTS_COMPARED = 16
"""Largest number of slots whose gradients are compared entry by entry, if norms differ between slots."""


def equal_examples(inputs: Sequence[Tensor], targets: Tensor, *, slots: int, copies: int = 1) -> Batch:
    """Return a batch whose `slots` slots, of all models together, hold the same synthetic example with target zero.

    Only shapes and types of `inputs` and `targets` are used. Each example is repeated `copies` times.
    """
    one = (*synthetic_inputs(inputs, 1), targets.new_zeros(1, *targets.shape[1:]))
    *items, zeros = (item.repeat_interleave(slots * copies, 0) for item in one)
    return Batch(tuple(items), zeros, slots)


def alike_in_all_slots(stack: Stack, loss: Loss, batches: Sequence[Batch], *, bf16: bool = False) -> bool:
    """Return whether the squared gradient norm of an example has the same bits in every slot of all `batches`.

    All batches hold the same example (`equal_examples`). With `bf16` layers compute in bfloat16.
    """
    with _modes_restored(stack.module):
        stack.module.eval()  # each example would have its own dropout mask
        norms = torch.cat([_example_norms(stack, loss, batch, bf16) for batch in batches], 1)
    return bool((norms == norms[:, :1]).all())


def slot_distance(stack: Stack, loss: Loss, batch: Batch, *, bf16: bool = False) -> float:
    """Return the largest distance between the clipped gradients of an example in two slots, divided by their norm.

    All slots of `batch` hold the same example (`equal_examples`). Slots with the same bits of the squared norm count as
    equal. Of the others, at most `MOST_SLOTS_COMPARED` are compared with the first slot, entry by entry: norms alone
    would hide a change of direction. With `bf16` layers compute in bfloat16.
    """
    with _modes_restored(stack.module):
        stack.module.eval()  # each example would have its own dropout mask
        norms = _example_norms(stack, loss, batch, bf16)
        slots = norms.shape[1]
        _, number = norms.transpose(0, 1).flatten(1).unique(dim=0, return_inverse=True)
        others = [int((number == each).nonzero()[0]) for each in number.unique() if each != number[0]]
        step = max(1, -(-len(others) // MOST_SLOTS_COMPARED))
        first = _gradient_in(0, slots, stack, loss, batch, bf16) if others else stack.theta
        length, largest = first.norm(dim=1), 0.0
        for slot in others[::step]:
            distance = (_gradient_in(slot, slots, stack, loss, batch, bf16) - first).norm(dim=1)
            ratio = torch.where(distance == 0, 0.0, distance / length)  # a model may have no gradient at all
            largest = max(largest, float(ratio.nan_to_num(torch.inf).max()))
    return largest


def _gradient_in(slot: int, slots: int, stack: Stack, loss: Loss, batch: Batch, bf16: bool) -> Tensor:
    """Return the clipped gradient of the example in one slot of each model, as (models, columns)."""
    valid = torch.zeros(stack.models, slots, dtype=stack.dtype, device=stack.device)
    valid[:, slot] = 1
    total = stack.theta.new_zeros(stack.models, stack.columns)
    accumulate(stack, loss, replace(batch, valid=valid.flatten()), flat(1.0), 1.0, total, bf16=bf16)
    return total


def check_neighbours(stack: Stack, loss: Loss, batch: Batch, *, bf16: bool = False, tolerance: float = 0.0) -> None:
    """Raise `Refused` if another example in the first slot changes the gradient norms of examples in other slots.

    All slots of `batch` hold the same example. A module may behave otherwise in a microbatch of this size than with the
    few examples of the probe. Squared norms may change by at most `tolerance` times their value. With `bf16` layers
    compute in bfloat16.
    """
    slots = batch.examples // stack.models
    changed = []
    for item in batch.inputs:
        changed.append(item.clone())
        first = changed[-1].view(stack.models, slots, -1, *item.shape[1:])[:, 0]
        first.copy_(flipped(first))
    with _modes_restored(stack.module):
        for part in stack.module.modules():
            part.training = part.training and not has_dropout(part)
        before, after = (
            _example_norms(stack, loss, each, bf16)[:, 1:] for each in (batch, replace(batch, inputs=tuple(changed)))
        )
    if not bool((after - before).abs().le(tolerance * before).all()):
        raise Refused(
            f"the examples are not independent in microbatches of {slots}: another example changed their gradients, so "
            "no per-example gradient can be bounded; remove what computes over the batch dimension"
        )


@contextlib.contextmanager
def _modes_restored(module: nn.Module) -> Iterator[None]:
    """Restore at the end which parts of `module` are in training mode."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _example_norms(stack: Stack, loss: Loss, batch: Batch, bf16: bool) -> Tensor:
    """Return the squared gradient norms of all examples of `batch`, as (models, slots, norms of an example).

    An example has one norm, or two with the projection `anchored`. NaN becomes 0, and infinity the largest finite
    number.
    """
    unused = stack.theta.new_zeros(stack.models, stack.columns)
    squares = accumulate(stack, loss, batch, flat(1.0), 1.0, unused, bf16=bf16)
    return squares.view(stack.models, -1, squares.shape[1]).nan_to_num_()
