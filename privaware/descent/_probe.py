"""What a module must not do: mix rows, keep statistics of them, or use parameters where no rule can see it.

Before training, the module is tried on three made-up rows (public: only shapes and types of the inputs are used). Rows
must not influence each other, buffers must not change, and the engine must agree with autograd; else it is refused.
A run with short mantissas is tried with them too: rounding may turn a sum, but no row may be longer than its bound.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from privaware.descent._clip import SHORT as MARGIN
from privaware.descent._clip import flat
from privaware.descent._losses import row_losses
from privaware.descent._stack import Stack
from privaware.errors import PrivawareError, Refused

__all__ = ["made_up", "mantissas", "proven", "refuse_kinds", "replace_batch_norm"]

ROWS = 3
EXACT, SHORT, TURNED = 2e-3, 0.05, 0.25
"""How far apart norms may be with whole and with shortened mantissas (these turn gradients too: bf16 by up to a
fifth, where it switches maxima of pools). A rule or kernel that is wrong is further off."""
TRIES = 3
"""Rounding may switch a unit that is nearly off: then other rows are tried. A rule that is wrong fails with all. With
whole mantissas that is so rare that all the others must agree."""


def replace_batch_norm(module: nn.Module, groups: int = 16) -> nn.Module:
    """A copy of `module` with group norm where batch norm was: the same parameters, no row sees another.

    >>> replace_batch_norm(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))[1].num_groups
    8
    """
    made = copy.deepcopy(module)
    if isinstance(made, _BatchNorm):
        return _group_norm(made, groups)
    for parent in list(made.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _BatchNorm):
                setattr(parent, name, _group_norm(child, groups))
    return made


def _group_norm(layer: Any, groups: int) -> nn.GroupNorm:
    count = max(n for n in range(1, groups + 1) if layer.num_features % n == 0)
    made = nn.GroupNorm(count, layer.num_features, eps=layer.eps, affine=layer.affine)
    if layer.affine:
        made.weight, made.bias = layer.weight, layer.bias
    return made.train(layer.training)


def proven(module: nn.Module, loss: Any, inputs: Sequence[Tensor], targets: Any, device: Any, models: int = 1) -> bool:
    """Whether the module must be handled whole (the general way); refuses what cannot be private at all.

    Rules are compared with whole mantissas: shortened ones would blur what is right and what is wrong. A run with
    shortened ones may have kernels of its own, so it is tried as it is too, with the tolerance that it needs.
    """
    short = torch.backends.cuda.matmul.allow_tf32
    with mantissas("float32"):
        return _proven(module, loss, inputs, targets, device, models, short)


def _proven(
    module: nn.Module, loss: Any, inputs: Sequence[Tensor], targets: Any, device: Any, models: int, short: bool
) -> bool:
    probe = copy.deepcopy(module).to(device)
    for parameter in probe.parameters():  # a start that diverged would overflow; structure is tried
        parameter.data.nan_to_num_(0.0).clamp_(-1, 1)
    goal = targets.new_zeros((ROWS, *targets.shape[1:]))
    _isolated(probe, loss, _drawn(inputs, 0), goal)
    _by_autograd(probe.eval(), loss, _drawn(inputs, 0), goal)  # refuses what takes no part
    given = (probe, loss, inputs, goal, (1,) if models == 1 else (1, 2))
    problem: Exception | str = ""
    for whole in (False, True):
        exact, rounded = (partial(_agrees_on, *given, whole, cut) for cut in (False, True))
        try:
            if not exact(0) and not all(map(exact, range(1, TRIES))):
                continue
            if not short or any(map(rounded, range(TRIES))):
                return whole
            problem = problem or (
                "with the short mantissas of this run they come out too far from what they should be: "
                "use precision='float32'"
            )
        except (PrivawareError, RuntimeError, NotImplementedError) as error:
            problem = problem or error
    raise Refused(
        f"{type(module).__name__} uses its parameters in a way whose per-row gradients cannot be had"
        f"{f' ({problem})' if problem else ''}; build it from layers of torch.nn called as modules"
    )


@contextlib.contextmanager
def mantissas(precision: str) -> Iterator[None]:
    """Torch's switches for shortened mantissas, put back afterwards."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = precision != "float32"
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def refuse_kinds(module: nn.Module) -> None:
    """Refuses layers that are known to mix or remember rows, or are not ready."""
    for name, layer in module.named_modules():
        where = f"layer {name!r}" if name else "the module"
        if isinstance(layer, _InstanceNorm):
            if layer.track_running_stats:
                raise Refused(f"{where} keeps statistics of the rows; use track_running_stats=False")
        elif isinstance(layer, _BatchNorm) and (layer.training or not layer.track_running_stats):
            raise Refused(
                f"{where} is batch norm, which mixes rows, so no row's gradient can be bounded; "
                "use privaware.descent.replace_batch_norm(module)"
            )
        if isinstance(layer, nn.Embedding) and (layer.max_norm or layer.scale_grad_by_freq):
            raise Refused(f"{where} is an embedding whose rows interact; leave max_norm and scale_grad_by_freq off")
        if any(nn.parameter.is_lazy(parameter) for parameter in layer.parameters(recurse=False)):
            raise Refused(f"{where} is not initialised yet; call the module once on made-up rows first")


def made_up(like: Tensor, at: int, rows: int) -> Tensor:
    """Rows of numbers that have nothing to do with the data: in [0, 1], or 0 and 1 for whole numbers."""
    generator = torch.Generator().manual_seed(2**31 + at)
    shape = (rows, *like.shape[1:])
    if like.is_floating_point():
        return torch.rand(shape, generator=generator, dtype=torch.float64).to(like)
    return torch.randint(2, shape, generator=generator).to(like)


