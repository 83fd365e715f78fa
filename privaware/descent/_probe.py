"""The privacy probe: a module must not mix examples, remember them, or use parameters where no rule can see it.

Before training, the module is run on three synthetic examples (only shapes and types of the inputs are used). Examples
must not influence each other, buffers must not change, and the engine must agree with autograd; else it is refused.
A run with TF32 products is probed with them too: rounding may turn a sum, but no per-example gradient may exceed its
norm. In microbatches of the shape of a run, what is computed for an example must not depend on its slot. In a forward
pass only dropout layers may draw random numbers, because their masks belong to the examples.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from privaware.descent._accumulate import Batch, Loss, accumulate
from privaware.descent._clip import flat
from privaware.descent._example_draws import ExampleDraws
from privaware.descent._fingerprint import NoFingerprint, loss_fingerprint, module_fingerprint
from privaware.descent._layers.rules import stacked
from privaware.descent._losses import example_losses
from privaware.descent._precision import TF32_MARGIN, matmul_precision, tf32_allowed
from privaware.descent._stack import Stack
from privaware.descent._synthetic import synthetic_inputs
from privaware.errors import PrivawareError, Refused

__all__ = ["check_slots", "needs_materialising"]

LOSSES = "privaware.descent._losses"
"""Module whose losses are taken to be fixed code."""

OURS = ("torch.nn.", "privaware.models.")
"""Beginnings of the names of modules whose layers are taken to be fixed code."""

REMEMBERED = 256
"""Structures whose probes are remembered."""

EXAMPLES = 3
"""Synthetic examples of a probe."""

FLOAT32_TOLERANCE = 2e-3
"""Largest relative error of norms and of clipped sums in float32."""

TF32_TOLERANCE = 0.05
"""Largest relative error of norms in TF32 and BF16."""

TF32_ROTATION = 0.25
"""Largest distance of a clipped sum from the true one, as a fraction of `EXAMPLES` times the clipping norm."""

DRAWS = 3
"""Rounding may switch a unit that is nearly off: then other synthetic examples are drawn. A rule that is wrong fails
with all. In float32 that is so rare that all the others must agree."""


@dataclass(frozen=True)
class _Case:
    """A module on synthetic examples."""

    module: nn.Module
    loss: Loss
    inputs: tuple[Tensor, ...]
    targets: Tensor

    def losses(self, inputs: tuple[Tensor, ...]) -> Tensor:
        with torch.random.fork_rng(devices=[self.targets.device] if self.targets.is_cuda else []):
            torch.manual_seed(2**31)
            return example_losses(self.loss, self.module(*inputs), self.targets, [], EXAMPLES)

    def batch(self, models: int) -> Batch:
        """The same examples for each of several models."""
        inputs = tuple(torch.cat([item] * models) for item in self.inputs)
        return Batch(inputs, torch.cat([self.targets] * models), EXAMPLES * models)

    def one_example(self, at: int, models: int) -> Batch:
        targets, *inputs = (torch.cat([item[at : at + 1]] * models) for item in (self.targets, *self.inputs))
        return Batch(tuple(inputs), targets, models)


def needs_materialising(
    module: nn.Module, loss: Loss, inputs: Sequence[Tensor], targets: Tensor, device: Any, models: int = 1
) -> bool:
    """Whether no layer rule gives the module's per-example gradients, so that `torch.func.vmap` has to materialise
    them; refuses what cannot be private at all.

    Rules are compared in float32: TF32 would blur what is right and what is wrong. A run with TF32 may have kernels
    of its own, so it is probed as it is too, with the tolerance that it needs. Modules of equal structure are probed
    once a process.
    """
    key = _structure(module, loss, (*inputs, targets), str(device), models > 1, tf32_allowed())
    if key is None:
        return _probed(module, loss, inputs, targets, device, models)
    if key not in known:
        if len(known) >= REMEMBERED:
            known.clear()
        known[key] = _probed(module, loss, inputs, targets, device, models)
    return known[key]


known: dict[Any, bool] = {}
"""Of structures that were probed before: whether they need materialising."""


def _structure(module: nn.Module, loss: Loss, tensors: Sequence[Tensor], *facts: Any) -> Any:
    """All that a probe depends on, or None where something may change without notice.

    That may be so for all code that is not ours or torch's, and for buffers.
    """
    shapes = tuple((tensor.shape[1:], tensor.dtype) for tensor in tensors)
    kinds = {type(part).__module__ for part in module.modules()}
    ours = getattr(loss, "__module__", "") == LOSSES and all(kind.startswith(OURS) for kind in kinds)
    if not ours or any(True for _ in module.buffers()):
        return None
    try:
        key = (module_fingerprint(module), loss_fingerprint(loss), shapes, *facts)
        hash(key)
    except (NoFingerprint, TypeError):
        return None
    return key


def _probed(module: nn.Module, loss: Loss, inputs: Sequence[Tensor], targets: Tensor, device: Any, models: int) -> bool:
    tf32 = tf32_allowed()
    with matmul_precision("float32"):
        probe = copy.deepcopy(module).to(device)
        for parameter in probe.parameters():  # diverged weights would overflow; structure is probed
            parameter.data.nan_to_num_(0.0).clamp_(-1, 1)
        synthetic_targets = targets.new_zeros((EXAMPLES, *targets.shape[1:]))
        draws = [synthetic_inputs(inputs, EXAMPLES, at) for at in range(DRAWS)]
        cases = [_Case(probe, loss, draw, synthetic_targets) for draw in draws]
        _check_isolation(cases[0])
        probe.eval()
        _autograd_gradients(cases[0])  # refuses parameters without a gradient
        materialise = _choose(cases, (1,) if models == 1 else (1, 2), tf32)
        for part, trained in zip(probe.modules(), module.modules(), strict=True):
            part.training = trained.training
        _check_draws(stacked([probe], device=device, materialise=materialise), cases[0])
        return materialise


def check_slots(
    stack: Stack, loss: Loss, batches: Sequence[Batch], *, bf16: bool = False, tolerance: float = 0.0
) -> None:
    """Refuses if examples that are alike, one in every slot, differ in their norms by more than a share `tolerance`.

    Dropout is left out: each example has masks of its own.
    """
    modes = [(part, part.training) for part in stack.module.modules()]
    stack.module.eval()
    try:
        norms = torch.cat([_example_norms(stack, loss, batch, bf16) for batch in batches], 1)
        alike = bool((norms - norms[:, :1]).abs().le(tolerance * norms[:, :1]).all())
    finally:
        for part, training in modes:
            part.training = training
    if not alike:
        slots = batches[0].examples // stack.models
        raise Refused(
            f"the numbers of an example depend on its slot in a microbatch of {slots}, so that one example "
            "would change how others are rounded; give another microbatch, or 1"
        )


def _check_draws(stack: Stack, case: _Case) -> None:
    """Refuses a forward pass that draws random numbers otherwise than by dropout layers that have a rule.

    Such numbers depend on how many examples came before, and torch's generator would tell how many there were.
    """
    states, outputs = [_generator_states(stack.device)], []
    for _ in range(2):
        draws = ExampleDraws(torch.arange(EXAMPLES, device=stack.device))
        made, _ = stack.forward(case.inputs, EXAMPLES, draws)
        outputs.append([part for part in torch.utils._pytree.tree_leaves(made) if isinstance(part, Tensor)])
        states.append(_generator_states(stack.device))
    moved = any(not torch.equal(one, two) for state in states[1:] for one, two in zip(states[0], state, strict=True))
    pairs = zip(*outputs, strict=True)
    alike = all(torch.allclose(one, two, rtol=1e-3, atol=1e-5, equal_nan=True) for one, two in pairs)
    if moved or not alike:
        raise Refused(
            f"{type(case.module).__name__} draws random numbers in its forward pass that do not belong to an example; "
            "use the dropout layers of torch.nn as modules, and no dropout inside frozen recurrent or attention layers"
        )


def _generator_states(device: torch.device) -> list[Tensor]:
    """The states of torch's generators that a forward pass may draw from."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def _example_norms(stack: Stack, loss: Loss, batch: Batch, bf16: bool) -> Tensor:
    """(models, slots, norms of an example)."""
    unused = stack.theta.new_zeros(stack.models, stack.columns)
    squares = accumulate(stack, loss, batch, flat(1.0), 1.0, unused, bf16=bf16)
    return squares.view(stack.models, -1, squares.shape[1]).nan_to_num_()


