"""Check the settings of a learner or a selector before anything is charged."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args, get_type_hints

from privaware._validate import suggestion
from privaware.errors import WrongInput
from privaware.mechanism import Mechanism

__all__ = ["configured", "setting_names"]


def configured(name: str, make: Any, settings: Mapping[str, Any]) -> Mechanism[Any]:
    """Build a learner or a selector from `settings`; raise for an unknown name or a value of the wrong type."""
    known = setting_names(make)
    if unknown := [key for key in settings if key not in known]:
        raise WrongInput(f"{name} has no setting {unknown[0]!r:.80}; {suggestion(unknown[0], known)}")
    hints = get_type_hints(make)
    for key, value in settings.items():
        _expect_kind(f"{name}: {key}", hints[key], value)
    mechanism: Mechanism[Any] = make(**settings)
    return mechanism


def setting_names(make: Any) -> list[str]:
    """Return the names of the fields of a learner or a selector."""
    return [item.name for item in fields(make)]


def _expect_kind(what: str, hint: Any, value: Any) -> None:
    """Raise if a plain setting does not have the declared type, so that no such error surfaces after the charge."""
    kinds = get_args(hint) or (hint,)
    if not set(kinds) <= {bool, int, float, str, type(None)}:
        return
    number = float in kinds and isinstance(value, int) and not isinstance(value, bool)
    finite = not isinstance(value, (int, float)) or abs(value) <= sys.float_info.max
    if not (number or type(value) in kinds) or not finite:
        names = " or ".join("none" if kind is type(None) else kind.__name__ for kind in kinds)
        raise WrongInput(f"{what} is expected as {names}, got {value!r:.80}")
