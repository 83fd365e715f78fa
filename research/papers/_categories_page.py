"""What the page of categorical tables shows: `auto` beside the best single learner, and where it is too far behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean
from typing import Any

from privaware.bench._shown import markdown
from research.papers._page import Page

__all__ = ["functions"]

ITEM = "benchmarks/categories"
FAR = 0.03
"""How far a cell may be behind the best single learner."""
BELOW = 0.01
"""How far a cell at a small budget may be below the better of the private constant and `linear`."""


METHODS = ("auto", "constant", "linear", "additive", "boosted", "fourier", "waves", "network")
"""The methods in the order of their columns."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One table at one epsilon: the mean score over seeds of each method."""

    table: str
    half: str
    schema: str
    epsilon: float
    rows: int
    seeds: int
    learner: str
    scores: dict[str, float]

    @property
    def best(self) -> float:
        """The score of the best single learner."""
        return max(score for method, score in self.scores.items() if method not in ("auto", "constant"))

    @property
    def behind(self) -> float:
        return self.best - self.scores["auto"]

    @property
    def below(self) -> float:
        """How far `auto` is below the better of the private constant and `linear`."""
        return max(self.scores["constant"], self.scores["linear"]) - self.scores["auto"]


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    """By name, for the template."""
    known = _rows(page)

    def chosen(half: str, schema: str) -> dict[float, list[Row]]:
        rows = [row for row in known if (row.half, row.schema) == (half, schema)]
        return {epsilon: [row for row in rows if row.epsilon == epsilon] for epsilon in _epsilons(rows)}

    def best(half: str, least: float = 1.0) -> str:
        lines = []
        for epsilon, rows in chosen(half, "declared").items():
            if epsilon >= least:
                far = [f"{row.table} {row.behind:.3f}" for row in rows if row.behind > FAR]
                means = [f"{mean(row.scores['auto'] for row in rows):.3f}", f"{mean(row.best for row in rows):.3f}"]
                lines.append([f"{epsilon:g}", len(rows), *means, ", ".join(far) or "none"])
        head = ["epsilon", "tables", "`auto`", "best single learner of each table", f"more than {FAR:g} behind it"]
        return markdown(head, lines)

    def small(half: str, schema: str, most: float = 0.3) -> str:
        lines = []
        for epsilon, rows in chosen(half, schema).items():
            if epsilon <= most:
                low = [f"{row.table} {row.below:.3f}" for row in rows if row.below > BELOW]
                means = [f"{mean(row.scores[name] for row in rows):.3f}" for name in ("auto", "linear", "constant")]
                lines.append([f"{epsilon:g}", len(rows), *means, ", ".join(low) or "none"])
        head = ["epsilon", "tables", "`auto`", "`linear`", "constant", f"more than {BELOW:g} below the better of both"]
        return markdown(head, lines)

    def every(half: str, schema: str) -> str:
        rows = [row for group in chosen(half, schema).values() for row in group]
        methods = [name for name in METHODS if any(name in row.scores for row in rows)]
        lines = [
            [row.table, row.rows, f"{row.epsilon:g}", row.seeds, row.learner]
            + [f"{row.scores[name]:.3f}" if name in row.scores else "" for name in methods]
            for row in sorted(rows, key=lambda row: (row.table, row.epsilon))
        ]
        return markdown(["table", "rows", "epsilon", "seeds", "takes", *methods], lines)

    return {"best": best, "small": small, "every": every}


def _epsilons(rows: list[Row]) -> list[float]:
    return sorted({row.epsilon for row in rows})


def _rows(page: Page) -> list[Row]:
    cells: dict[tuple[str, str, float], dict[str, list[Any]]] = {}
    for cell in page.cells(ITEM):
        key = (cell.settings["table"], cell.settings["schema"], cell.settings["epsilon"])
        cells.setdefault(key, {}).setdefault(cell.settings["method"], []).append(cell)
    rows = []
    for (table, schema, epsilon), by_method in cells.items():
        if not {"auto", "linear", "constant"} <= by_method.keys():
            continue
        auto = by_method["auto"]
        rows.append(
            Row(
                table=table,
                schema=schema,
                epsilon=epsilon,
                seeds=len(auto),
                learner=" or ".join(sorted({cell.result["learner"] for cell in auto})),
                scores={name: mean(cell.result["score"] for cell in found) for name, found in by_method.items()},
                **{name: auto[0].result[name] for name in ("half", "rows")},
            )
        )
    return rows
