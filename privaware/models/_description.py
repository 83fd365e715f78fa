"""What every architecture shares: a small frozen description, checked at birth, that can be written as JSON and built.

A family is one file with one subclass of `Description`: it names its fields, checks them in `__post_init__` and makes
the module in `_module`. Everything else is here.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privaware.errors import WrongInput
from privaware.noise import Rng

if TYPE_CHECKING:
    import torch
    from torch import nn

__all__ = ["ACTIVATIONS", "POOLINGS", "Activated", "Description", "Image", "is_whole", "seeded", "smaller"]

ACTIVATIONS = ("relu", "relu6", "leaky_relu", "elu", "selu", "tanh", "hardtanh", "sigmoid", "tempered")
POOLINGS = ("max", "average")
LARGEST = 2**31
"""No layer is as wide as this; wider ones would be found by the library of tensors, after the charge."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """An architecture as plain values. `name` is the family's file, the other fields are public settings."""

    name: ClassVar[str]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input row."""
        raise WrongInput(f"{self.name}: expected a family that says the shape of one row")

    @property
    def codes(self) -> int | None:
        """For inputs that are whole numbers: how many there are. None for real numbers."""
        return None

    def _module(self) -> nn.Module:
        raise WrongInput(f"{self.name}: expected a family that makes a module")

    def build(self, rng: Rng | np.random.Generator | torch.Generator | None = None, device: Any = None) -> nn.Module:
        """A new module, its weights drawn from `rng`, or from the operating system's entropy where none is given."""
        import torch

        if str(device) == "meta":
            with torch.device("meta"):
                return self._module()
        with seeded(rng):
            module = self._module()
        return module if device is None else module.to(device)

    def describe(self) -> dict[str, Any]:
        """The same thing as JSON values: `build(describe())` makes the same architecture."""
        values = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        return {"name": self.name, **values}

    # Checks. Each reads one field, complains in one sentence, and stores the value in its usual form.

    def _wrong(self, field: str, expected: str) -> WrongInput:
        got = _plain(getattr(self, field))
        return WrongInput(f"{self.name}: expected {field} as {expected}, got {got!r}")

    def _set(self, field: str, value: Any) -> None:
        object.__setattr__(self, field, value)

    def _whole(self, field: str, least: int = 1) -> None:
        value = getattr(self, field)
        if not is_whole(value, least):
            raise self._wrong(field, f"a whole number >= {least}")
        self._set(field, int(value))

    def _wholes(self, field: str, least: int = 1, size: int | None = None) -> None:
        values = getattr(self, field)
        listed = isinstance(values, (list, tuple))
        if not listed or not all(is_whole(v, least) and v < LARGEST for v in values) or size not in (None, len(values)):
            many = "a list of" if size is None else f"{size}"
            raise self._wrong(field, f"{many} whole numbers >= {least} and below {LARGEST}")
        self._set(field, tuple(int(v) for v in values))

    def _share(self, field: str) -> None:
        value = getattr(self, field)
        if not is_real(value) or not 0 <= value < 1:
            raise self._wrong(field, "a number in [0, 1)")
        self._set(field, float(value))

    def _flag(self, field: str) -> None:
        if not isinstance(getattr(self, field), bool):
            raise self._wrong(field, "true or false")

    def _choice(self, field: str, choices: tuple[str, ...]) -> None:
        if getattr(self, field) not in choices:
            raise self._wrong(field, f"one of {', '.join(choices)}")

    def _groups(self, field: str, *channels: int) -> None:
        groups = getattr(self, field)
        if any(groups and c % groups for c in channels):
            some = ", ".join(str(c) for c in channels)
            raise self._wrong(field, f"a number of groups that divides the channels ({some})")


@dataclass(frozen=True, kw_only=True)
class Activated(Description):
    """A description with an activation. `tempered` holds scale, temperature and offset of that one activation."""

    activation: str = "relu"
    tempered: tuple[float, float, float] = (2.0, 2.0, 1.0)

    def __post_init__(self) -> None:
        self._check_activation()

    def _uses_tempered(self) -> bool:
        return self.activation == "tempered"

    def _check_activation(self) -> None:
        self._choice("activation", ACTIVATIONS)
        self._check_tempered()

    def _check_tempered(self) -> None:
        values = self.tempered
        if not isinstance(values, (list, tuple)) or len(values) != 3 or not all(is_real(v) for v in values):
            raise self._wrong("tempered", "three numbers: scale, temperature and offset")
        self._set("tempered", tuple(float(v) for v in values))
        if not self._uses_tempered() and self.tempered != (2.0, 2.0, 1.0):
            raise self._wrong("tempered", "left out unless activation is tempered")

    def describe(self) -> dict[str, Any]:
        """The same thing as JSON values; `tempered` only where it is used."""
        values = super().describe()
        if not self._uses_tempered():
            del values["tempered"]
        return values

    def _activation(self) -> nn.Module:
        from privaware.models._layers import activation

        return activation(self.activation, self.tempered)


@dataclass(frozen=True, kw_only=True)
class Image(Activated):
    """A description of a network for images: `inputs` is (channels, height, width) of one."""

    inputs: tuple[int, int, int]
    outputs: int
    pooling: str = "max"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._wholes("inputs", size=3)
        self._whole("outputs")
        self._choice("pooling", POOLINGS)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inputs


def smaller(size: int, kernel: int, stride: int = 1, padding: int = 0) -> int:
    """One side of an image after a convolution or a pool; zero or less where the image is too small.

    >>> smaller(28, kernel=8, stride=2, padding=2)
    13
    """
    return (size + 2 * padding - kernel) // stride + 1


@contextmanager
def seeded(rng: Rng | np.random.Generator | torch.Generator | None) -> Iterator[None]:
    """Layers made inside draw their weights from `rng`; torch's global generator is afterwards as it was before.

    PyTorch's layers know only the global generator, so it is borrowed. Initial weights hide nothing about any row, so
    the 32 bits that the borrowed generator keeps of its seed are enough.
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


def is_whole(value: Any, least: int) -> bool:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and bool(value >= least)


def is_real(value: Any) -> bool:
    return (
        isinstance(value, (int, float, np.integer, np.floating))
        and not isinstance(value, bool)
        and math.isfinite(value)
    )


def _plain(value: Any) -> Any:
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value
