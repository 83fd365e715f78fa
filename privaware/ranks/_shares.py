"""Divide work into a number of shares that does not depend on the number of ranks, unless there are many ranks."""

from __future__ import annotations

import math

__all__ = ["SHARES", "shares"]

SHARES = 8
"""Least number of shares into which work is divided if ranks compute it together, so that 1 to 8 ranks agree."""


def shares(size: int) -> int:
    """Return the number of shares for `size` ranks: the smallest multiple of `SHARES` that is at least `size`.

    >>> [shares(size) for size in (1, 2, 8, 9)]
    [8, 8, 8, 16]
    """
    return SHARES * math.ceil(size / SHARES)
