"""Probe a module before training, on synthetic examples, and refuse it if it cannot be trained privately.

Only the shapes and types of the inputs are used. A module is refused unless all of these hold:

1. Examples do not influence each other's losses, nor does their number, and no parameter or buffer changes in a
   forward pass.
2. The per-example norms and the clipped sums of the engine agree with autograd.
3. With TF32 products, the clipped sums may deviate by rounding, but no clipped per-example gradient exceeds the
   clipping norm by more than `TF32_MARGIN` allows.
4. Only dropout layers draw random numbers in a forward pass, because only their masks belong to single examples.

The probe sees some calls only. A module that behaves otherwise on other values, or after many calls, is not found
(`docs/security.md`).
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from privaware.descent._accumulate import Batch, Loss, accumulate
from privaware.descent._clip import flat
from privaware.descent._example_draws import ExampleDraws
from privaware.descent._fingerprint import NoFingerprint, loss_fingerprint, module_fingerprint
from privaware.descent._layers.dropout import has_dropout
from privaware.descent._layers.rules import stacked
from privaware.descent._losses import example_losses
from privaware.descent._precision import TF32_MARGIN, matmul_precision, tf32_allowed
from privaware.descent._stack import Stack
from privaware.errors import PrivawareError, Refused

LOSS_MODULE = "privaware.descent._losses"
"""Name of the module whose losses are assumed to be fixed code."""

FIXED_CODE = ("torch.nn.", "privaware.models.")
"""Name prefixes of the modules whose layers are assumed to be fixed code."""

MAX_CACHED_PROBES = 256
"""Largest number of structures whose probe results are cached."""

EXAMPLES = 3
"""Number of synthetic examples of a probe."""

AUGMENTED = 8
"""Number of synthetic examples with which `check_augment` tries a function."""

SMALL = 1e-3
"""Trainable values below this are replaced for the probe, because behind a weight of zero nothing would be seen."""

WIDTHS = (6.0, 600.0)
"""Lengths of the intervals around 0 from which unusual synthetic values are drawn; usual ones lie in [0, 1]."""

IGNORED = -100
"""Class number that losses of PyTorch ignore by default."""

FLOAT32_TOLERANCE = 2e-3
"""Largest relative error of norms and of clipped sums in float32."""

TF32_TOLERANCE = 0.05
"""Largest relative error of norms in TF32 and BF16."""

TF32_ROTATION = 0.25
"""Largest distance of a clipped sum from the correct sum, divided by `EXAMPLES` times the clipping norm."""

CROWD = 32
"""Number of synthetic examples with which it is tried whether a module of unknown code mixes larger batches."""

MAX_DRAWS = 3
"""Number of sets of synthetic examples to try, because rounding may switch a unit whose input is almost zero.

