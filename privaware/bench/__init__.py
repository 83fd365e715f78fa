"""The benchmark of `privaware bench`: a grid of learners on public data, its stored cells, tables and page."""

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
    """Return why a cell or an attack failed, in one line of at most 300 characters after the type of the error.

    The type is named for errors of other packages and for errors without a message only.
    """
    text = " ".join(str(problem).split())[:300]
    return text if isinstance(problem, PrivawareError) and text else f"{type(problem).__name__}: {text}"
