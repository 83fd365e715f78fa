"""Counts of values that do not fit a schema: columns and numbers only, never a value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from privaware.data._values import quoted
from privaware.errors import WrongInput
from privaware.schema import Column

WORDS = {
    "unseen": "not among the categories that the model knows (new, or too rare in training to be released), treated as "
    "one other category",
    "outside_bounds": "outside the range that the model knows, clipped to it",
    "no_number": "not a number, treated as missing",
    "no_date": "not a date, treated as missing",
    "no_time": "not a time, treated as missing",
    "missing": "missing",
    "empty_file": "read from empty files, treated as missing",
}
"""What happened to a value that does not fit, in words."""
UNREADABLE = {"no_number": "numbers", "no_date": "dates", "no_time": "times"}
"""Counts of values that could not be read, and what was expected."""
MAX_UNREADABLE = 0.5
"""Largest fraction of the values of a column that may be unreadable."""
MIN_EMPTY_ROWS = 20
"""Smallest number of rows in which a column without any value may be a mistake; fewer rows may all lack a value."""
MAX_COLUMNS_SHOWN = 20
"""Largest number of columns that are named, because a table may have thousands."""


@dataclass(frozen=True)
class Outside:
    """How many values of each column do not fit its schema: missing, unseen, out of bounds, or of another kind.

    `counts` has these numbers by name of column and by key of `WORDS`. `present` has the number of values that are not
    missing, by name of column. `ranges` has the ends of the range that the schema gives for a column with values
    outside it, as texts, by name of column. For columns of texts only missing values are counted, and for columns of
    images nothing. The missing texts of a folder of texts also count as "empty_file".
    """

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    present: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, column: str, what: str, mask: np.ndarray) -> None:
        """Count the true entries of `mask` for `column` under `what`, a key of `WORDS`."""
        if count := int(np.count_nonzero(mask)):
            self._add(column, what, count)

    def add_outside(self, column: Column, mask: np.ndarray) -> None:
        """Count the true entries of `mask`: values of `column`, of numbers or dates, that are outside its range."""
        self.add(column.name, "outside_bounds", mask)
        if mask.any() and column.low is not None and column.high is not None:
            low, high = (_shown(end, column.kind) for end in (column.low, column.high))
            self.ranges[column.name] = (low, high)

    def add_missing(self, column: str, missing: np.ndarray) -> None:
        """Count the missing values of `column`, the true entries of the mask `missing`, and the other values."""
        self.add(column, "missing", missing)
        self._add_present(column, len(missing) - int(np.count_nonzero(missing)))

    def empty_columns(self) -> list[str]:
        """Return the columns without any value in at least `MIN_EMPTY_ROWS` rows."""
        return [
            column
            for column, each in self.counts.items()
            if each.get("missing", 0) >= MIN_EMPTY_ROWS and not self.present.get(column, 0)
        ]

    def expect_readable(self) -> None:
        """Raise `WrongInput` for the first column in which more than `MAX_UNREADABLE` of the values cannot be read.

        These are values that are no number, date or time where the column's kind needs one, as a fraction of the values
        that are not missing.
        """
        for column, each in self.counts.items():
            for what, expected in UNREADABLE.items():
                wrong, present = each.get(what, 0), self.present.get(column, 0)
                if wrong > MAX_UNREADABLE * present:
                    raise WrongInput(
                        f"column {quoted(column)}: expected {expected}, but {wrong} of {present} values cannot be "
                        "read so; check the column, --sep and --decimal, or count them as missing "
                        "with --allow-unreadable=True"
                    )

    def include(self, other: Outside) -> None:
        """Add the counts of `other` to this object."""
        self.ranges.update(other.ranges)
        for column, count in other.present.items():
            self._add_present(column, count)
        for column, each in other.counts.items():
            for what, count in each.items():
                self._add(column, what, count)

    def _add_present(self, column: str, count: int) -> None:
        self.present[column] = self.present.get(column, 0) + count

    def _add(self, column: str, what: str, count: int) -> None:
        of_column = self.counts.setdefault(column, {})
        of_column[what] = of_column.get(what, 0) + count

    def sentences(self, rows: int) -> list[str]:
        """Return a sentence for each of the first `MAX_COLUMNS_SHOWN` columns with counts, and one about any others.

        Missing values are named only in columns where they are more than half of the values of all `rows`.

        >>> outside = Outside()
        >>> outside.add("town", "unseen", np.array([True, False, True]))
        >>> outside.sentences(3)[0][:49]
        "'town': 2 values not among the categories that th"
        """
        named = {
            name: {what: count for what, count in each.items() if what != "missing" or 2 * count > rows}
            for name, each in self.counts.items()
        }
        columns = [(name, each) for name, each in named.items() if each]
        sentences = [
            f"{name!r}: "
            + "; ".join(f"{count} value{'s' * (count > 1)} {self._words(name, what)}" for what, count in each.items())
            for name, each in columns[:MAX_COLUMNS_SHOWN]
        ]
        others = len(columns) - MAX_COLUMNS_SHOWN
        if others > 0:
            sentences.append(f"{others} more columns have such values; `privaware predict --json` counts them all")
        return sentences

    def mostly_outside(self, rows: int) -> list[str]:
        """Return a sentence for each column in which more than half of the values of all `rows` are outside the range.

        >>> Outside({"weight": {"outside_bounds": 3}}, ranges={"weight": ("20", "200")}).mostly_outside(4)[0][:75]
        "Most values of 'weight' (3 of 4 rows) are outside the range 20 to 200, with"
        """
        mostly = [
            (name, each["outside_bounds"])
            for name, each in self.counts.items()
            if 2 * each.get("outside_bounds", 0) > rows and name in self.ranges
        ]
        return [
            f"Most values of {name!r} ({count} of {rows} rows) are outside the range {' to '.join(self.ranges[name])}, "
            "with which the model was trained, and were replaced by the nearest end of this range. So the predictions "
            "may be wrong: check that the column has the same meaning and unit (such as kg, not lb) as in training."
            for name, count in mostly[:MAX_COLUMNS_SHOWN]
        ]

    def _words(self, column: str, what: str) -> str:
        """Return `WORDS[what]`, with the range of `column` if it is known and values are outside it."""
        if what != "outside_bounds" or column not in self.ranges:
            return WORDS[what]
        return f"outside the range that the model knows ({' to '.join(self.ranges[column])}), clipped to it"


def _shown(end: float, kind: str) -> str:
    """Return the end of a range as text; the end of a range of dates is a number of days since 1970."""
    return str(np.datetime64(math.floor(end), "D")) if kind == "date" else f"{end:.6g}"