A wrong layer rule fails on all sets. In float32, where such a switch is rare, all other sets must agree if the first
fails. In TF32 one set must agree.
"""


def synthetic_inputs(inputs: Sequence[Tensor], examples: int, draw: int = 0) -> tuple[Tensor, ...]:
    """Return as many random examples as `examples` says, one tensor for each of `inputs`, with its shape and type.

    Entries are floats in [0, 1], or the integers 0 and 1. Each number `draw` gives other examples. No value of `inputs`
    is read.

    >>> [item.shape for item in synthetic_inputs([torch.zeros(100, 2)], examples=3)]
    [torch.Size([3, 2])]
    """
    return tuple(_synthetic(item, seed, examples) for seed, item in enumerate(inputs, draw * len(inputs)))


def _synthetic(like: Tensor, seed: int, examples: int) -> Tensor:
    generator = torch.Generator().manual_seed(2**31 + seed)
    shape = (examples, *like.shape[1:])
    if like.is_floating_point():
        return torch.rand(shape, generator=generator, dtype=torch.float64).to(like)
    return torch.randint(2, shape, generator=generator).to(like)


@dataclass(frozen=True)
class _Case:
    """A module with its loss, and `EXAMPLES` synthetic examples (`inputs` and `targets`)."""

    module: nn.Module
    loss: Loss
    inputs: tuple[Tensor, ...]
    targets: Tensor

    def outputs(self, inputs: tuple[Tensor, ...]) -> Any:
        with self._seeded():
            return self.module(*inputs)

    def losses(self, outputs: Any, targets: Tensor) -> Tensor:
        with self._seeded():
            return example_losses(self.loss, outputs, targets, [], len(targets))

    @contextlib.contextmanager
    def _seeded(self) -> Iterator[None]:
        with torch.random.fork_rng(devices=[self.targets.device] if self.targets.is_cuda else []):
            torch.default_generator.manual_seed(2**31)  # `torch.manual_seed` also changes generators of other devices
            if self.targets.is_cuda:
                torch.cuda.manual_seed(2**31)
            yield

    def batch(self, part: slice, models: int) -> Batch:
        """Return the synthetic examples of the slice `part`, repeated for each of `models` models."""
        targets, *inputs = (torch.cat([item[part]] * models) for item in (self.targets, *self.inputs))
        return Batch(tuple(inputs), targets, len(targets))


def needs_materialising(
    module: nn.Module, loss: Loss, inputs: Sequence[Tensor], targets: Tensor, device: Any, models: int = 1
) -> bool:
    """Return whether the layer rules fail for `module`, so that `torch.func.vmap` must materialise its gradients.

    Raise `Refused` if the module cannot be trained privately at all. `inputs` and `targets` give shapes and types only.
    `models` is the number of models in the stack. Layer rules are compared with autograd in float32, because TF32
    errors could hide a wrong rule. A run with TF32 may use other kernels, so it is probed with TF32 too, at a larger
    tolerance. Results are cached by structure, except for a module or loss that may change without notice
    (`_structure`).
    """
    key = _structure(module, loss, (*inputs, targets), str(device), models > 1, tf32_allowed())
    if key is None:
        return _probed(module, loss, inputs, targets, device, models)
    if key not in known:
        if len(known) >= MAX_CACHED_PROBES:
            known.clear()
        known[key] = _probed(module, loss, inputs, targets, device, models)
    return known[key]


known: dict[Any, bool] = {}
"""Cached results of `needs_materialising`, by structure."""


def _structure(module: nn.Module, loss: Loss, tensors: Sequence[Tensor], *facts: Any) -> Any:
    """Return a key of everything that a probe depends on, or None if something may change without notice.

    The key contains `facts`, and the types and the shapes of one example of `tensors` (inputs and targets). Code of
    other packages than torch and this one may change without notice, and so may buffers.
    """
    shapes = tuple((tensor.shape[1:], tensor.dtype) for tensor in tensors)
    ours = getattr(loss, "__module__", "") == LOSS_MODULE and not has_other_code(module)
    if not ours or any(True for _ in module.buffers()):
        return None
    try:
        key = (module_fingerprint(module), loss_fingerprint(loss), shapes, *facts)
        hash(key)
    except (NoFingerprint, TypeError):
        return None
    return key


def has_other_code(module: nn.Module) -> bool:
    """Return whether a forward pass of `module` runs hooks, or code of other packages than torch and this one."""
    parts = list(module.modules())
    hooks = any(part._forward_hooks or part._forward_pre_hooks or part._backward_hooks for part in parts)
    return hooks or not all(type(part).__module__.startswith(FIXED_CODE) for part in parts)


def _probed(module: nn.Module, loss: Loss, inputs: Sequence[Tensor], targets: Tensor, device: Any, models: int) -> bool:
    tf32 = tf32_allowed()
    with matmul_precision("float32"):
        probe = copy.deepcopy(module).to(device)
        for parameter in probe.parameters():  # diverged weights would overflow, and only the structure matters
            parameter.data.nan_to_num_(0.0).clamp_(-1, 1)
        synthetic_targets = targets.new_zeros((EXAMPLES, *targets.shape[1:]))
        draws = [synthetic_inputs(inputs, EXAMPLES, at) for at in range(MAX_DRAWS)]
        cases = [_Case(probe, loss, draw, synthetic_targets) for draw in draws]
        _fill_small(cases[0])
        _check_isolation(cases)
        foreign = has_other_code(probe)
        if foreign:
            _check_crowd(cases[0])
        other_code = foreign or getattr(loss, "__module__", "") != LOSS_MODULE
        if other_code:
            _check_unusual(cases)
        probe.eval()
        _autograd_gradients(cases[0])  # refuses parameters without a gradient
        counts = (1,) if models == 1 else (1, 2)
        materialise = _choose(cases, counts, tf32)
        for part, trained in zip(probe.modules(), module.modules(), strict=True):
            part.training = trained.training
        _check_draws(stacked([probe], device=device, materialise=materialise), cases[0])
        if foreign:
            for part in probe.modules():
                part.training = part.training and not has_dropout(part)
            _choose(cases, counts, tf32, (materialise,))  # other code may compute other gradients in training mode
        if other_code:
            probe.eval()
            _check_number(cases[0])
        return materialise


def _fill_small(case: _Case) -> None:
    """Replace small trainable values of a module by random ones, if its losses then are finite.

    Many modules begin with a last layer or a branch of zeros. Then losses depend neither on other examples nor on
    earlier layers yet, so no check would see what these layers do.
    """
    generator = torch.Generator().manual_seed(2**31)
    given = [(p, p.detach().clone()) for p in case.module.parameters() if p.requires_grad and p.is_floating_point()]
    for parameter, values in given:
        size = 0.5 if values.ndim < 2 else (len(values) / max(values.numel(), 1)) ** 0.5
        random = torch.rand(values.shape, generator=generator, dtype=torch.float64) - 0.5
        random = (random + 0.5 * random.sign()) * size
        parameter.data = torch.where(values.abs() < SMALL, random.to(values), values)
    with torch.no_grad():
        if not case.losses(case.outputs(case.inputs), case.targets).isfinite().all():
            for parameter, values in given:
                parameter.data = values


def check_augment(augment: Callable[[Tensor, ExampleDraws], Tensor], inputs: Tensor, copies: int) -> None:
    """Raise `Refused` unless an example's augmented copies depend on this example and its own random draws only.

    Synthetic examples with the shape and type of `inputs` are augmented, each of them `copies` times. Neither another
    example nor another order may change a copy.
    """
    examples = synthetic_inputs([inputs], AUGMENTED)[0]
    numbers = torch.arange(AUGMENTED * copies, device=inputs.device).view(AUGMENTED, copies)
    order = torch.arange(AUGMENTED, device=inputs.device).roll(3)

    def augmented(shown: Tensor, numbers: Tensor) -> Tensor:
        with torch.random.fork_rng(devices=[inputs.device] if inputs.is_cuda else []):
            changed = augment(shown.repeat_interleave(copies, 0), ExampleDraws(numbers.flatten()))
        wanted = (AUGMENTED * copies, *shown.shape[1:])
        if not isinstance(changed, Tensor) or (changed.shape, changed.dtype) != (wanted, shown.dtype):
            raise Refused(
                "expected the function augment to return a tensor of as many examples as it gets, of the same shape "
                "and type; keep them"
            )
        return changed.unflatten(0, (AUGMENTED, copies))

    before = augmented(examples, numbers)
    alike = _near(augmented(examples[order], numbers[order]), before[order])
    for at in range(AUGMENTED):
        others = [other for other in range(AUGMENTED) if other != at]
        after = augmented(_replaced(examples, at, flipped(examples[at])), numbers)
        alike = alike and _near(after[others], before[others])
        for width in () if inputs.is_cuda else WIDTHS:  # a failure on a GPU could end the process
            with contextlib.suppress(Exception):  # a function may raise anything for values that it does not expect
                after = augmented(_replaced(examples, at, _widened(examples[at], width)), numbers)
                alike = alike and _near(after[others], before[others])
    if not alike:
        raise Refused(
            "the function augment changes an example by other examples, by its place in the batch, or by random "
            "numbers that are not its draws, so no per-example gradient can be bounded; augment each example by itself"
        )


def _near(values: Tensor, others: Tensor) -> bool:
    return torch.allclose(values, others, rtol=1e-5, atol=1e-6, equal_nan=True)


def _check_draws(stack: Stack, case: _Case) -> None:
    """Raise `Refused` if a forward pass changes parameters, or draws random numbers but by dropout layers with a rule.

    Such random numbers depend on how many examples came before, and the state of torch's generator would reveal it.
    """
    states, outputs = [_generator_states(stack.device)], []
    version, theta = stack.theta._version, stack.theta.clone()
    for _ in range(2):
        draws = ExampleDraws(torch.arange(EXAMPLES, device=stack.device))
        output, _ = stack.forward(case.inputs, EXAMPLES, draws)
        outputs.append([part for part in torch.utils._pytree.tree_leaves(output) if isinstance(part, Tensor)])
        states.append(_generator_states(stack.device))
    if stack.theta._version != version or not torch.equal(stack.theta, theta):
        raise Refused(
            f"{type(case.module).__name__} changes its parameters in its forward pass, which would release the "
            "examples without noise; leave max_norm of embeddings off, and change parameters in the optimiser only"
        )
    moved = any(not torch.equal(one, two) for state in states[1:] for one, two in zip(states[0], state, strict=True))
    pairs = zip(*outputs, strict=True)
    alike = all(torch.allclose(one, two, rtol=1e-3, atol=1e-5, equal_nan=True) for one, two in pairs)
    if moved or not alike:
        raise Refused(
            f"{type(case.module).__name__} draws random numbers in its forward pass that do not belong to an example; "
            "use the dropout layers of torch.nn as modules, and no dropout inside frozen recurrent or attention layers"
        )


def _generator_states(device: torch.device) -> list[Tensor]:
    """Return the states of torch's generator on the CPU and, if `device` is a GPU, on `device`."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def _choose(
    cases: list[_Case], model_counts: tuple[int, ...], tf32: bool, choices: Sequence[bool] = (False, True)
) -> bool:
    """Return False if the layer rules agree with autograd, True if only the fallback does; else raise `Refused`.

    Gradients are compared for each number of models in `model_counts`. It is enough if they agree on the first of
    `cases`, or on all others. With `tf32` they must also agree in TF32, on one case at least. Only `choices` are tried.
    """
    problem: Exception | str = ""
    for materialise in choices:
        exact = partial(_agrees_in_float32, model_counts=model_counts, materialise=materialise)
        rounded = partial(_agrees_in_tf32, models=model_counts[-1], materialise=materialise)
        try:
            if not exact(cases[0]) and not all(map(exact, cases[1:])):
                continue
            if not tf32 or any(map(rounded, cases)):
                return materialise
            problem = problem or (
                "with the TF32 products of this run they are too far from the float32 gradients: "
                "use precision='float32'"
            )
        except (PrivawareError, RuntimeError, NotImplementedError) as error:
            problem = problem or error
    raise Refused(
        f"{type(cases[0].module).__name__} uses its parameters in a way whose per-example gradients cannot be computed"
        f"{f' ({problem})' if problem else ''}; build it from layers of torch.nn called as modules"
    )


