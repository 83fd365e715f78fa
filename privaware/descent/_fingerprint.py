"""Compute fingerprints of modules and losses. Equal fingerprints mean that a cached setup is still valid.

A fingerprint covers everything a module holds except the values of parameters and buffers: classes, `forward`,
attributes, hooks, training and `requires_grad` flags, and which parameters are shared, with their shapes, types and
devices. An object that may change without notice has no fingerprint, and neither has an object that holds it. Global
variables that a `forward` or a loss reads are assumed to be fixed.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

PLAIN = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type,
    enum.Enum,
    torch.dtype,
    torch.device,
    torch.Size,
    torch.layout,
    torch.memory_format,
)
"""Types of immutable values, which are compared by value."""

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.CodeType, types.MethodDescriptorType)
"""Types of functions, which are compared by identity; a copy of a module shares them with the module."""


GLOBAL_HOOKS = (
    nn.modules.module._global_forward_hooks,
    nn.modules.module._global_forward_pre_hooks,
    nn.modules.module._global_backward_hooks,
    nn.modules.module._global_backward_pre_hooks,
)


class NoFingerprint(Exception):
    """Raised for an object that holds something which may change without notice."""


def module_fingerprint(module: nn.Module) -> tuple[Any, ...]:
    """Return a fingerprint of a module's structure and settings, without the values of parameters and buffers.

    Raise `NoFingerprint` if the module holds an object that may change without notice.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1))
    >>> before = module_fingerprint(net)
    >>> net[1].p = 0.5
    >>> module_fingerprint(net) == before
    False
    """
    walk = _Walk(module)
    return walk.module(module), tuple(map(walk.value, GLOBAL_HOOKS))


def loss_fingerprint(loss: Any) -> Any:
    """Return a fingerprint of a loss: code and closure of a function, or fields of a module or frozen dataclass.

    A `functools.partial` has the fingerprint of its function and arguments; a builtin function is its own. Raise
    `NoFingerprint` for any other loss, and for one that holds an object which may change without notice.
    """
    return _Walk(loss).loss(loss)


class _Walk:
    """Compute a fingerprint by walking over all objects that `root`, a module or a loss, holds.

    Objects get numbers in order of appearance. So an object that holds two equal objects has another fingerprint than
    one that holds the same object twice.
    """

    def __init__(self, root: Any) -> None:
        self.numbers: dict[int, int] = {}
        self.classes: dict[type, Any] = {}
        registered = (*root.parameters(), *root.buffers()) if isinstance(root, nn.Module) else ()
        self.registered = {id(tensor) for tensor in registered}

    def _number(self, value: Any) -> tuple[int, bool]:
        """Return the number of an object in order of appearance, and whether it appears for the first time."""
        new = id(value) not in self.numbers
        return self.numbers.setdefault(id(value), len(self.numbers)), new

    def module(self, module: nn.Module) -> tuple[Any, ...]:
        number, new = self._number(module)
        if not new:
            return ("again", number)
        state = tuple((name, self.value(value)) for name, value in vars(module).items())
        return self._class(type(module)), number, state

    def _class(self, kind: type[nn.Module]) -> Any:
        """Describe a class by its `forward` and public attributes; attributes of torch's own classes are left out."""
        if kind not in self.classes:
            bases = [base for base in kind.__mro__ if base is not object and not base.__module__.startswith("torch.")]
            attributes = [item for base in bases for item in vars(base).items() if not item[0].startswith("_")]
            self.classes[kind] = (kind, kind.forward, tuple((name, self._attribute(v)) for name, v in attributes))
        return self.classes[kind]

    def _attribute(self, value: Any) -> Any:
        """Return a method or property itself, compared by identity, or describe a class variable by value."""
        return value if hasattr(type(value), "__get__") else self.value(value)

    def value(self, value: Any) -> Any:
        """Describe one attribute by what is compared; raise `NoFingerprint` if it may change without notice."""
        kind = type(value)
        if isinstance(value, PLAIN):
            return kind, value
        if isinstance(value, Tensor):
            if id(value) not in self.registered:  # only parameters and buffers are compared or loaded later
                raise NoFingerprint("a tensor that is neither a parameter nor a buffer may change without notice")
            return self._tensor(value)
        if isinstance(value, nn.Module):
            return self.module(value)
        if isinstance(value, dict):
            return kind, tuple((self.value(key), self.value(item)) for key, item in value.items())
        if kind in (tuple, list):
            return kind, tuple(map(self.value, value))
        if kind in (set, frozenset) and all(isinstance(item, PLAIN) for item in value):
            return kind, frozenset(value)
        if isinstance(value, FUNCTIONS):
            return value
        if isinstance(value, weakref.ref):
            return weakref.ref, self.value(value())
        raise NoFingerprint(f"{kind.__name__} may change without notice")

    def _tensor(self, value: Tensor) -> Any:
        """Describe a parameter or buffer by its number, type, shape, device, flags and hooks, but not by its values.

        Raise `NoFingerprint` for a lazy parameter.
        """
        if nn.parameter.is_lazy(value):
            raise NoFingerprint("a lazy parameter is not initialised yet")
        number, _ = self._number(value)
        layout = (value.shape, value.dtype, value.device, value.layout, value.requires_grad, value.is_leaf)
        hooks = self.value(dict(value._backward_hooks or {}))
        return type(value), number, layout, hooks

    def loss(self, loss: Any) -> Any:
        if isinstance(loss, types.FunctionType):
            cells = [cell.cell_contents for cell in loss.__closure__ or ()]
            values = [*cells, *(loss.__defaults__ or ()), *(loss.__kwdefaults__ or {}).values()]
            return loss.__code__, tuple(map(self._held_by_loss, values)), self.value(vars(loss))
        if isinstance(loss, FUNCTIONS):
            return loss
        if type(loss) is functools.partial:
            values = [*loss.args, *loss.keywords.values()]
            return self.loss(loss.func), tuple(loss.keywords), tuple(map(self._held_by_loss, values))
        if isinstance(loss, nn.Module):
            tensors = (*loss.parameters(), *loss.buffers())
            return module_fingerprint(loss), tuple(map(self._version, tensors))
        if dataclasses.is_dataclass(loss) and getattr(type(loss), "__dataclass_params__").frozen:  # noqa: B009
            return type(loss), tuple(self._held_by_loss(value) for value in vars(loss).values())
        raise NoFingerprint(f"{type(loss).__name__} may change without notice")

    def _held_by_loss(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._version(value)
        if callable(value) and not isinstance(value, type):
            return self.loss(value)
        return self.value(value)

    def _version(self, value: Tensor) -> Any:
        return self._tensor(value), _Same(value), value._version


class _Same:
    """A reference that equals another only if both hold the same object.

    It keeps the object alive and has no hash.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    __hash__: Callable[..., int] | None = None  # type: ignore[assignment]
