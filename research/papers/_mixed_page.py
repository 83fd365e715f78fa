"""What the page of tables with text shows: the score with a further column beside the score without it."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean
from typing import Any

from privaware.bench._shown import markdown
from privaware.bench._store import Cell
from research.papers._page import Page

__all__ = ["functions"]

ITEM = "benchmarks/mixed_tables"
BEFORE = "hashed to columns"
"""The method before texts of tables had features of their own."""
SHOWN = {
    "number": "random number",
    "category": "random category",
    "informative": "informative column",
    "text": "random text",
}


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    """By name, for the template."""
    cells = page.cells(ITEM)
    runs: dict[tuple[str, str, float, str], list[Cell]] = {}
    for cell in cells:
        asked = cell.settings
        runs.setdefault((asked["set"], asked["variant"], asked["epsilon"], asked["method"]), []).append(cell)

    def score(name: str, variant: str, epsilon: float, method: str = "auto") -> float | None:
        found = runs.get((name, variant, epsilon, method), [])
        return mean(cell.result["score"] for cell in found) if found else None

    def table(*variants: str) -> str:
        """A row for each set and epsilon: alone, with each further column, and as it was before."""
        shown = []
        for name, epsilon in sorted({(each[0], each[2]) for each in runs if each[1] in variants}):
            alone = runs[name, "alone", epsilon, "auto"]
            row = [name, f"{epsilon:g}", str(len(alone)), _number(mean(cell.result["constant"] for cell in alone))]
            row.append(_number(score(name, "alone", epsilon)))
            for variant in variants:
                row += [_number(score(name, variant, epsilon, method)) for method in ("auto", BEFORE)]
            shown.append(row)
        head = ["set", "epsilon", "seeds", "constant", "without it"]
        head += [text for each in variants for text in (f"with a {SHOWN[each]}", "before")]
        return markdown(head, shown)

    def loss(*variants: str) -> str:
        """The mean and the largest loss by these columns, over sets and epsilons."""
        losses = [
            (score(name, "alone", epsilon) or 0.0) - (score(name, variant, epsilon) or 0.0)
            for name, variant, epsilon, method in runs
            if variant in variants and method == "auto"
        ]
        return f"{100 * mean(losses):.1f} points on average and {100 * max(losses):.1f} at most" if losses else ""

    def commits() -> str:
        return ", ".join(sorted({cell.run["commit"] for cell in cells}))

    return {"table": table, "loss": loss, "commits": commits}


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