def _check_isolation(cases: Sequence[_Case]) -> None:
    """Raise `Refused` if changing the inputs or the target of one example changes another example's loss, or a buffer.

    Each example is changed in turn, because a module may compute with the first or the last example of a batch only. A
    loss may drop an example by comparing it with others, so several other inputs are tried. A loss may compare the
    targets, so they are tried as all 0, as all 1, and as different ones. Buffers are compared once more after the
    weights changed, because a layer may compute them from the weights in its forward passes, as spectral norm does.
    """
    case = cases[0]
    before = _buffers(case)
    mixed = synthetic_inputs([case.targets], EXAMPLES)[0]
    alternating = _replaced(case.targets, 1, flipped(case.targets[1]))
    targets = [(each, flipped(each)) for each in (case.targets, flipped(case.targets), alternating, mixed)]
    _expect_alone(case, [tuple(map(flipped, case.inputs)), *(draw.inputs for draw in cases[1:])], targets)
    _expect_equal(before, _buffers(case))
    weights = [(each, each.detach().clone()) for each in case.module.parameters() if each.requires_grad]
    for parameter, values in weights:  # a step of training does that, and may change what a layer derives from weights
        parameter.data = values * torch.linspace(0.5, 1.5, values.numel()).to(values).view_as(values)
    _expect_equal(before, _buffers(case))
    for parameter, values in weights:
        parameter.data = values


