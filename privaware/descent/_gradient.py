"""Clipped sums of per-row gradients: one forward pass, one backward pass, then only the recorded tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from privaware.descent._clip import Clip, flat, quantile
from privaware.descent._losses import output_gradient, row_losses
from privaware.descent._probe import proven, refuse_kinds
from privaware.descent._shares import Share, merged
from privaware.descent._stack import Stack
from privaware.errors import WrongInput

__all__ = ["Loss", "accumulate", "as_inputs", "clipped_sum"]

Loss = Callable[..., Tensor]


def accumulate(
    stack: Stack,
    loss: Loss,
    inputs: tuple[Tensor, ...],
    targets: Any,
    *,
    rows: int,
    clip: Clip,
    norm: Any,
    total: Tensor,
    valid: Tensor | None = None,
    branch: bool = True,
    bf16: bool = False,
) -> Tensor:
    """Adds the rows' clipped gradients to `total` (models, trainable) and returns their (rows, layers) squared norms.

    `norm` is a number or one for each row; rows that are not `valid` are padding. The last column of `total` takes the
    centred count where the clip tracks a quantile. `branch=False` never looks at a value (for captured graphs).
    """
    if bf16:
        with torch.autocast(stack.device.type, torch.bfloat16):
            outputs, tape = stack.forward(inputs, rows)
    else:
        outputs, tape = stack.forward(inputs, rows)
    with torch.enable_grad():
        outputs = outputs.float() if bf16 else outputs
        seeds = output_gradient(loss, outputs, targets, rows)
        if seeds is None:
            outputs = row_losses(loss, outputs, targets, tape.hidden, rows).sum()
    shares = {name: merged(parts) for name, parts in tape.shares(outputs, seeds).items()}
    with torch.no_grad():
        squares = _squares(stack, shares, rows, per_layer=hasattr(clip, "shares"))
        factors = clip.factors(squares, norm)
        if not branch or not math.isfinite(float(squares.sum())):
            good = factors[:, 0] != 0  # a factor of zero marks a row that is not finite
            for parts in shares.values():
                for part in parts:
                    part.clean(good)
        if valid is not None:
            factors = factors * valid[:, None]
        _add(stack, shares, factors, total)
        if isinstance(clip, quantile):
            inside = clip.within(squares, norm[:, 0])
            inside = inside if valid is None else inside * valid
            total[:, -1] += inside.view(stack.models, -1).sum(1)
    return squares


def _squares(stack: Stack, shares: dict[str, list[Share]], rows: int, *, per_layer: bool) -> Tensor:
    columns = stack.groups if per_layer else dict.fromkeys(stack.groups, 0)
    width = max(columns.values(), default=0) + 1
    found: list[Tensor | None] = [None] * width
    for name, parts in shares.items():
        for part in parts:
            at, value = columns[name], part.squares()
            if value is None:
                continue
            if name in stack.resting:
                value = (value.view(stack.models, -1) * stack.resting[name]).view(-1)
            before = found[at]
            found[at] = value if before is None else before + value
    zero = torch.zeros(rows, dtype=stack.dtype, device=stack.device)
    if width == 1:
        return (zero if found[0] is None else found[0])[:, None]
    return torch.stack([zero if value is None else value for value in found], 1)


def _add(stack: Stack, shares: dict[str, list[Share]], factors: Tensor, total: Tensor) -> None:
    single = factors.shape[1] == 1
    whole = factors.view(-1) if single else factors[:, 0]
    for slot in stack.slots:
        for part in shares.get(slot.name, ()):
            weights = whole if single else factors[:, stack.groups[slot.name]].contiguous()
            part.add(weights, stack.view(total, slot))


def clipped_sum(
    module: nn.Module, loss: Loss, inputs: Any, targets: Any, norm: float
) -> tuple[dict[str, Tensor], Tensor]:
    """The sum of the rows' gradients, each scaled to at most `norm`, by parameter name; and their norms before that.

    `loss(outputs, targets)` gives one value a row. The module is not changed.

    >>> net = nn.Linear(2, 1, bias=False)
    >>> _ = nn.init.zeros_(net.weight)
    >>> half_square = lambda outputs, targets: (outputs[:, 0] - targets).square() / 2
    >>> sums, norms = clipped_sum(net, half_square, torch.tensor([[3.0, 4.0], [0.3, 0.4]]), torch.ones(2), norm=1.0)
    >>> norms
    tensor([5.0000, 0.5000])
    >>> sums["weight"]
    tensor([[-0.9000, -1.2000]])
    """
    parameter = next((p for p in module.parameters() if p.requires_grad), None)
    if parameter is None:
        raise WrongInput("expected a module with trainable parameters, got none")
    refuse_kinds(module)
    stack = Stack([module], device=parameter.device, watch=getattr(loss, "watch", ()))
    given, goal = as_inputs(inputs, stack), as_target(targets, stack)
    if proven(module, loss, given, goal, stack.device):
        stack = Stack([module], device=parameter.device, whole=True)
    rows = len(given[0])
    total = torch.zeros_like(stack.theta)
    if rows == 0:
        return _named(stack, total), total.new_zeros(0)
    squares = accumulate(stack, loss, given, goal, rows=rows, clip=flat(norm), norm=float(norm), total=total)
    return _named(stack, total), squares[:, 0].sqrt()


def _named(stack: Stack, total: Tensor) -> dict[str, Tensor]:
    return {slot.name: stack.view(total, slot)[0] for slot in stack.slots}


def as_inputs(inputs: Any, stack: Stack) -> tuple[Tensor, ...]:
    """What the module is called with: one tensor or a tuple of them, floating ones in the module's precision."""
    many = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    out = tuple(as_target(item, stack) for item in many)
    if not out or any(item.ndim == 0 or len(item) != len(out[0]) for item in out):
        raise WrongInput("expected inputs with one entry a row, got inputs of different lengths")
    return out


def as_target(values: Any, stack: Stack) -> Tensor:
    """A tensor on the stack's device, floating values in its precision."""
    tensor = values if isinstance(values, Tensor) else torch.as_tensor(values)
    kind = stack.dtype if tensor.is_floating_point() else None
    return tensor.to(device=stack.device, dtype=kind)
