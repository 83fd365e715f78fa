"""The delta of a guarantee if the user gives none."""

from __future__ import annotations

DEFAULT_DELTA = 1e-5
"""Delta if the user gives none and the number of rows is unknown or below 100,000."""


def default_delta(rows: int) -> float:
    """Return the delta of a guarantee for `rows` rows if the user gives none: `DEFAULT_DELTA`, or less for many rows.

    A mechanism may publish one row with probability delta. Therefore delta is `1 / (10 * rows)` if
    `DEFAULT_DELTA >= 1 / rows`.

    >>> default_delta(500), default_delta(2_000_000)
    (1e-05, 5e-08)
    """
    return DEFAULT_DELTA if DEFAULT_DELTA * rows < 1 else 1 / (10 * rows)
