"""Checks of declared values that columns and schemas share."""

from __future__ import annotations

from typing import Any

from privaware._validate import expect

LARGEST = 1e150
"""Bounds stay below it, so that squares and differences are finite."""


def is_finite(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and -LARGEST <= value <= LARGEST


def are_apart(low: Any, high: Any) -> bool:
    return is_finite(low) and is_finite(high) and float(high) - float(low) >= 1 / LARGEST


def is_count(value: Any, most: int = 10**15) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def is_text(value: Any) -> bool:
    """Whether it is text that a UTF-8 file can hold."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def lists_as_tuples(declared: object, who: str, names: tuple[str, ...]) -> None:
    """Lists become tuples, so that equal facts are equal schemas."""
    for name in names:
        value = getattr(declared, name)
        expect(isinstance(value, (list, tuple)), who, f"{name} as a list", value)
        if isinstance(value, list):
            object.__setattr__(declared, name, tuple(value))
