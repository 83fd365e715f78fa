"""Check on synthetic examples that an example's gradient does not depend on the rest of its microbatch.

A slot is the place of one example in a microbatch. Two things could make an example's gradient depend on other
examples:

1. A library may round differently in different slots, for instance because it cuts a microbatch into parts. The bound
   on rounding errors (`_rounding.py`) allows a small difference (`slot_distance`).
2. A module of other code may mix examples in large microbatches only (`check_neighbours`).

Only the shapes and types of a training's examples are used, so the results depend on public facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from privaware.descent._accumulate import Batch, Loss, accumulate
from privaware.descent._clip import flat
from privaware.descent._layers.dropout import without_dropout
from privaware.descent._stack import Stack
from privaware.descent._synthetic_examples import flipped, synthetic_inputs
from privaware.errors import Refused

MOST_SLOTS_COMPARED = 16
"""Largest number of slots whose gradients are compared with the first slot's one by one, if norms differ."""

MOST_NUMBERS = 2**21
"""Largest number of floats in the means over slots, unless groups of the training need more."""


def equal_examples(inputs: Sequence[Tensor], targets: Tensor, *, slots: int, copies: int = 1) -> Batch:
    """Return a batch whose `slots` slots, of all models together, hold the same synthetic example with target zero.

    Only shapes and types of `inputs` and `targets` are used. Each example is repeated `copies` times.
    """
    one = (*synthetic_inputs(inputs, 1), targets.new_zeros(1, *targets.shape[1:]))
    *items, zeros = (item.repeat_interleave(slots * copies, 0) for item in one)
    return Batch(tuple(items), zeros, slots)


def alike_in_all_slots(
    stack: Stack, loss: Loss, batches: Sequence[Batch], *, groups: int, tolerance: float, bf16: bool = False
) -> bool:
    """Return whether the squared gradient norm of an example has the same bits in every slot of all `batches`.

    All batches hold the same example (`equal_examples`). Its clipped gradients must also have the same direction: means
    over slots may differ from the gradient in the first slot by at most `tolerance` times its norm. `groups` is as in
    `slot_distance`. With `bf16` layers compute in bfloat16.
    """
    with without_dropout(stack.module):
        results = [_norms_and_means(stack, loss, batch, groups, bf16) for batch in batches]
        first = _gradient_in(0, stack, loss, batches[0], bf16)
    norms = torch.cat([norms for norms, _ in results], 1)
    near = all(_distance(means, first) <= tolerance for _, means in results)
    return near and bool((norms == norms[:, :1]).all())


