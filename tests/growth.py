"""Count the calls of Python functions, which show how a cost grows without measuring time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls(function: Callable[[], Any]) -> int:
    """Return how many functions, of Python and of C, a call of `function` calls."""
    counted = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return counted


def growth(function: Callable[[int], Callable[[], Any]], size: int) -> float:
    """Return the calls for `2 * size` divided by the calls for `size`: 2 for a linear cost, 4 for a quadratic cost.

    `function(size)` prepares the call that is counted. The first call is not counted, because it fills caches.
    """
    function(size)()
    return calls(function(2 * size)) / calls(function(size))
