"""What the page of unseen tables shows: the share of the plain gain that `auto` keeps, and where it is too low."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean
from typing import Any

from privaware.bench._shown import markdown
from privaware.bench._store import Cell
from research.papers._page import Page, measured_at

__all__ = ["functions", "unseen_gains"]

ITEM = "benchmarks/unseen_tables"
MANY = 2_000
"""Rows from which a table counts as large."""
BELOW = 0.01
"""How far the mean over seeds may be below the private constant."""
WORST = -1.0
"""R2 below this counts as this in sums."""


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """One table at one epsilon: the mean score of `auto` over seeds, beside the constants and plain boosted trees."""

    table: str
    half: str
    epsilon: float
    rows: int
    task: str
    learner: str
    seeds: int
    score: float
    floor: float
    constant: float
    ceiling: float

    @property
    def gain(self) -> float:
        return max(self.score, WORST) - self.constant

    @property
    def plain_gain(self) -> float:
        return self.ceiling - self.constant


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    """By name, for the template."""
    tables = _tables(page.cells(ITEM))

    def shares(half: str) -> str:
        rows = []
        for epsilon in sorted({one.epsilon for one in tables}):
            group = [one for one in tables if one.half == half and one.epsilon == epsilon]
            large = [one for one in group if one.rows >= MANY]
            low = [one.table for one in group if one.score < one.floor - BELOW]
            seeds = sorted({one.seeds for one in group})
            row = [f"{epsilon:g}", len(group), " or ".join(map(str, seeds)), _share(group)]
            rows.append([*row, f"{_share(large)} ({len(large)})", ", ".join(low) or "none"])
        head = ["epsilon", "tables", "seeds", "share of the plain gain", f"of those with {MANY:,} rows or more"]
        return markdown([*head, f"more than {BELOW:g} below the private constant"], rows)

    def every(half: str) -> str:
        chosen = [one for one in tables if one.half == half]
        rows = [
            [one.table, one.rows, "R2" if one.task == "regression" else "accuracy", f"{one.epsilon:g}", one.learner]
            + [f"{value:.3f}" for value in (one.score, one.floor, one.constant, one.ceiling)]
            for one in sorted(chosen, key=lambda one: (one.epsilon, one.gain - one.plain_gain))
        ]
        head = ["table", "rows", "score", "epsilon", "takes", "`auto`", "private constant", "constant", "no privacy"]
        return markdown(head, rows)

    def commits() -> str:
        return measured_at([cell for cell in page.cells(ITEM) if cell.settings["method"] == "auto"])

    def share(half: str, epsilon: float, least: int = 0) -> str:
        return _share([one for one in tables if (one.half, one.epsilon) == (half, epsilon) and one.rows >= least])

    return {"shares": shares, "every": every, "commits": commits, "share": share}


def unseen_gains(page: Page, epsilon: float) -> list[tuple[float, float]]:
    """The gain of `auto` and that without privacy, for each table that no default was chosen on."""
    chosen = [one for one in _tables(page.cells(ITEM)) if (one.half, one.epsilon) == ("check", epsilon)]
    return [(one.gain, one.plain_gain) for one in chosen]


def _share(tables: list[Unseen]) -> str:
    plain = sum(one.plain_gain for one in tables)
    return f"{sum(one.gain for one in tables) / plain:.3f}" if plain else ""


def _tables(cells: list[Cell]) -> list[Unseen]:
    plain = {(cell.settings["table"], cell.settings["method"]): cell.result for cell in cells if _is_plain(cell)}
    private: dict[tuple[str, float], dict[str, list[Cell]]] = {}
    for cell in cells:
        if not _is_plain(cell):
            key = (cell.settings["table"], cell.settings["epsilon"])
            private.setdefault(key, {}).setdefault(cell.settings["method"], []).append(cell)
    tables = []
    for (name, epsilon), by_method in private.items():
        ours, floor = by_method.get("auto", []), by_method.get("private constant", [])
        if not ours or not floor or (name, "plain trees") not in plain:
            continue
        tables.append(
            Unseen(
                table=name,
                epsilon=epsilon,
                learner=ours[0].result["learner"],
                seeds=len(ours),
                score=mean(cell.result["score"] for cell in ours),
                floor=mean(cell.result["score"] for cell in floor),
                constant=plain[name, "constant"]["score"],
                ceiling=plain[name, "plain trees"]["score"],
                **{field: ours[0].result[field] for field in ("half", "rows", "task")},
            )
        )
    return tables


def _is_plain(cell: Cell) -> bool:
    return "epsilon" not in cell.settings
