"""Compute clipped gradient sums for custom training loops.

Copies of the last 8 modules, set up for per-example gradients, are cached between calls.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privaware._validate import renamed_keywords
from privaware.descent._accumulate import Batch, Loss, accumulate
from privaware.descent._clip import flat
from privaware.descent._example_draws import ExampleDraws, ExampleKey
from privaware.descent._fingerprint import NoFingerprint, loss_fingerprint, module_fingerprint
from privaware.descent._precision import tf32_allowed
from privaware.descent._stack import Stack
from privaware.descent._training import Prepared, on_device, prepare
from privaware.errors import WrongInput
from privaware.noise import ExampleNumbers


@renamed_keywords(norm="clipping_norm")
def clipped_sum(
    module: nn.Module, loss: Loss, inputs: Any, targets: Any, clipping_norm: float
) -> tuple[dict[str, Tensor], Tensor]:
    """Compute the sum of per-example gradients, each clipped to `clipping_norm`.

    The first call probes the module: it checks per-example gradients on synthetic examples. It caches a copy of the
    module for later calls. A change of the module (except of trainable values), the loss, the shape or type of an
    example, or torch's precision makes the next call probe again. If module or loss hold an object that may change
    without notice, every call probes. `module` is not changed. Dropout masks depend on a draw from torch's generator in
    each call, and on an example's position. The sum has no noise yet. Give its sensitivity a margin for rounding in
    float32: removing one of n examples moves the sum by up to `clipping_norm * n**2 * 2**-23` more (0.8% at n = 256) if
    the shape of the batch and the positions of all other examples stay the same, as `Descent` ensures.

    Parameters
    ----------
    module : nn.Module
        The network.
    loss : callable
        `loss(outputs, targets)` returns one value for each example.
    inputs, targets : array, tensor or tuple of them
        The examples. Only `inputs` may be a tuple, for a module with several inputs.
    clipping_norm : float
        The clipping norm.

    Returns
    -------
    sums : dict of str to Tensor
        The clipped gradient sum of each trainable parameter, by name; zeros without examples.
    norms : Tensor
        The norm of each per-example gradient before clipping, (examples,), in the order of the examples.

    Raises
    ------
    Refused
        If per-example gradients of the module cannot be computed, for example because it mixes examples.
    WrongInput
        If no parameter is trainable, `clipping_norm` is not above 0, or there is not one target for each example.

    Examples
    --------
    >>> net = nn.Linear(2, 1, bias=False)
    >>> _ = nn.init.zeros_(net.weight)
    >>> half_square = lambda outputs, targets: (outputs[:, 0] - targets).square() / 2
    >>> x, y = torch.tensor([[3.0, 4.0], [0.3, 0.4]]), torch.ones(2)
    >>> sums, norms = clipped_sum(net, half_square, x, y, clipping_norm=1.0)
    >>> norms
    tensor([5.0000, 0.5000])
    >>> sums["weight"]
    tensor([[-0.9000, -1.2000]])
    """
    clip = flat(clipping_norm)
    setup, prepared = _set_up(module, loss, inputs, targets)
    stack, examples = prepared.stack, len(prepared.targets)
    total = torch.zeros_like(stack.theta)
    norms = total.new_zeros(0)
    if examples:
        batch = Batch(prepared.inputs, prepared.targets, examples, draws=_draws(stack, examples))
        norms = accumulate(stack, loss, batch, clip, float(clipping_norm), total)[:, 0].sqrt()
    _SETUPS.put(module, setup)
    return {segment.name: stack.view(total, segment)[0] for segment in stack.segments}, norms


def _draws(stack: Stack, examples: int) -> ExampleDraws | None:
    """Return the draws of dropout masks for one call, under a key from torch's generator.

    Torch's generator advances equally for any number of examples. An example's number is its position in the call. If
    the stack has no dropout, return None and leave the generator unchanged.
    """
    if not stack.has_dropout:
        return None
    first, second = torch.randint(2**63 - 1, (2,)).tolist()
    key = ExampleKey(ExampleNumbers(key=(first, second), numbers=np.arange(examples)), stack.device)
    return key.draws(key.numbers, 0)


@dataclass(frozen=True)
class _Setup:
    """A stack that was probed successfully, and in `fingerprint` all facts on which the probe depends.

    These are facts of the module, the loss, torch's settings, and the shapes and types of an example.
    """

    stack: Stack
    fingerprint: Any


def _set_up(module: nn.Module, loss: Loss, inputs: Any, targets: Any) -> tuple[_Setup | None, Prepared]:
    """Return the cached setup of `module` with its present parameters, or a new setup if anything else has changed.

    The second result holds the stack and the examples on its device. The setup is None if it cannot be
    cached, because the module or the loss has no fingerprint. Raise `WrongInput` if no parameter is trainable.
    """
    parameter = next((p for p in module.parameters() if p.requires_grad), None)
    if parameter is None:
        raise WrongInput("expected a module with trainable parameters, got none")
    try:
        settings = (module_fingerprint(module), loss_fingerprint(loss), _context(parameter.device))
    except NoFingerprint:
        return None, prepare([module], loss, inputs, targets, parameter.device)
    setup = _SETUPS.take(module)
    if setup is not None and setup.fingerprint[:-1] == settings:
        prepared = on_device(setup.stack, inputs, targets)
        if setup.fingerprint[-1] == _shapes(prepared) and _same_frozen_values(setup.stack.module, module):
            setup.stack.load([module])
            return setup, prepared
    prepared = prepare([module], loss, inputs, targets, parameter.device)
    return _Setup(prepared.stack, (*settings, _shapes(prepared))), prepared


def _context(device: torch.device) -> tuple[Any, ...]:
    """Return the settings of torch that the probe depends on: TF32, autocast on `device`, and the default type."""
    autocast = torch.is_autocast_enabled(device.type), torch.get_autocast_dtype(device.type)
    return tf32_allowed(), torch.backends.cudnn.allow_tf32, autocast, torch.get_default_dtype()


def _shapes(prepared: Prepared) -> list[Any]:
    """Return shape and type of one example, for each input and then the targets: all that the probe uses of them."""
    return [(item.shape[1:], item.dtype) for item in (*prepared.inputs, prepared.targets)]


def _same_frozen_values(copied: nn.Module, module: nn.Module) -> bool:
    """Return whether buffers and frozen parameters of `module` have the values in the probed copy `copied`."""
    pairs = zip(copied.named_buffers(), module.named_buffers(), strict=True)
    if not all(torch.equal(before, now.to(before.device)) for (_, before), (_, now) in pairs):
        return False
    values = dict(copied.named_parameters())
    frozen = [(values[name], p.detach()) for name, p in module.named_parameters() if not p.requires_grad]
    return all(torch.equal(before, now.to(before.device)) for before, now in frozen)


class _Setups:
    """A cache of the setups of the last `SIZE` modules.

    `take(module)` removes the setup of a module from the cache and returns it, so no two threads use the same setup; it
    returns None if the cache has no setup of the module. `put` stores a setup again, and ignores None.
    """

    SIZE = 8

    def __init__(self) -> None:
        self.by_module: weakref.WeakKeyDictionary[nn.Module, _Setup] = weakref.WeakKeyDictionary()
        self.lock = threading.Lock()

    def take(self, module: nn.Module) -> _Setup | None:
        with self.lock:
            return self.by_module.pop(module, None)

    def put(self, module: nn.Module, setup: _Setup | None) -> None:
        with self.lock:
            if setup is not None:
                self.by_module[module] = setup
            while len(self.by_module) > self.SIZE:
                del self.by_module[next(iter(self.by_module))]


_SETUPS = _Setups()
