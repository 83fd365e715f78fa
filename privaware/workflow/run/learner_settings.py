"""Check the settings of a learner or a selector before anything is charged."""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from privaware._validate import suggestion
from privaware.errors import WrongInput
from privaware.mechanism import Mechanism

__all__ = ["Setting", "configured", "described_settings", "setting_names"]

RUNTIME = ("device", "progress", "public", "journal", "workers")
"""Fields of an algorithm that are not settings: where it runs, who listens, and rows."""


def configured(name: str, make: Any, settings: Mapping[str, Any]) -> Mechanism[Any]:
    """Return an instance of `make`, the class of a learner or selector called `name`, with `settings`.

    Raise `WrongInput` for an unknown setting, and for a value of another type or outside the range of its setting.
    """
    known = setting_names(make)
    if unknown := [key for key in settings if key not in known]:
        raise WrongInput(f"{name} has no setting {unknown[0]!r:.80}; {suggestion(unknown[0], known)}")
    hints = get_type_hints(make)
    for key, value in settings.items():
        _expect_kind(f"{name}: {key}", hints[key], value)
    mechanism: Mechanism[Any] = make(**settings)
    return mechanism


def setting_names(make: Any) -> list[str]:
    """Return the names of all fields of `make`, the class of a learner or a selector, including those in `RUNTIME`."""
    return [item.name for item in fields(make)]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting of an algorithm: its `type` as text, its default, the `range` that it accepts, and `what` it is.

    `default` is `dataclasses.MISSING` if the setting is required. `range` and `what` are empty if they are not known.
    """

    name: str
    type: str
    default: Any
    range: str
    what: str

    def json(self) -> dict[str, Any]:
        """Return plain values; a default that is not None, a bool, a number or a text becomes its `repr`."""
        plain = self.default is None or isinstance(self.default, (bool, int, float, str))
        return {**asdict(self), "default": self.default if plain else repr(self.default)}

    @property
    def sentence(self) -> str:
        """Type, default and range in one line, such as "float, default 0.5, from 1e-09 to 1e+09"."""
        default = "none" if self.default is None else "required" if self.default is MISSING else self.default
        return ", ".join(part for part in (self.type, f"default {default}", self.range) if part)


def described_settings(make: Any) -> list[Setting]:
    """Return the settings of the class `make`, without the fields in `RUNTIME`; an empty list if it is no dataclass."""
    if not is_dataclass(make):
        return []
    said = _said(make)
    return [
        Setting(
            name=item.name,
            type=getattr(item.type, "__name__", str(item.type)).replace(" | None", ""),
            default=item.default if item.default_factory is MISSING else item.default_factory(),
            range=_range(make, item.name),
            what=said.get(item.name, ""),
        )
        for item in fields(make)
        if item.init and item.name not in RUNTIME
    ]


def _range(make: Any, name: str) -> str:
    """Return the values that the setting `name` accepts, read from the error message about the value NaN.

    `make` is the class of the algorithm. So the range is stated once, in the check of the algorithm. Return an empty
    text if no message states a range.
    """
    try:
        make(**{name: math.nan})
    except WrongInput as refusal:
        found = re.search(rf"expected {name} (.*), got", str(refusal))
        return found[1].removeprefix("as a finite number ").removeprefix("as ").removeprefix("in ") if found else ""
    except Exception:  # a check of another kind, or a missing setting, which tells no range
        return ""
    return ""


def _said(make: Any) -> dict[str, str]:
    """Return, by setting, what the docstrings of the class `make` and of its base classes say about it.

    They are read from the section `Parameters`. The text of a subclass has precedence.
    """
    said: dict[str, str] = {}
    for base in reversed(inspect.getmro(make)):
        _, _, listed = inspect.cleandoc(base.__doc__ or "").partition("Parameters\n----------\n")
        for names, text in re.findall(r"^(\w[\w, ]*?)(?: *:.*)?\n((?:    .*\n?)+)", listed, flags=re.MULTILINE):
            said |= dict.fromkeys((name.strip() for name in names.split(",")), " ".join(text.split()))
    return said


def _expect_kind(what: str, hint: Any, value: Any) -> None:
    """Raise `WrongInput` if a plain setting does not have the declared type, or is a number that is not finite.

    `hint` is the declared type, and `what` starts the message. So no such error surfaces after the charge. An int is
    accepted for a float. A mapping or sequence must be one, and its entries are not checked. A setting of any other
    type that is not made of bool, int, float, str and None is not checked.
    """
    origin = get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, (Mapping, Sequence)):
        of = Mapping if issubclass(origin, Mapping) else Sequence
        if not isinstance(value, of) or isinstance(value, str):
            raise WrongInput(f"{what} is expected as {'table' if of is Mapping else 'list'}, got {value!r:.80}")
        return
    kinds = get_args(hint) if origin in (Union, UnionType) else (hint,)
    if not set(kinds) <= {bool, int, float, str, type(None)}:
        return
    number = float in kinds and isinstance(value, int) and not isinstance(value, bool)
    finite = not isinstance(value, (int, float)) or abs(value) <= sys.float_info.max
    if not (number or type(value) in kinds) or not finite:
        names = " or ".join("none" if kind is type(None) else kind.__name__ for kind in kinds)
        raise WrongInput(f"{what} is expected as {names}, got {value!r:.80}")