def _buffers(case: _Case) -> dict[str, Tensor]:
    """Return copies of all buffers of a module after a forward pass."""
    with torch.no_grad():
        case.outputs(case.inputs)
    return {name: value.clone() for name, value in case.module.named_buffers()}


def _expect_equal(before: dict[str, Tensor], after: dict[str, Tensor]) -> None:
    """Raise `Refused` unless a module has the same buffers as before, bit for bit."""
    for name, value in after.items():
        if name not in before or not torch.equal(value, before[name]):
            raise Refused(
                f"buffer {name!r} changes in forward passes, so it may show the examples or their number; stop its "
                "layer from updating it, or call its eval()"
            )


def _check_crowd(case: _Case) -> None:
    """Raise `Refused` if the first of many examples influences the others, because few may be treated otherwise."""
    inputs, targets = synthetic_inputs(case.inputs, CROWD), case.targets[:1].repeat_interleave(CROWD, 0)
    changed = tuple(_replaced(items, 0, flipped(items[0])) for items in inputs)
    with torch.no_grad():
        _expect_near(*(case.losses(case.outputs(items), targets)[1:] for items in (inputs, changed)))


def _check_number(case: _Case) -> None:
    """Raise `Refused` if the loss of an example depends on the number of examples in its batch.

    Then gradients would depend on the size of microbatches, and in a loop of one's own an example could change the
    clipped gradients of all others. The module of `case` is in evaluation mode, because masks of dropout differ.
    """
    inputs = synthetic_inputs(case.inputs, EXAMPLES + CROWD)
    targets = case.targets[:1].repeat_interleave(EXAMPLES + CROWD, 0)
    middle = EXAMPLES // 2  # `_slot_checks.py` compares the first and the last slot with others
    with torch.no_grad():
        many = case.losses(case.outputs(inputs), targets)[middle]
        few = case.losses(case.outputs(tuple(item[:EXAMPLES] for item in inputs)), targets[:EXAMPLES])[middle]
    if (few - many).abs() > TF32_TOLERANCE * many.abs():
        raise Refused(
            "the loss of an example depends on the number of examples in its batch; do not divide by that number or "
            "multiply by it, because the sum of gradients is divided by sampling_rate * rows"
        )


