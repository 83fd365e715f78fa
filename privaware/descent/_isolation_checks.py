"""Check on synthetic examples that examples do not influence one another, and that nothing else remembers them.

Refused are modules and losses in which one example changes another one's loss, modules that change a parameter or a
buffer in a forward pass or draw random numbers that belong to no example, and functions `augment` that mix examples.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from privaware.descent._example_draws import ExampleDraws
from privaware.descent._stack import Stack
from privaware.descent._synthetic_examples import EXAMPLES, Case, flipped, replaced, synthetic_inputs, widened
from privaware.errors import Refused

AUGMENTED = 8
"""Number of synthetic examples with which `check_augment` tries a function."""

WIDTHS = (6.0, 600.0)
"""Lengths of the intervals around 0 from which unusual synthetic values are drawn; usual ones lie in [0, 1]."""

IGNORED = -100
"""Class number that losses of PyTorch ignore by default."""

CROWD = 32
"""Number of synthetic examples with which it is tried whether a module of unknown code mixes larger batches."""

NUMBER_TOLERANCE = 0.05
"""Largest relative difference between losses of an example in batches of different size; it allows for rounding."""


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
        after = augmented(replaced(examples, at, flipped(examples[at])), numbers)
        alike = alike and _near(after[others], before[others])
        for width in () if inputs.is_cuda else WIDTHS:  # a failure on a GPU could end the process
            with contextlib.suppress(Exception):  # a function may raise anything for values that it does not expect
                after = augmented(replaced(examples, at, widened(examples[at], width)), numbers)
                alike = alike and _near(after[others], before[others])
    if not alike:
        raise Refused(
            "the function augment changes an example by other examples, by its place in the batch, or by random "
            "numbers that are not its draws, so no per-example gradient can be bounded; augment each example by itself"
        )


def _near(values: Tensor, others: Tensor) -> bool:
    return torch.allclose(values, others, rtol=1e-5, atol=1e-6, equal_nan=True)


def check_draws(stack: Stack, case: Case) -> None:
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


def check_isolation(cases: Sequence[Case]) -> None:
    """Raise `Refused` if changing the inputs or the target of one example changes another example's loss, or a buffer.

    Each example is changed in turn, because a module may compute with the first or the last example of a batch only. A
    loss may drop an example by comparing it with others, so several other inputs are tried. A loss may compare the
    targets, so they are tried as all 0, as all 1, and as different ones. Buffers are compared once more after the
    weights changed, because a layer may compute them from the weights in its forward passes, as spectral norm does.
    """
    case = cases[0]
    before = _buffers(case)
    mixed = synthetic_inputs([case.targets], EXAMPLES)[0]
    alternating = replaced(case.targets, 1, flipped(case.targets[1]))
    targets = [(each, flipped(each)) for each in (case.targets, flipped(case.targets), alternating, mixed)]
    _expect_alone(case, [tuple(map(flipped, case.inputs)), *(draw.inputs for draw in cases[1:])], targets)
    _expect_equal(before, _buffers(case))
    weights = [(each, each.detach().clone()) for each in case.module.parameters() if each.requires_grad]
    for parameter, values in weights:  # a step of training does that, and may change what a layer derives from weights
        parameter.data = values * torch.linspace(0.5, 1.5, values.numel()).to(values).view_as(values)
    _expect_equal(before, _buffers(case))
    for parameter, values in weights:
        parameter.data = values


def _buffers(case: Case) -> dict[str, Tensor]:
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


def check_crowd(case: Case) -> None:
    """Raise `Refused` if the first of many examples influences the others, because few may be treated otherwise."""
    inputs, targets = synthetic_inputs(case.inputs, CROWD), case.targets[:1].repeat_interleave(CROWD, 0)
    changed = tuple(replaced(items, 0, flipped(items[0])) for items in inputs)
    with torch.no_grad():
        _expect_near(*(case.losses(case.outputs(items), targets)[1:] for items in (inputs, changed)))


def check_number(case: Case) -> None:
    """Raise `Refused` if the loss of an example depends on the number of examples in its batch.

    Then gradients would depend on the size of microbatches, and in a loop of one's own an example could change the
    clipped gradients of all others. The module of `case` is in evaluation mode, because masks of dropout differ.
    """
    inputs = synthetic_inputs(case.inputs, EXAMPLES + CROWD)
    targets = case.targets[:1].repeat_interleave(EXAMPLES + CROWD, 0)
    middle = EXAMPLES // 2
    with torch.no_grad():
        many = case.losses(case.outputs(inputs), targets)[middle]
        few = case.losses(case.outputs(tuple(item[:EXAMPLES] for item in inputs)), targets[:EXAMPLES])[middle]
    if (few - many).abs() > NUMBER_TOLERANCE * many.abs():
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


def check_unusual(cases: Sequence[Case]) -> None:
    """Raise `Refused` if examples influence each other when numbers are large or negative, or classes are ignored.

    Module and loss need not accept such values: where they fail, nothing is found. Copies are tried on the CPU, because
    such a failure on a GPU could end the process.
    """
    usual, other = (tuple(item.cpu() for item in case.inputs) for case in cases[:2])
    zeros = cases[0].targets.cpu()
    trials: list[tuple[Any, list[Any], list[tuple[Tensor, Tensor]]]] = []
    if any(item.is_floating_point() for item in usual):
        wide, wider = (tuple(widened(item, width) for item in other) for width in WIDTHS)
        trials = [(one, [new], [(zeros, zeros)]) for one, new in ((usual, wide), (usual, wider), (wide, usual))]
    trials += [(usual, [], [(zeros, new), (flipped(zeros), new)]) for new in _unusual_targets(zeros)]
    try:
        probe = copy.deepcopy(cases[0].module).cpu()
    except Exception:
        return
    for inputs, others, targets in trials:
        try:
            _expect_alone(Case(probe, cases[0].loss, inputs, zeros), others, targets)
        except Refused:
            raise
        except Exception:  # a module may raise anything for values that it does not expect
            continue


def _unusual_targets(targets: Tensor) -> list[Tensor]:
    if targets.is_floating_point():
        return [widened(synthetic_inputs([targets], EXAMPLES)[0], width) for width in WIDTHS]
    return [torch.full_like(targets, IGNORED)] if targets.dtype == torch.int64 else []


def _expect_alone(case: Case, others: Sequence[tuple[Tensor, ...]], targets: Sequence[tuple[Tensor, Tensor]]) -> None:
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
                changed = case.outputs(tuple(replaced(items, at, new[at]) for items, new in pairs))
                for losses, (values, _) in zip(before, targets, strict=True):
                    expect_near(losses, case.losses(changed, values), at)
            for losses, (values, new) in zip(before, targets, strict=True):
                expect_near(losses, case.losses(outputs, replaced(values, at, new[at])), at)
