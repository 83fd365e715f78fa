"""The benchmark of `privaware bench`: a grid of learners on public data, its stored results, tables and page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privaware.errors import PrivawareError

__all__ = ["Result", "Settings", "reason_of"]

Settings = Mapping[str, Any]
"""What one cell is run with: plain JSON values."""
Result = dict[str, Any]
"""What a cell measured: plain JSON values."""


def reason_of(problem: Exception) -> str:
    """Return why a cell or an attack failed: the message of the error on one line, cut to 300 characters.

    The type of the error stands before it, unless it is a `PrivawareError` with a message.
    """
    text = " ".join(str(problem).split())[:300]
    return text if isinstance(problem, PrivawareError) and text else f"{type(problem).__name__}: {text}"
