"""What the page of `advise` shows: how often `fit` reaches the asked accuracy at the epsilon of the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from privaware.bench._shown import markdown
from privaware.bench._store import Cell
from research.papers._page import Page

__all__ = ["functions"]

ITEM = "advise/case"
CLOSE = 0.03
"""Difference to the asked accuracy that counts as a hit."""
PILOT = 0.2
"""Epsilon of a pilot on a table with enough rows."""


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    """By name, for the template."""
    cells = page.cells(ITEM)

    def hits() -> str:
        groups = {
            "all": cells,
            f"pilot of epsilon {PILOT:g}": [cell for cell in cells if cell.result["pilot"] == PILOT],
            "larger pilot, because the table has few rows": [cell for cell in cells if cell.result["pilot"] > PILOT],
            "2 to 4 classes": [cell for cell in cells if cell.result["classes"] < 5],
            "5 classes or more": [cell for cell in cells if cell.result["classes"] >= 5],
            "the accuracy at epsilon 1 is more than 3 points off": [cell for cell in cells if not _near(cell, "at_1")],
        }
        rows = [[name, *_row(group)] for name, group in groups.items() if group]
        head = ["cases", "tables", "number", "within 3 points", "no epsilon named", "epsilon 1 for all"]
        return markdown([*head, "asked at an epsilon in the 80% interval"], rows)

    def every() -> str:
        head = ["table", "rows", "classes", "pilot", "asked", "reached by `fit` at", "answer", "80% interval"]
        return markdown([*head, "chance", "accuracy there", "within 3 points"], [_line(cell) for cell in cells])

    def cheaper() -> str:
        named = [cell.result["epsilon"] for cell in cells if _near(cell, "reached")]
        below = sum(epsilon < 1 for epsilon in named)
        words = f"{below} of the {len(named)} answers within 3 points are below epsilon 1"
        return f"{words}, and their median is {median(named):g}"

    def commits() -> str:
        return ", ".join(sorted({cell.run["commit"] for item in page.items() for cell in page.cells(item)}))

    def count(item: str, name: str = "table") -> int:
        return len({cell.settings[name] for cell in page.cells(item)})

    return {"hits": hits, "every": every, "cheaper": cheaper, "commits": commits, "count": count}


def _near(cell: Cell, name: str) -> bool:
    value = cell.result[name]
    return value is not None and abs(value - cell.result["asked"]) <= CLOSE + 1e-9


def _covered(cell: Cell) -> bool:
    result = cell.result
    return result["epsilon"] is not None and bool(result["low"] <= cell.settings["asked_at"] <= result["high"])


def _row(cells: Sequence[Cell]) -> list[Any]:
    number, close = len(cells), sum(_near(cell, "reached") for cell in cells)
    unnamed = sum(cell.result["epsilon"] is None for cell in cells)
    one, covered = sum(_near(cell, "at_1") for cell in cells), sum(map(_covered, cells))
    tables = len({cell.settings["table"] for cell in cells})
    return [tables, number, f"{close} ({close / number:.0%})", unnamed, f"{one} ({one / number:.0%})", covered]


def _line(cell: Cell) -> list[Any]:
    result, asked_at = cell.result, cell.settings["asked_at"]
    facts = [cell.settings["table"], f"{result['rows']:,}", result["classes"], f"{result['pilot']:g}"]
    facts += [f"{result['asked']:.2f}", f"{asked_at:g}"]
    if result["epsilon"] is None:
        return [*facts, result["reason"], "", "", "", "no"]
    interval = f"{result['low']:g} to {result['high']:g}"
    hit = "yes" if _near(cell, "reached") else "no"
    return [*facts, f"{result['epsilon']:g}", interval, f"{result['chance']:.2f}", f"{result['reached']:.3f}", hit]