def _expect_near(losses: Tensor, changed: Tensor) -> None:
    """Raise `Refused` unless the losses of unchanged examples are equal, but for rounding, to those before a change."""
    if not _near(losses.detach(), changed.detach()):
        raise Refused(
            "the examples are not independent: changing one example changed another example's loss, so no "
            "per-example gradient can be bounded; remove what computes over the batch dimension (recurrent layers and "
            "transformers need batch_first=True)"
        )


def _check_unusual(cases: Sequence[_Case]) -> None:
    """Raise `Refused` if examples influence each other when numbers are large or negative, or classes are ignored.

    Module and loss need not accept such values: where they fail, nothing is found. Copies are tried on the CPU, because
    such a failure on a GPU could end the process.
    """
    usual, other = (tuple(item.cpu() for item in case.inputs) for case in cases[:2])
    zeros = cases[0].targets.cpu()
    trials: list[tuple[Any, list[Any], list[tuple[Tensor, Tensor]]]] = []
    if any(item.is_floating_point() for item in usual):
        wide, wider = (tuple(_widened(item, width) for item in other) for width in WIDTHS)
        trials = [(one, [new], [(zeros, zeros)]) for one, new in ((usual, wide), (usual, wider), (wide, usual))]
    trials += [(usual, [], [(zeros, new), (flipped(zeros), new)]) for new in _unusual_targets(zeros)]
    try:
        probe = copy.deepcopy(cases[0].module).cpu()
    except Exception:
        return
    for inputs, others, targets in trials:
        try:
            _expect_alone(_Case(probe, cases[0].loss, inputs, zeros), others, targets)
        except Refused:
            raise
        except Exception:  # a module may raise anything for values that it does not expect
            continue


def _unusual_targets(targets: Tensor) -> list[Tensor]:
    if targets.is_floating_point():
        return [_widened(synthetic_inputs([targets], EXAMPLES)[0], width) for width in WIDTHS]
    return [torch.full_like(targets, IGNORED)] if targets.dtype == torch.int64 else []


def _widened(values: Tensor, width: float) -> Tensor:
    """Return floats in [0, 1] as floats in `[-width / 2, width / 2]`, and other values unchanged."""
    return (values - 0.5) * width if values.is_floating_point() else values


