"""The coded columns of a declared column: numbers and categories, which are all that a learner sees."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from privaware.schema._column import Column

__all__ = ["CodedColumn", "coded_columns"]

LEVELS = {
    "month": tuple(str(month) for month in range(1, 13)),
    "weekday": tuple(str(day) for day in range(1, 8)),
    "hour": tuple(str(hour) for hour in range(24)),
}
"""Categories of the parts of a date, which are public; weekday 1 is Monday."""


@dataclass(frozen=True, kw_only=True)
class CodedColumn(Column):
    """A number or category that is the part `part` of the declared column `source`.

    The hash buckets of one text together have a squared norm of at most 1.
    """

    source: str = ""
    part: str = ""

    @property
    def of_text(self) -> bool:
        """Whether the column is a hash bucket of a text."""
        return self.part.startswith("slot ")


def coded_columns(column: Column) -> tuple[Column, ...]:
    """Return the numbers and categories that a declared column is coded into.

    A boolean becomes a category, a time a number from 0 to 24 (hours), and a date or text one column for each used
    part. A text that is kept whole, and a column of any other kind, stay as they are.
    """
    if column.kind == "boolean":
        return (replace(column, kind="category", categories=column.categories or ("false", "true")),)
    if column.kind == "time":
        return (replace(column, kind="number", low=0.0, high=24.0),)
    if column.kind in ("date", "text") and not column.is_whole_text:
        return tuple(_part(column, part) for part in column.parts or column.known_parts)
    return (column,)


def _part(column: Column, part: str) -> CodedColumn:
    declared: dict[str, Any] = {
        item.name: getattr(column, item.name)
        for item in fields(Column)
        if item.name not in ("parts", "slots", "certainty")
    }
    named: dict[str, Any] = {"name": f"{column.name} ({part})", "source": column.name, "part": part}
    if part == "days":
        return CodedColumn(**declared | named | {"kind": "number"})
    if column.kind == "text":
        return CodedColumn(**named, low=-1.0, high=1.0)
    missing = "category" if column.missing == "category" else "refuse"
    facts: dict[str, Any] = {
        "kind": "category",
        "categories": LEVELS[part],
        "missing": missing,
        "unseen": column.unseen,
    }
    return CodedColumn(**named, **facts)
