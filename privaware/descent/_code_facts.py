"""Describe the code of functions by plain values.

The descriptions of two functions, even in two processes, are equal only if all of these are equal: their code, the
values in their closures and defaults, and the functions of their own module that they call. Other global variables,
docstrings and comments are not compared.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import types
from typing import Any

import numpy as np
from torch import Tensor

PLAIN = (type(None), bool, int, float, complex, str, bytes)


def code_facts(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """Describe a function by its instructions, closure, defaults and helpers, or an object by its class and fields.

    Parameters
    ----------
    value : Any
        A function, a callable object, or anything that one of them holds.
    inside : tuple of int
        Identities (`id`) of the objects that hold the value; a value that is among them is described as "circle".

    Returns
    -------
    list or str
        Values that JSON can hold.

    >>> code_facts(lambda x: 2 * x) == code_facts(lambda x: 3 * x)
    False
    """
    if isinstance(value, PLAIN):
        return repr(value)
    if id(value) in inside:
        return "circle"
    facts = functools.partial(code_facts, inside=(*inside, id(value)))
    if isinstance(value, Tensor):
        return tensor_digest(value)
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, hashlib.sha256(value.tobytes()).hexdigest()]
    if isinstance(value, types.FunctionType):
        return [value.__qualname__, *map(facts, (value.__code__, *_held(value)))]
    if isinstance(value, types.CodeType):
        return [[step.opname, facts(step.argval)] for step in dis.get_instructions(value)]
    if isinstance(value, types.MethodType):
        return [facts(value.__func__), facts(value.__self__)]
    if isinstance(value, functools.partial):
        return [facts(value.func), facts(value.args), facts(value.keywords)]
    if isinstance(value, dict):
        return [[facts(key), facts(item)] for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [facts(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    return _object_facts(value, facts)


def tensor_digest(values: Tensor) -> list[Any]:
    """Return the type, shape and SHA-256 hash of a tensor."""
    import torch

    plain = values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return [str(values.dtype), list(values.shape), hashlib.sha256(plain.data).hexdigest()]


def _held(function: types.FunctionType) -> tuple[Any, ...]:
    """Return the values in a function's closure, its defaults, and the functions of its own module that it names."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    helpers = [
        item for item in named if isinstance(item, types.FunctionType) and item.__module__ == function.__module__
    ]
    return (cells, function.__defaults__, function.__kwdefaults__, helpers)


def _object_facts(value: Any, facts: Any) -> list[Any]:
    """Describe an object by its class name, the code of its `__call__` and `forward`, and its fields.

    `facts` is the function that describes what the object holds.
    """
    kind = value if isinstance(value, type) else type(value)
    methods = [getattr(kind, name, None) for name in ("__call__", "forward")]
    own = [item for item in methods if isinstance(item, types.FunctionType) and not item.__module__.startswith("torch")]
    fields = {} if isinstance(value, type) else getattr(value, "__dict__", {})
    name = getattr(value, "__qualname__", kind.__qualname__)  # a builtin function has a name of its own
    return [name, *map(facts, own), [[key, facts(item)] for key, item in fields.items()]]