def _choose(cases: list[_Case], model_counts: tuple[int, ...], tf32: bool) -> bool:
    """Rules if they agree with autograd, else the fallback if it does, else nothing."""
    problem: Exception | str = ""
    for materialise in (False, True):
        exact = partial(_agrees_in_float32, model_counts=model_counts, materialise=materialise)
        rounded = partial(_agrees_in_tf32, models=model_counts[-1], materialise=materialise)
        try:
            if not exact(cases[0]) and not all(map(exact, cases[1:])):
                continue
            if not tf32 or any(map(rounded, cases)):
                return materialise
            problem = problem or (
                "with the TF32 products of this run they come out too far from what they should be: "
                "use precision='float32'"
            )
        except (PrivawareError, RuntimeError, NotImplementedError) as error:
            problem = problem or error
    raise Refused(
        f"{type(cases[0].module).__name__} uses its parameters in a way whose per-example gradients cannot be computed"
        f"{f' ({problem})' if problem else ''}; build it from layers of torch.nn called as modules"
    )


def _check_isolation(case: _Case) -> None:
    """Changing one example must leave the other examples' losses alone, and no buffer may remember any."""
    module = case.module
    before = {name: value.clone() for name, value in module.named_buffers()}
    changed = tuple(_with_other_example(item) for item in case.inputs)
    with torch.no_grad():
        first, second = (case.losses(inputs) for inputs in (case.inputs, changed))
    if not torch.allclose(first[::2], second[::2], rtol=1e-5, atol=1e-6, equal_nan=True):
        raise Refused(
            "the examples are not independent: changing one example changed another example's loss, so no per-example "
            "gradient can be bounded; remove what computes over the batch dimension"
        )
    for name, value in module.named_buffers():
        if not torch.equal(value, before[name]):
            raise Refused(f"buffer {name!r} changes with the examples, which would release them; freeze it")


