"""What declared bounds cost or gain beside bounds that are bought, with and without closer bounds and bins."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev

from privaware.bench._shown import markdown
from privaware.bench._store import Cell

__all__ = ["ITEM", "declared_bounds", "declared_gain"]

ITEM = "benchmarks/declared_bounds"
METHODS = ("no schema", "declared without bins", "declared")

Scores = dict[tuple[str, float], dict[str, list[float]]]
"""Scores of all seeds by table and epsilon, then by method."""


def declared_bounds(cells: Sequence[Cell]) -> str:
    """A row for each table and epsilon that all methods have: means with their standard errors."""
    rows = [
        [table, f"{epsilon:g}", len(by_method["declared"]), *(_shown(by_method[each]) for each in METHODS)]
        for (table, epsilon), by_method in sorted(_scores(cells).items(), key=lambda item: (item[0][1], item[0][0]))
    ]
    head = ["table", "epsilon", "seeds", "no schema", "declared, without closer bounds and bins", "declared"]
    return markdown(head, rows)


def declared_gain(cells: Sequence[Cell], least: float, method: str) -> str:
    """The mean difference between declared bounds and `method`, from epsilon `least` on."""
    scores = [by_method for (_, epsilon), by_method in _scores(cells).items() if epsilon >= least]
    gains = [mean(each["declared"]) - mean(each[method]) for each in scores]
    ahead = sum(gain >= -0.005 for gain in gains)
    return f"{mean(gains):+.3f} on average, level or ahead in {ahead} of {len(gains)} cells" if gains else ""


def _shown(scores: Sequence[float]) -> str:
    error = f" ± {stdev(scores) / len(scores) ** 0.5:.3f}" if len(scores) > 1 else ""
    return f"{mean(scores):.3f}{error}"


def _scores(cells: Sequence[Cell]) -> Scores:
    found: Scores = {}
    for cell in cells:
        if cell.result["score"] is not None:
            at = (cell.settings["table"], cell.settings["epsilon"])
            found.setdefault(at, {}).setdefault(cell.settings["method"], []).append(cell.result["score"])
    return {at: by_method for at, by_method in found.items() if set(METHODS) <= set(by_method)}