def _drawn(inputs: Sequence[Tensor], draw: int) -> tuple[Tensor, ...]:
    """The made-up rows of one try."""
    return tuple(made_up(item, at, ROWS) for at, item in enumerate(inputs, draw * len(inputs)))


def _losses(module: nn.Module, loss: Any, rows: tuple[Tensor, ...], goal: Tensor) -> Tensor:
    with torch.random.fork_rng(devices=[goal.device] if goal.is_cuda else []):
        torch.manual_seed(2**31)
        return row_losses(loss, module(*rows), goal, [], ROWS)


def _isolated(module: nn.Module, loss: Any, rows: tuple[Tensor, ...], goal: Tensor) -> None:
    """Changing one row must leave the other rows' losses alone, and no buffer may remember any."""
    before = {name: value.clone() for name, value in module.named_buffers()}
    other = tuple(_with_other_row(item) for item in rows)
    with torch.no_grad():
        first, second = (_losses(module, loss, given, goal) for given in (rows, other))
    if not torch.allclose(first[::2], second[::2], rtol=1e-5, atol=1e-6, equal_nan=True):
        raise Refused(
            "the rows are not independent: changing one row changed another row's loss, so no row's gradient can be "
            "bounded; remove what computes over the batch dimension"
        )
    for name, value in module.named_buffers():
        if not torch.equal(value, before[name]):
            raise Refused(f"buffer {name!r} changes with the rows, which would release them; freeze it")


def _with_other_row(item: Tensor) -> Tensor:
    changed = item.clone()
    changed[1] = ~item[1] if item.dtype == torch.bool else 1 - item[1]
    return changed


def _by_autograd(module: nn.Module, loss: Any, rows: tuple[Tensor, ...], goal: Tensor) -> list[dict[str, Tensor]]:
    """Each row's gradients; a trainable parameter that takes no part is refused."""
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    losses = _losses(module, loss, rows, goal)
    found = []
    for value in losses:
        gradients = torch.autograd.grad(value, list(named.values()), allow_unused=True, retain_graph=True)
        lost = [name for name, g in zip(named, gradients, strict=True) if g is None]
        if lost:
            raise Refused(
                f"parameter {lost[0]!r} takes no part in the loss and would get noise alone; "
                "freeze it with requires_grad_(False) or remove it"
            )
        found.append(dict(zip(named, gradients, strict=True)))
    return found


def _agrees_on(
    module: nn.Module,
    loss: Any,
    inputs: Sequence[Tensor],
    goal: Tensor,
    counts: tuple[int, ...],
    whole: bool,
    short: bool,
    draw: int,
) -> bool:
    """The engine against autograd on the made-up rows of one try.

    With `short` mantissas autograd still has whole ones, and each row alone must keep its bound.
    """
    given = (module, loss, _drawn(inputs, draw), goal)
    expected = _by_autograd(*given)
    if not short:
        return all(_agrees(*given, expected, whole, many) for many in counts)
    with mantissas("tf32"):
        near = _agrees(*given, expected, whole, counts[-1], short=True)
        return near and _bounded(*given, whole, counts[-1])


def _bounded(module: nn.Module, loss: Any, rows: tuple[Tensor, ...], goal: Tensor, whole: bool, models: int) -> bool:
    """Whether each row's clipped gradient alone keeps its bound as it is rounded, up to the margin of a run."""
    from privaware.descent._gradient import accumulate

    stack, norm = Stack([module] * models, device=goal.device, whole=whole), 1e-3
    longest = 0.0
    for at in range(ROWS):
        own, *given = (torch.cat([item[at : at + 1]] * models) for item in (goal, *rows))
        total = torch.zeros_like(stack.theta)
        clip: Any = {"clip": flat(norm), "norm": norm, "total": total}
        accumulate(stack, loss, tuple(given), own, rows=models, **clip)
        longest = max(longest, float(total.norm(dim=1).max()))
    return longest <= norm / (1 - MARGIN)


def _agrees(
    module: nn.Module,
    loss: Any,
    rows: tuple[Tensor, ...],
    goal: Tensor,
    expected: list[dict[str, Tensor]],
    whole: bool,
    models: int,
    short: bool = False,
) -> bool:
    """Whether the engine finds the same norms and the same clipped sums, for one model or for two alike.

    With whole mantissas each number must be the same, with `short` ones the sum as a whole.
    """
    from privaware.descent._gradient import accumulate

    stack = Stack([module] * models, device=goal.device, whole=whole)
    total = torch.zeros_like(stack.theta)
    sizes = [torch.stack([g.square().sum() for g in one.values()]).sum().sqrt() for one in expected]
    norm = max(0.5 * float(min(sizes)), 1e-6)
    given = tuple(torch.cat([item] * models) for item in rows)
    goals = torch.cat([goal] * models)
    squares = accumulate(stack, loss, given, goals, rows=ROWS * models, clip=flat(norm), norm=norm, total=total)
    true, slack = torch.stack(sizes * models), SHORT if short else EXACT
    near = torch.allclose(squares[:, 0].sqrt(), true, rtol=slack, atol=1e-6)
    apart = total.new_zeros(models)
    for slot in stack.slots:
        pairs = zip(expected, sizes, strict=True)
        parts = [one[slot.name] * (norm / size).clamp(max=1) for one, size in pairs]
        want, found = torch.stack(parts).sum(0), stack.view(total, slot)
        apart += (found - want).flatten(1).square().sum(1)
        if not short:
            near = near and torch.allclose(found, want.expand_as(found), rtol=slack, atol=slack * norm)
    return near and bool((apart.sqrt() <= TURNED * ROWS * norm).all())
