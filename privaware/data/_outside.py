"""Counts of values that do not fit a schema: columns and numbers only, never a value."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Outside"]

WORDS = {
    "unseen": "not seen in training",
    "outside_bounds": "outside the declared range, clipped to it",
    "no_number": "not a number, treated as missing",
    "no_date": "not a date, treated as missing",
    "no_time": "not a time, treated as missing",
}
"""What happened to a value that does not fit, in words."""
MAX_COLUMNS_SHOWN = 20
"""Largest number of columns that are named, because a table may have thousands."""


@dataclass(frozen=True)
class Outside:
    """How many values of each column are unseen categories, outside the bounds, or of another kind."""

    counts: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, column: str, what: str, mask: np.ndarray) -> None:
        """Count the true entries of `mask` for `column` under `what`."""
        if count := int(np.count_nonzero(mask)):
            of_column = self.counts.setdefault(column, {})
            of_column[what] = of_column.get(what, 0) + count

    def include(self, other: Outside) -> None:
        """Add the counts of `other`."""
        for column, each in other.counts.items():
            of_column = self.counts.setdefault(column, {})
            for what, count in each.items():
                of_column[what] = of_column.get(what, 0) + count

    def sentences(self) -> list[str]:
        """Return one sentence for each column, up to `MAX_COLUMNS_SHOWN` columns.

        >>> outside = Outside()
        >>> outside.add("town", "unseen", np.array([True, False, True]))
        >>> outside.sentences()
        ["'town': 2 values not seen in training"]
        """
        sentences = [
            f"{name!r}: " + "; ".join(f"{count} value{'s' * (count > 1)} {WORDS[what]}" for what, count in each.items())
            for name, each in itertools.islice(self.counts.items(), MAX_COLUMNS_SHOWN)
        ]
        others = len(self.counts) - MAX_COLUMNS_SHOWN
        more = [f"{others} more columns have such values; --json counts them all"] if others > 0 else []
        return sentences + more
