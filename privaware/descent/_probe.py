"""Probe a module before training, on synthetic examples, and refuse it if it cannot be trained privately.

Only the shapes and types of the inputs are used. A module is refused unless all of these hold:

1. Examples do not influence each other's losses, nor does their number, and no parameter or buffer changes in a
   forward pass. Only dropout layers draw random numbers there, because only their masks belong to single examples
   (`_isolation_checks.py`).
2. The per-example norms and the clipped sums of the engine agree with autograd (`_gradient_checks.py`).

The probe sees some calls only. A module that behaves otherwise on other values, or after many calls, is not found
(`docs/security.md`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from privaware.descent._accumulate import Loss
from privaware.descent._fingerprint import NoFingerprint, loss_fingerprint, module_fingerprint
from privaware.descent._gradient_checks import autograd_gradients, choose_gradients
from privaware.descent._isolation_checks import check_crowd, check_draws, check_isolation, check_number, check_unusual
from privaware.descent._layers.dropout import without_dropout
from privaware.descent._layers.rules import stacked
from privaware.descent._precision import matmul_precision, tf32_allowed
from privaware.descent._synthetic_examples import EXAMPLES, Case, synthetic_inputs

LOSS_MODULE = "privaware.descent._losses"
"""Name of the module whose losses are assumed to be fixed code."""

FIXED_CODE = ("torch.nn.", "privaware.models.")
"""Name prefixes of the modules whose layers are assumed to be fixed code."""

MAX_CACHED_PROBES = 256
"""Largest number of structures whose probe results are cached."""

SMALL = 1e-3
"""Trainable values below this are replaced for the probe, because behind a weight of zero nothing would be seen."""

MAX_DRAWS = 3
"""Number of sets of synthetic examples to try, because rounding may switch a unit whose input is almost zero.

A wrong layer rule fails on all sets. In float32, where such a switch is rare, all other sets must agree if the first
fails. In TF32 one set must agree.
"""


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
        cases = [Case(probe, loss, draw, synthetic_targets) for draw in draws]
        _fill_small(cases[0])
        check_isolation(cases)
        foreign = has_other_code(probe)
        if foreign:
            check_crowd(cases[0])
        other_code = foreign or getattr(loss, "__module__", "") != LOSS_MODULE
        if other_code:
            check_unusual(cases)
        probe.eval()
        autograd_gradients(cases[0])  # refuses parameters without a gradient
        counts = (1,) if models == 1 else (1, 2)
        materialise = choose_gradients(cases, counts, tf32)
        for part, trained in zip(probe.modules(), module.modules(), strict=True):
            part.training = trained.training
        check_draws(stacked([probe], device=device, materialise=materialise), cases[0])
        if foreign:
            with without_dropout(probe):  # other code may compute other gradients in training mode
                choose_gradients(cases, counts, tf32, (materialise,))
        if other_code:
            probe.eval()
            check_number(cases[0])
        return materialise


def _fill_small(case: Case) -> None:
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