def _expect_alone(case: _Case, others: Sequence[tuple[Tensor, ...]], targets: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Raise `Refused` if the inputs or the target of one example change the loss of another one.

    Each example of `case` gets its inputs in each of `others` in turn, with each of the first tensors of `targets`;
    and then its target in the second tensor. Gradients are enabled as in a training.
    """

    def expect_near(losses: Tensor, changed: Tensor, at: int) -> None:
        kept = [other for other in range(EXAMPLES) if other != at]
        _expect_near(*(each.view(EXAMPLES, -1)[kept] for each in (losses, changed)))

    with torch.enable_grad():
        outputs = case.outputs(case.inputs)
        before = [case.losses(outputs, values) for values, _ in targets]
        for at in range(EXAMPLES):
            for other in others:
                pairs = zip(case.inputs, other, strict=True)
                changed = case.outputs(tuple(_replaced(items, at, new[at]) for items, new in pairs))
                for losses, (values, _) in zip(before, targets, strict=True):
                    expect_near(losses, case.losses(changed, values), at)
            for losses, (values, new) in zip(before, targets, strict=True):
                expect_near(losses, case.losses(outputs, _replaced(values, at, new[at])), at)


def flipped(item: Tensor) -> Tensor:
    return ~item if item.dtype == torch.bool else 1 - item


def _replaced(items: Tensor, at: int, item: Tensor) -> Tensor:
    changed = items.clone()
    changed[at] = item
    return changed


def _autograd_gradients(case: _Case) -> list[dict[str, Tensor]]:
    """Return each example's gradients by autograd; raise `Refused` if a trainable parameter has no gradient."""
    named = {name: p for name, p in case.module.named_parameters() if p.requires_grad}
    by_example = []
    for loss in case.losses(case.outputs(case.inputs), case.targets):
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
    """Return whether TF32 results are near autograd's results in float32, and no clipped gradient is too long.

    A clipped gradient in TF32 may exceed the clipping norm by no more than `TF32_MARGIN` allows. The arguments are as
    in `_agrees`.
    """
    expected = _autograd_gradients(case)
    with matmul_precision("tf32"):
        near = _agrees(case, expected, materialise, models, tf32=True)
        return near and _keeps_norm(case, materialise, models)


def _keeps_norm(case: _Case, materialise: bool, models: int) -> bool:
    """Return whether each clipped per-example gradient in TF32 has a norm of at most `norm / (1 - TF32_MARGIN)`.

    `norm` is 0.001 here. The caller has switched TF32 on. The arguments are as in `_agrees`.
    """
    stack, norm = stacked([case.module] * models, device=case.targets.device, materialise=materialise), 1e-3
    longest = 0.0
    for at in range(EXAMPLES):
        total = torch.zeros_like(stack.theta)
        accumulate(stack, case.loss, case.batch(slice(at, at + 1), models), flat(norm), norm, total)
        longest = max(longest, float(total.norm(dim=1).max()))
    return longest <= norm / (1 - TF32_MARGIN)


def _agrees(case: _Case, expected: list[dict[str, Tensor]], materialise: bool, models: int, tf32: bool = False) -> bool:
    """Return whether norms and clipped sums of the engine agree with `expected`, the gradients of each example by name.

    The engine computes a stack of `models` copies of the module; with `materialise` it uses `torch.func.vmap` instead
    of layer rules. In float32 each entry of the sum must agree. With `tf32` only the norms and the sum as a vector must
    agree, at a larger tolerance.
    """
    stack = stacked([case.module] * models, device=case.targets.device, materialise=materialise)
    total = torch.zeros_like(stack.theta)
    norms = [torch.stack([g.square().sum() for g in one.values()]).sum().sqrt() for one in expected]
    norm = max(0.5 * float(min(norms)), 1e-6)
    squares = accumulate(stack, case.loss, case.batch(slice(None), models), flat(norm), norm, total)
    true, tolerance = torch.stack(norms * models), TF32_TOLERANCE if tf32 else FLOAT32_TOLERANCE
    near = torch.allclose(squares[:, 0].sqrt(), true, rtol=tolerance, atol=1e-6)
    distance = total.new_zeros(models)
    for segment in stack.segments:
        pairs = zip(expected, norms, strict=True)
        parts = [one[segment.name] * (norm / size).clamp(max=1) for one, size in pairs]
        want, computed = torch.stack(parts).sum(0), stack.view(total, segment)
        distance += (computed - want).reshape(models, -1).square().sum(1)
        if not tf32:
            near = near and torch.allclose(computed, want.expand_as(computed), rtol=tolerance, atol=tolerance * norm)
    return near and bool((distance.sqrt() <= TF32_ROTATION * EXAMPLES * norm).all())