def slot_distance(stack: Stack, loss: Loss, batch: Batch, *, groups: int, bf16: bool = False) -> float:
    """Return the largest distance found between an example's clipped gradients in two slots, divided by their norm.

    All slots of `batch` hold the same example (`equal_examples`). Each model's slots are cut into `groups` groups, or
    into more parts of equal size if memory allows. The mean gradient of each part is compared with the gradient in the
    first slot, entry by entry. A part may be one slot. In larger parts no change of direction can cancel another one:
    vectors of one norm have a mean of this norm only if they are all equal. Slots that differ in the bits of the
    squared norm are compared one by one too, at most `MOST_SLOTS_COMPARED` of them. With `bf16` layers compute in
    bfloat16.
    """
    with without_dropout(stack.module):
        norms, means = _norms_and_means(stack, loss, batch, groups, bf16)
        first = _gradient_in(0, stack, loss, batch, bf16)
        _, number = norms.transpose(0, 1).flatten(1).unique(dim=0, return_inverse=True)
        others = [int((number == each).nonzero()[0]) for each in number.unique() if each != number[0]]
        step = max(1, -(-len(others) // MOST_SLOTS_COMPARED))
        alone = (_gradient_in(slot, stack, loss, batch, bf16) for slot in others[::step])
        return max(_distance(gradients, first) for gradients in (means, *alone))


def check_neighbours(
    stack: Stack, loss: Loss, batch: Batch, *, groups: int, tolerance: float, bf16: bool = False
) -> None:
    """Raise `Refused` if another example in the first slot changes the gradients of examples in other slots.

    All slots of `batch` hold the same example. A module may behave otherwise in a microbatch of this size than with the
    few examples of the probe. Squared norms may change by at most `tolerance` times their value, and the means over
    parts of the other slots by `tolerance` times their norm. `groups` is as in `slot_distance`. With `bf16` layers
    compute in bfloat16.
    """
    slots = batch.examples // stack.models
    changed = []
    for item in batch.inputs:
        changed.append(item.clone())
        first = changed[-1].view(stack.models, slots, -1, *item.shape[1:])[:, 0]
        first.copy_(flipped(first))
    valid = torch.ones(stack.models, slots, dtype=stack.dtype, device=stack.device)
    valid[:, 0] = 0
    batch = replace(batch, valid=valid.flatten())
    with without_dropout(stack.module):
        (before, means), (after, changed_means) = (
            _norms_and_means(stack, loss, each, groups, bf16) for each in (batch, replace(batch, inputs=tuple(changed)))
        )
    near = (after - before)[:, 1:].abs().le(tolerance * before[:, 1:])
    if not bool(near.all()) or _distance(changed_means, means) > tolerance:
        raise Refused(
            f"the examples are not independent in microbatches of {slots}: another example changed their gradients, so "
            "no per-example gradient can be bounded; remove what computes over the batch dimension"
        )


def _norms_and_means(stack: Stack, loss: Loss, batch: Batch, groups: int, bf16: bool) -> tuple[Tensor, Tensor]:
    """Return the squared norms of all examples, and the mean clipped gradients (models, parts, columns) of parts.

    A model's slots are cut into the smallest parts of equal size whose means have at most `MOST_NUMBERS` floats, or
    into `groups` parts if that is impossible. The shape of the norms is as in `_accumulated`.
    """
    slots = batch.examples // stack.models
    sizes = (size for size in range(1, slots // groups) if slots % size == 0)
    few = (size for size in sizes if stack.models * slots // size * stack.columns <= MOST_NUMBERS)
    size = next(few, slots // groups)
    norms, sums = _accumulated(stack, loss, batch, bf16, slots // size)
    return norms, sums.div_(size)


def _gradient_in(slot: int, stack: Stack, loss: Loss, batch: Batch, bf16: bool) -> Tensor:
    """Return the clipped gradient of the example in one slot of each model, as (models, 1, columns)."""
    valid = torch.zeros(stack.models, batch.examples // stack.models, dtype=stack.dtype, device=stack.device)
    valid[:, slot] = 1
    return _accumulated(stack, loss, replace(batch, valid=valid.flatten()), bf16)[1]


def _distance(gradients: Tensor, first: Tensor) -> float:
    """Return the largest distance of `gradients` (models, parts, columns) from `first`, divided by the norm of `first`.

    It is infinite if a number is not finite. `first` is (models, 1, columns).
    """
    distance = (gradients - first).norm(dim=2)
    ratio = torch.where(distance == 0, 0.0, distance / first.norm(dim=2))  # a model may have no gradient at all
    return float(ratio.nan_to_num(torch.inf).max())


def _accumulated(stack: Stack, loss: Loss, batch: Batch, bf16: bool, parts: int = 1) -> tuple[Tensor, Tensor]:
    """Return the squared gradient norms of all examples of `batch`, and sums of clipped gradients.

    The norms are (models, slots, norms of an example): an example has one norm, or two with the projection `anchored`.
    NaN becomes 0, and infinity the largest finite number. The sums are (models, parts, columns): a model's slots are
    cut into `parts` parts of equal size.
    """
    sums = stack.theta.new_zeros(stack.models * parts, stack.columns)
    squares = accumulate(stack, loss, batch, flat(1.0), 1.0, sums, bf16=bf16)
    norms = squares.view(stack.models, -1, squares.shape[1]).nan_to_num_()
    return norms, sums.view(stack.models, parts, -1)
