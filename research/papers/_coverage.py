"""What became of each table and figure of the papers: the summary at the end of `privaware reproduce --list`."""

from __future__ import annotations

import re
import statistics
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from privaware.bench._store import Cell, Store
from research.papers import RESULTS, Item
from research.papers._results import rows

__all__ = ["OUTCOMES", "Part", "count_lines", "names_of", "parts"]

OUTCOMES = ("redone", "differs", "cannot be had", "not run", "without results")
"""What may become of a table or figure.

`redone`: every item is run in full. `differs`: other settings, or a part of it. `cannot be had`: something is missing.
`not run`: it could be run. `without results`: it shows an architecture, settings or an illustration.
"""
CLOSE = 0.02
"""Largest difference, as a fraction of the published value, at which a verdict counts two values as close."""
NAMED = re.compile(r"(Table|Figure)s? ([IVX\d]+)(?: and ([IVX\d]+))?")
"""The tables and figures in the title of an item."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A table or figure of a paper, its outcome among `OUTCOMES`, and seeds, verdict or reasons in words."""

    paper: str
    name: str
    outcome: str
    words: str


def parts(items: Sequence[Item], *, whole: bool = True) -> list[Part]:
    """Return the tables and figures that `items` redo, and with `whole` all others of the same papers."""
    found: dict[tuple[str, str], list[Item]] = {}
    papers = {item.paper: None for item in items if item.paper in _declared()}
    for item in items:
        if item.paper in papers and "/finding/" not in item.id:
            for kind, *numbers in NAMED.findall(re.sub(r":[^(]*", "", item.title)):  # before the colon, or in brackets
                for number in filter(None, numbers):
                    found.setdefault((item.paper, f"{kind} {number}"), []).append(item)
    shown: list[Part] = []
    for paper in papers:
        facts = _declared()[paper]
        reasons = facts["without_results"]
        for name in names_of(paper):
            if name in reasons and whole:
                shown.append(Part(paper=paper, name=name, outcome="without results", words=reasons[name]))
            elif name not in reasons and (paper, name) in found:
                outcome, words = _outcome(found[paper, name], facts.get("differs", {}).get(name))
                shown.append(Part(paper=paper, name=name, outcome=outcome, words=words))
    return shown


def names_of(paper: str) -> list[str]:
    """Return the names of all tables and figures of `paper`, such as "Table IV" and "Figure 3"."""
    facts = _declared()[paper]
    number: Callable[[int], str] = _roman if facts.get("roman") else str
    tables = [f"Table {number(at)}" for at in range(1, facts["tables"] + 1)]
    return tables + [f"Figure {at}" for at in range(1, facts["figures"] + 1)]


def count_lines(shown: Iterable[Part]) -> list[str]:
    """Return one line for each paper with the number of its tables and figures of each outcome."""
    counts: dict[str, Counter[str]] = {}
    for part in shown:
        counts.setdefault(part.paper, Counter())[part.outcome] += 1
    return [
        f"{paper}: " + ", ".join(f"{outcome} {count[outcome]}" for outcome in OUTCOMES if count[outcome])
        for paper, count in counts.items()
    ]


@cache
def _declared() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("coverage.toml").read_text(encoding="utf-8"))


@cache
def _cells(page: str) -> tuple[Cell, ...]:
    cells = Store(RESULTS / page / "cells.jsonl").read().values()
    return tuple(cell for cell in cells if "failed" not in cell.result)


def _outcome(items: Sequence[Item], difference: str | None) -> tuple[str, str]:
    """Return the outcome of one table or figure from its `items`, and seeds, verdict and reasons in words.

    `difference` says how the runs differ from the published ones, if they do.
    """
    states = {_status(item) for item in items}
    reasons = [*([difference] if difference else []), *_reasons(items)]
    if states == {"open"} and not difference:
        return "cannot be had", "; ".join(reasons)
    if states <= {"open", "ready"}:
        return "not run", "; ".join(reasons)
    measured = [*filter(None, (_seeds(items), _verdict(items)))] or ["the page has the numbers"]
    return ("differs" if reasons else "redone"), "; ".join(measured + reasons)


def _status(item: Item) -> str:
    """Return the status of `item`; a figure or table that a page makes from the cells of other items is `derived`."""
    drawn = (RESULTS / item.paper / f"{item.id.split('/', 1)[1]}.svg").exists()
    derived = drawn or any("table" in settings for settings in item.runs)
    return "derived" if item.status == "ready" and derived else item.status


def _reasons(items: Sequence[Item]) -> list[str]:
    """Return in words why `items` are not full runs as published; items with the same reason are named together."""
    groups: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        groups.setdefault((_status(item), item.note), []).append(item)
    words: list[str] = []
    outdated = [item.id.split("/", 1)[1] for item in items if item.is_outdated]
    if outdated:
        words.append(f"measured with earlier settings, not with those of the item: {', '.join(outdated)}")
    for (status, note), members in groups.items():
        listed = ", ".join(item.id.split("/", 1)[1] for item in members)
        cells = f"{sum(item.measured_cells for item in members)} of {sum(len(item.runs) for item in members)} cells"
        said = {
            "measured": note,
            "partly": cells + (f" ({note})" if note else ""),
            "derived": f"{listed} from the cells that are run",
            "ready": f"not run: {listed}" + (f" ({note})" if note else ""),
            "open": f"missing: {listed} ({note})",
        }[status]
        words += [said] if said else []
    return words


def _cells_of(item: Item) -> list[Cell]:
    return [cell for cell in _cells(item.page or item.paper) if cell.item == item.id]


def _seeds(items: Sequence[Item]) -> str:
    """Return the least and the largest number of seeds, or repeats, of the items that state one."""
    numbers: list[int] = []
    for item in items:
        cells = _cells_of(item)
        stated = [cell.settings.get("seeds") or cell.settings.get("repeats") for cell in cells]
        numbers += [max(filter(None, stated))] if any(stated) else []
        several = {cell.settings["seed"] for cell in cells if "seed" in cell.settings}
        numbers += [len(several)] if several else []
    if not numbers:
        return ""
    least, most = min(numbers), max(numbers)
    return (f"{least} to {most}" if least < most else str(most)) + (" seed" if most == 1 else " seeds")


def _verdict(items: Sequence[Item]) -> str:
    """Return how many measured values are close to the published ones, and the median difference in per cent."""
    differences = [
        measured / published - 1
        for item in items
        for row in rows(item, _cells_of(item))
        for measured, published in _pairs(row["measured"], row["published"])
        if published
    ]
    if not differences:
        return ""
    close = sum(abs(difference) <= CLOSE for difference in differences)
    middle = 100 * statistics.median(differences)
    return f"{close} of {len(differences)} values within 2% of the published, median difference {middle:+.1f}%"


def _pairs(measured: Any, published: Any) -> Iterator[tuple[float, float]]:
    """Yield the pairs of a measured and a published number; values of other forms have none."""
    if isinstance(measured, (list, tuple)) and isinstance(published, (list, tuple)):
        for one, other in zip(measured, published):
            yield from _pairs(one, other)
    elif isinstance(measured, (int, float)) and isinstance(published, (int, float)):
        yield float(measured), float(published)


def _roman(number: int) -> str:
    """Return `number`, below 40, as a Roman numeral.

    >>> [_roman(number) for number in (4, 9, 18, 31)]
    ['IV', 'IX', 'XVIII', 'XXXI']
    """
    ones = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
    return "X" * (number // 10) + ones[number % 10]
