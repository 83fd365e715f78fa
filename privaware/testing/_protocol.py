"""Protocols checked with a clear sentence: which attribute is missing, and where it is defined."""

from __future__ import annotations

from typing import Any

from privaware.registry import members
from privaware.testing._call import BrokenPromise

__all__ = ["expect_members"]


def expect_members(algorithm: object, protocol: Any) -> None:
    """The algorithm has every public attribute and method that the protocol asks for."""
    missing = [member for member in members(protocol) if not hasattr(algorithm, member)]
    if missing:
        raise BrokenPromise(
            f"{type(algorithm).__name__}: no attribute {missing[0]!r}, which the protocol {protocol.__name__} asks "
            f"for; inherit from {protocol.__module__}.{protocol.__name__}"
        )
