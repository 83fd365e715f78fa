"""The base of all architectures: a frozen, validated description that can be written as JSON and built.

A family is one module with one subclass of `Description`. The subclass names its fields, checks them in `__post_init__`
and builds the torch module in `_module`.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privaware._validate import expect_count, expect_in, expect_one_of
from privaware.errors import WrongInput
from privaware.noise import Rng

if TYPE_CHECKING:
    import torch
    from torch import nn

ACTIVATIONS = ("relu", "relu6", "leaky_relu", "elu", "selu", "tanh", "hardtanh", "sigmoid", "silu", "tempered")
"""Names of the activations that a description may have."""
POOLINGS = ("max", "average")
"""Names of the kinds of pooling that a description may have."""
WIDTH_LIMIT = 2**31
"""Widths in a list must be below this number; a wider layer would fail only after the charge, when it is built."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """An architecture as plain values: the fields are its settings, and `name` is its module in `privaware.models`."""

    name: ClassVar[str]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input row: the field `inputs` if it is a tuple, or `(inputs,)` if it is a number.

        Raise `WrongInput` if there is no such field.
        """
        inputs: Any = getattr(self, "inputs", None)
        if inputs is None:
            raise WrongInput(f"{self.name}: expected a family that defines the shape of one row")
        return inputs if isinstance(inputs, tuple) else (inputs,)

    @property
    def codes(self) -> int | None:
        """The number of codes if an input row holds integer codes (from 0); None if it holds real numbers."""
        return None

    def _module(self) -> nn.Module:
        raise WrongInput(f"{self.name}: expected a family that builds a module")

    def build(self, rng: Rng | np.random.Generator | torch.Generator | None = None, device: Any = None) -> nn.Module:
        """Return a new module with initial weights from `rng`, by default from the operating system's entropy.

        Parameters
        ----------
        rng : Rng, numpy.random.Generator or torch.Generator, optional
            The source of the initial weights.
        device : optional
            The device of the module, by default the CPU; on "meta" it has shapes but no memory.

        Returns
        -------
        torch.nn.Module
            The module.
        """
        import torch

        if str(device) == "meta":
            with torch.device("meta"):
                return self._module()
        with seeded(rng):
            module = self._module()
        return module if device is None else module.to(device)

    def describe(self) -> dict[str, Any]:
        """Return the description as JSON values, from which `privaware.models.build` builds the same architecture."""
        values = {field.name: _json_value(getattr(self, field.name)) for field in fields(self)}
        return {"name": self.name, **values}

    # Each check raises one sentence about one field, or stores the field in its canonical type.

    def _error(self, field: str, expected: str) -> WrongInput:
        value = _json_value(getattr(self, field))
        return WrongInput(f"{self.name}: expected {field} as {expected}, got {value!r}")

    def _set(self, field: str, value: Any) -> None:
        object.__setattr__(self, field, value)

    def _check_count(self, field: str, least: int = 1) -> None:
        value = getattr(self, field)
        expect_count(self.name, least, **{field: value})
        self._set(field, int(value))

    def _check_counts(self, field: str, least: int = 1, size: int | None = None) -> None:
        values = getattr(self, field)
        is_list = isinstance(values, (list, tuple)) and size in (None, len(values))
        if not is_list or not all(is_count(v, least) and v < WIDTH_LIMIT for v in values):
            count = "a list of" if size is None else f"{size}"
            raise self._error(field, f"{count} whole numbers >= {least} and below {WIDTH_LIMIT}")
        self._set(field, tuple(int(v) for v in values))

    def _check_fraction(self, field: str) -> None:
        value = getattr(self, field)
        expect_in(self.name, "[0, 1)", **{field: value})
        self._set(field, float(value))

    def _check_numbers(self, field: str, sizes: tuple[int, ...], expected: str) -> None:
        values = getattr(self, field)
        if not isinstance(values, (list, tuple)) or len(values) not in sizes or not all(is_finite(v) for v in values):
            raise self._error(field, expected)
        self._set(field, tuple(float(v) for v in values))

    def _check_flag(self, field: str) -> None:
        if not isinstance(getattr(self, field), bool):
            raise self._error(field, "true or false")

    def _check_choice(self, field: str, choices: tuple[str, ...]) -> None:
        expect_one_of(self.name, choices, **{field: getattr(self, field)})

    def _check_groups(self, field: str, *channels: int) -> None:
        groups = getattr(self, field)
        if any(groups and c % groups for c in channels):
            every = ", ".join(str(c) for c in channels)
            raise self._error(field, f"a number of groups that divides the channels ({every})")


