"""Compare per-example gradients of the engine with autograd, on synthetic examples.

The squared norms and the clipped sums must agree. With TF32 products, clipped sums may deviate by rounding, but no
clipped per-example gradient may exceed the clipping norm by more than `TF32_MARGIN` allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from privaware.descent._accumulate import accumulate
from privaware.descent._clip import flat
from privaware.descent._layers.rules import stacked
from privaware.descent._precision import TF32_MARGIN, matmul_precision
from privaware.descent._synthetic_examples import EXAMPLES, Case
from privaware.errors import PrivawareError, Refused

FLOAT32_TOLERANCE = 2e-3
"""Largest relative error of norms and of clipped sums in float32."""

TF32_TOLERANCE = 0.05
"""Largest relative error of norms in TF32 and BF16."""

TF32_ROTATION = 0.25
"""Largest distance of a clipped sum from the correct sum, divided by `EXAMPLES` times the clipping norm."""


def choose_gradients(
    cases: list[Case], model_counts: tuple[int, ...], tf32: bool, choices: Sequence[bool] = (False, True)
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


def autograd_gradients(case: Case) -> list[dict[str, Tensor]]:
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


def _agrees_in_float32(case: Case, model_counts: tuple[int, ...], materialise: bool) -> bool:
    expected = autograd_gradients(case)
    return all(_agrees(case, expected, materialise, models) for models in model_counts)


def _agrees_in_tf32(case: Case, models: int, materialise: bool) -> bool:
    """Return whether TF32 results are near autograd's results in float32, and no clipped gradient is too long.

    A clipped gradient in TF32 may exceed the clipping norm by no more than `TF32_MARGIN` allows. The arguments are as
    in `_agrees`.
    """
    expected = autograd_gradients(case)
    with matmul_precision("tf32"):
        near = _agrees(case, expected, materialise, models, tf32=True)
        return near and _keeps_norm(case, materialise, models)


def _keeps_norm(case: Case, materialise: bool, models: int) -> bool:
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


def _agrees(case: Case, expected: list[dict[str, Tensor]], materialise: bool, models: int, tf32: bool = False) -> bool:
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