def _with_other_example(item: Tensor) -> Tensor:
    changed = item.clone()
    changed[1] = ~item[1] if item.dtype == torch.bool else 1 - item[1]
    return changed


def _autograd_gradients(case: _Case) -> list[dict[str, Tensor]]:
    """Each example's gradients; a trainable parameter without one is refused."""
    named = {name: p for name, p in case.module.named_parameters() if p.requires_grad}
    by_example = []
    for loss in case.losses(case.inputs):
        gradients = torch.autograd.grad(loss, list(named.values()), allow_unused=True, retain_graph=True)
        unused = [name for name, g in zip(named, gradients, strict=True) if g is None]
        if unused:
            raise Refused(
                f"parameter {unused[0]!r} takes no part in the loss and would get noise alone; "
                "freeze it with requires_grad_(False) or remove it"
            )
        by_example.append(dict(zip(named, gradients, strict=True)))
    return by_example


def _agrees_in_float32(case: _Case, model_counts: tuple[int, ...], materialise: bool) -> bool:
    expected = _autograd_gradients(case)
    return all(_agrees(case, expected, materialise, models) for models in model_counts)


def _agrees_in_tf32(case: _Case, models: int, materialise: bool) -> bool:
    """Near autograd in float32, and each example alone keeps its norm."""
    expected = _autograd_gradients(case)
    with matmul_precision("tf32"):
        near = _agrees(case, expected, materialise, models, tf32=True)
        return near and _keeps_norm(case, materialise, models)


def _keeps_norm(case: _Case, materialise: bool, models: int) -> bool:
    """Whether each clipped per-example gradient keeps its norm as it is rounded, up to the margin of a run."""
    stack, norm = stacked([case.module] * models, device=case.targets.device, materialise=materialise), 1e-3
    longest = 0.0
    for at in range(EXAMPLES):
        total = torch.zeros_like(stack.theta)
        accumulate(stack, case.loss, case.one_example(at, models), flat(norm), norm, total)
        longest = max(longest, float(total.norm(dim=1).max()))
    return longest <= norm / (1 - TF32_MARGIN)


def _agrees(case: _Case, expected: list[dict[str, Tensor]], materialise: bool, models: int, tf32: bool = False) -> bool:
    """Whether the engine computes the same norms and clipped sums, for one model or for two alike.

    In float32 each number must be the same, in TF32 the sum as a whole.
    """
    stack = stacked([case.module] * models, device=case.targets.device, materialise=materialise)
    total = torch.zeros_like(stack.theta)
    norms = [torch.stack([g.square().sum() for g in one.values()]).sum().sqrt() for one in expected]
    norm = max(0.5 * float(min(norms)), 1e-6)
    squares = accumulate(stack, case.loss, case.batch(models), flat(norm), norm, total)
    true, tolerance = torch.stack(norms * models), TF32_TOLERANCE if tf32 else FLOAT32_TOLERANCE
    near = torch.allclose(squares[:, 0].sqrt(), true, rtol=tolerance, atol=1e-6)
    distance = total.new_zeros(models)
    for slot in stack.slots:
        pairs = zip(expected, norms, strict=True)
        parts = [one[slot.name] * (norm / size).clamp(max=1) for one, size in pairs]
        want, computed = torch.stack(parts).sum(0), stack.view(total, slot)
        distance += (computed - want).flatten(1).square().sum(1)
        if not tf32:
            near = near and torch.allclose(computed, want.expand_as(computed), rtol=tolerance, atol=tolerance * norm)
    return near and bool((distance.sqrt() <= TF32_ROTATION * EXAMPLES * norm).all())
