"""Stored cells, and rows with the published value beside the measured one."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from privaware.papers import Item, Result, Settings

__all__ = ["Cell", "Store", "cell_key", "number", "rows", "spread", "table", "with_published"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of an item: its settings, its result, and `run`: commit, machine, date and seconds."""

    item: str
    settings: Settings
    result: Result
    run: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return cell_key(self.item, self.settings)


def cell_key(item: str, settings: Settings) -> str:
    return f"{item} {json.dumps(settings, sort_keys=True)}"


@dataclass(frozen=True)
class Store:
    """Finished cells, one JSON line each. A line cut short by a kill is left out, and its cell is run again."""

    path: Path

    def read(self) -> dict[str, Cell]:
        if not self.path.exists():
            return {}
        cells: dict[str, Cell] = {}
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                cell = Cell(**json.loads(line))
            except (ValueError, TypeError):
                continue
            cells[cell.key] = cell
        return cells

    def of(self, item: str) -> list[Cell]:
        return [cell for cell in self.read().values() if cell.item == item]

    def add(self, cell: Cell) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        complete = not self.path.exists() or self.path.read_bytes()[-1:] in (b"", b"\n")
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(
                ("" if complete else "\n") + json.dumps(asdict(cell), allow_nan=False, ensure_ascii=False) + "\n"
            )
            file.flush()
            os.fsync(file.fileno())


def spread(values: Iterable[float]) -> tuple[float, float]:
    """Mean and standard deviation; one value has a deviation of 0."""
    listed = list(values)
    return mean(listed), stdev(listed) if len(listed) > 1 else 0.0


def table(title: str, head: Sequence[str], lines: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """A table as a result holds it: strings, without the published column."""
    return {"title": title, "head": list(head), "rows": [[str(value) for value in line] for line in lines]}


def with_published(item: Item, shown: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a stored table, with the paper's column at the end where the item has one for it."""
    head, lines = list(shown["head"]), [list(line) for line in shown["rows"]]
    if not set(item.columns) <= set(head) or not item.published:
        return head, lines
    places = [head.index(name) for name in item.columns]
    keys = [" ".join(line[at] for at in places) for line in lines]
    if not any(key in item.published for key in keys):
        return head, lines
    return [*head, item.published_as], [[*line, str(item.published.get(key, ""))] for line, key in zip(lines, keys)]


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
        return [row for shown in tables for row in _table_rows(item, shown)]
    groups: dict[tuple[Any, ...], list[float]] = {}
    for cell in cells:
        value = cell.result.get(item.measured)
        if value is not None and math.isfinite(value):
            groups.setdefault(tuple(cell.settings.get(name) for name in item.columns), []).append(value)
    out = []
    for label, values in groups.items():
        middle, deviation = spread(values)
        published = item.published.get(" ".join(map(str, label)))
        named = dict(zip(item.columns, label))
        out.append(
            {"item": item.id, **named, "published": published, "measured": middle, "spread": deviation}
            | {"repeats": len(values)}
        )
    return out


def _table_rows(item: Item, shown: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of a stored table; what is measured is its first column behind those of the item."""
    columns = list(item.columns) if set(item.columns) <= set(shown["head"]) else list(shown["head"][:1])
    places = [shown["head"].index(name) for name in columns]
    rest = [at for at in range(len(shown["head"])) if at not in places]
    out = []
    for line in shown["rows"]:
        published = item.published.get(" ".join(line[at] for at in places))
        values = {shown["head"][at]: number(line[at]) for at in rest}
        first = next((value for value in values.values() if value is not None), None)
        out.append(
            {"item": item.id, **{shown["head"][at]: line[at] for at in places}, "published": number(published)}
            | {"measured": first, "values": values, "published_text": published}
        )
    return out
