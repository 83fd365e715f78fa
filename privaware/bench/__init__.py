"""The benchmark of `privaware bench`: a grid of learners on public data, its stored cells, tables and page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Result", "Settings"]

Settings = Mapping[str, Any]
"""What one cell is run with: plain JSON values."""
Result = dict[str, Any]
"""What a cell measured: plain JSON values."""
