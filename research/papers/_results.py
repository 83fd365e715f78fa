"""Tables of items, and rows with the published value beside the measured one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from privaware.bench._shown import spread
from privaware.bench._store import Cell
from research.papers import Item

__all__ = ["Repeats", "number", "rows", "shown_rows", "table", "with_published"]


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """The scores of all seeds; as text their mean ± spread, times `factor`, with `digits` decimal places."""

    scores: Sequence[float]
    factor: float = 100.0
    digits: int = 2

    def __str__(self) -> str:
        middle, deviation = spread(self.factor * score for score in self.scores)
        return f"{middle:.{self.digits}f} ± {deviation:.{self.digits}f}"


def table(title: str, head: Sequence[str], lines: Sequence[Sequence[Any]], key: str = "") -> dict[str, Any]:
    """A table as a result holds it: strings and `Repeats`, without published values, which stand in the item.

    `key` begins the names of its rows in `published`, where an item has several tables.
    """
    stored = [[asdict(value) if isinstance(value, Repeats) else str(value) for value in line] for line in lines]
    shown = {"title": title, "head": list(head), "rows": stored}
    return {**shown, "key": key} if key else shown


def shown_rows(stored: Mapping[str, Any]) -> list[list[str]]:
    """The rows of a stored table as text; in older cells all entries are text."""
    return [[value if isinstance(value, str) else str(Repeats(**value)) for value in line] for line in stored["rows"]]


def _label_places(item: Item, shown: Mapping[str, Any]) -> list[int]:
    head = shown["head"]
    known = bool(item.columns) and set(item.columns) <= set(head)
    return [head.index(name) for name in item.columns] if known else [0]


def _published(item: Item, shown: Mapping[str, Any]) -> list[Any]:
    """The published value of every row of a stored table, or None."""
    first = [shown["key"]] if "key" in shown else []
    places = _label_places(item, shown)
    return [item.published.get(" ".join([*first, *(line[at] for at in places)])) for line in shown_rows(shown)]


def with_published(item: Item, shown: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a stored table with the paper's values: in a last column, or, several, in brackets."""
    head, lines, published = list(shown["head"]), shown_rows(shown), _published(item, shown)
    if all(value is None for value in published):
        return head, lines
    if any(isinstance(value, (list, tuple)) for value in published):
        places = [at for at in range(len(head)) if at not in _label_places(item, shown)]
        for line, values in zip(lines, published):
            for at, value in zip(places, values or ()):
                line[at] += f" ({value})"
        return head, lines
    return [*head, item.published_as], [[*line, value or ""] for line, value in zip(lines, published)]


def number(text: Any) -> float | None:
    """The first number of a table's entry.

    >>> number("95.34 ± 0.17"), number("93.10 / 97.54"), number("not run")
    (95.34, 93.1, None)
    """
    if isinstance(text, (int, float)):
        return float(text)
    match = re.search(r"-?\d+(,\d{3})*(\.\d+)?(e[+-]?\d+)?", str(text))
    return float(match[0].replace(",", "")) if match else None


def rows(item: Item, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """One row for each combination of the item's columns, with `published` and `measured`."""
    tables = [shown for cell in cells for shown in cell.result.get("tables", ())]
    if tables:
        values = [pair for cell in cells for pair in cell.result.get("values", {}).items()]
        known = [
            {"item": item.id, "what": name, "published": number(item.published.get(name)), "measured": value}
            for name, value in values
        ]
        return known + [row for shown in tables for row in _table_rows(item, shown)]
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for cell in cells:
        label = tuple(cell.settings.get(name) for name in item.columns)
        groups.setdefault(label, []).append(cell.result if item.measured is None else cell.result.get(item.measured))
    out = []
    for label, values in groups.items():
        middle, deviation = _summary(values)
        published = item.published.get(" ".join(map(_word, label)))
        named = dict(zip(item.columns, label))
        out.append(
            {"item": item.id, **named, "published": published, "measured": middle, "spread": deviation}
            | {"repeats": len(values)}
        )
    return out


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _summary(values: Sequence[Any]) -> tuple[Any, float | None]:
    """Mean and spread of repeats; a value that is a pair has its own, and one of several names has no spread."""
    if isinstance(values[0], Mapping):
        means = {name: value[0] if isinstance(value, list) else value for name, value in values[0].items()}
        return {name: value for name, value in means.items() if isinstance(value, (int, float, dict))}, None
    if isinstance(values[0], list):
        return values[0][0], values[0][1]
    finite = [value for value in values if value is not None and math.isfinite(value)]
    return spread(finite) if finite else (None, None)


def _table_rows(item: Item, shown: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of a stored table; what is measured is the item's `measured` column, or the first that is no label."""
    head, places = shown["head"], _label_places(item, shown)
    rest = [at for at in range(len(head)) if at not in places]
    main = head.index(item.measured) if item.measured in head else rest[0]
    out = []
    for line, published in zip(shown_rows(shown), _published(item, shown)):
        labels = {head[at]: line[at] for at in places}
        several = isinstance(published, (list, tuple))
        out.append(
            {"item": item.id, **labels, "published": [number(v) for v in published] if several else number(published)}
            | {"measured": [number(line[at]) for at in rest] if several else number(line[main])}
            | {"values": {head[at]: number(line[at]) for at in rest}, "published_text": str(published or "")}
        )
    return out
