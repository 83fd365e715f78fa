"""What the page of tables with text or images shows: the score with a further column beside the score without it."""

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
IMAGES = ("digits", "fashion_mnist")
"""The sets of images."""
SHOWN = {
    "number": "a random number",
    "category": "a random category",
    "informative": "an informative column",
    "text": "a random text",
}


Runs = dict[tuple[str, str, float, str], dict[int, Cell]]
"""Cells by set, variant, epsilon and method, then by seed."""


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    """By name, for the template."""
    cells = page.cells(ITEM)
    runs: Runs = {}
    for cell in cells:
        asked = cell.settings
        key = (asked["set"], asked["variant"], asked["epsilon"], asked["method"])
        runs.setdefault(key, {})[asked["seed"]] = cell

    def table(*variants: str, images: bool = False) -> str:
        """A row for each set and epsilon, over seeds that have all columns: alone, with each column, and before.

        Sets of `images` are shown alone; they have no column "before".
        """
        shown, methods = [], ("auto",) if images else ("auto", BEFORE)
        sets = {(each[0], each[2]) for each in runs if each[1] in variants and (each[0] in IMAGES) == images}
        for name, epsilon in sorted(sets):
            seeds = _common(runs, name, epsilon, ("alone", *variants))
            alone = runs.get((name, "alone", epsilon, "auto"), {})
            constant = [cell.result["constant"] for seed, cell in alone.items() if seed in seeds]
            row = [name, f"{epsilon:g}", str(len(seeds)), _number(constant)]
            row.append(_number(_scores(runs, (name, "alone", epsilon, "auto"), seeds)))
            for variant in variants:
                for method in methods:
                    row.append(_number(_scores(runs, (name, variant, epsilon, method), seeds)))
            if seeds:
                shown.append(row)
        head = ["set", "epsilon", "seeds", "constant", "without it"]
        head += [text for each in variants for text in (f"with {SHOWN[each]}", "before")[: len(methods)]]
        return markdown(head, shown)

    def loss(*variants: str, images: bool = False) -> str:
        """The mean and the largest loss by these columns, over sets (of `images` or not) and epsilons.

        Each loss is a mean over seeds.
        """
        losses = []
        for name, variant, epsilon, method in runs:
            if variant in variants and method == "auto" and (name in IMAGES) == images:
                seeds = _common(runs, name, epsilon, ("alone", variant))
                alone, beside = (_scores(runs, (name, each, epsilon, "auto"), seeds) for each in ("alone", variant))
                losses += [mean(alone) - mean(beside)] if seeds else []
        return f"{100 * mean(losses):.1f} points on average and {100 * max(losses):.1f} at most" if losses else ""

    def commits() -> str:
        return ", ".join(sorted({cell.run["commit"] for cell in cells}))

    return {"table": table, "loss": loss, "commits": commits}


def _common(runs: Runs, name: str, epsilon: float, variants: tuple[str, ...]) -> set[int]:
    """The seeds with which `auto` ran on all these variants."""
    found = [set(runs.get((name, variant, epsilon, "auto"), {})) for variant in variants]
    return set.intersection(*found)


def _scores(runs: Runs, key: tuple[str, str, float, str], seeds: set[int]) -> list[float]:
    return [cell.result["score"] for seed, cell in runs.get(key, {}).items() if seed in seeds]


def _number(values: list[float]) -> str:
    return f"{mean(values):.3f}" if values else ""
