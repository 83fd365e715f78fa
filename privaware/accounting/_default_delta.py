"""The default delta of a guarantee."""

from __future__ import annotations

__all__ = ["DEFAULT_DELTA"]

DEFAULT_DELTA = 1e-5
"""Delta if the user gives none. From 100,000 rows on, `fit` and similar functions use `1 / (10 * rows)` instead."""