@dataclass(frozen=True, kw_only=True)
class Activated(Description):
    """A description with an activation, one of `ACTIVATIONS`.

    `tempered` is the scale, temperature and offset of the activation "tempered". For any other activation, a value
    other than the default raises `WrongInput`.
    """

    activation: str = "relu"
    tempered: tuple[float, float, float] = (2.0, 2.0, 1.0)

    def __post_init__(self) -> None:
        self._check_activation()

    def _uses_tempered(self) -> bool:
        return self.activation == "tempered"

    def _check_activation(self) -> None:
        self._check_choice("activation", ACTIVATIONS)
        self._check_tempered()

    def _check_tempered(self) -> None:
        self._check_numbers("tempered", (3,), "three numbers: scale, temperature and offset")
        if not self._uses_tempered() and self.tempered != (2.0, 2.0, 1.0):
            raise self._error("tempered", "left out unless activation is tempered")

    def describe(self) -> dict[str, Any]:
        """Return the description as JSON values; `tempered` is left out unless an activation is "tempered"."""
        values = super().describe()
        if not self._uses_tempered():
            del values["tempered"]
        return values

    def _activation(self) -> nn.Module:
        from privaware.models._layers import activation

        return activation(self.activation, self.tempered)


@dataclass(frozen=True, kw_only=True)
class ImageDescription(Activated):
    """A description of a network for images: `inputs` is (channels, height, width), and `pooling` one of `POOLINGS`.

    `outputs` is the number of outputs.
    """

    inputs: tuple[int, int, int]
    outputs: int
    pooling: str = "max"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_counts("inputs", size=3)
        self._check_count("outputs")
        self._check_choice("pooling", POOLINGS)


def output_size(size: int, kernel: int, stride: int = 1, padding: int = 0) -> int:
    """Return one side of an image after a convolution or a pool; zero or less if the image is too small.

    >>> output_size(28, kernel=8, stride=2, padding=2)
    13
    """
    return (size + 2 * padding - kernel) // stride + 1


@contextmanager
def seeded(rng: Rng | np.random.Generator | torch.Generator | None) -> Iterator[None]:
    """Return a context in which new layers draw their initial weights from `rng`, or from entropy if `rng` is None.

    PyTorch's layers use only the global generator, so it is seeded inside the context and restored afterwards. Initial
    weights protect no row, so a seed of 32 bits is enough.
    """
    import torch

    seed = _seed(rng)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def _seed(rng: Any) -> int:
    import torch

    source = rng.initial if isinstance(rng, Rng) else rng
    if source is None:
        return secrets.randbits(32)
    if isinstance(source, np.random.Generator):
        return int(source.integers(2**32))
    if isinstance(source, torch.Generator):
        return int(torch.randint(2**32, (), generator=source, device=source.device))
    raise WrongInput(
        f"expected rng as a privaware Rng, a numpy Generator or a torch Generator, got {type(rng).__name__}"
    )


def is_count(value: Any, least: int) -> bool:
    """Return whether `value` is a Python or NumPy integer of at least `least`; False for a bool."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= least)


def is_finite(value: Any) -> bool:
    """Return whether `value` is a finite real number; False for a bool."""
    return (
        isinstance(value, (int, float, np.integer, np.floating))
        and not isinstance(value, bool)
        and math.isfinite(value)
    )


def _json_value(value: Any) -> Any:
    return [_json_value(v) for v in value] if isinstance(value, (list, tuple)) else value
