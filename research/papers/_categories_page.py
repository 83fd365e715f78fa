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

    def groups(schema: str, *, least: float = 0.0, most: float = 99.0) -> list[tuple[float, str, list[Row]]]:
        """Return the rows of each epsilon from `least` to `most` and of each half that has rows, in this order."""
        rows = [row for row in known if row.schema == schema and least <= row.epsilon <= most]
        keys = sorted({(row.epsilon, row.half) for row in rows}, key=lambda key: (key[0], key[1] != "look"))
        return [(*key, [row for row in rows if (row.epsilon, row.half) == key]) for key in keys]

    def best(schema: str = "declared") -> str:
        lines = []
        for epsilon, half, rows in groups(schema, least=1.0):
            far = [f"{row.table} {row.behind:.3f}" for row in rows if row.behind > FAR]
            means = [f"{mean(row.scores['auto'] for row in rows):.3f}", f"{mean(row.best for row in rows):.3f}"]
            lines.append([f"{epsilon:g}", half, len(rows), *means, ", ".join(far) or "none"])
        head = ["epsilon", "half", "tables", "`auto`", "best single learner", f"more than {FAR:g} behind it"]
        return markdown(head, lines)

    def small(schema: str = "declared") -> str:
        lines = []
        for epsilon, half, found in groups(schema, most=0.3):
            rows = [row for row in found if "constant" in row.scores]
            low = [f"{row.table} {row.below:.3f}" for row in rows if row.below > BELOW]
            means = [f"{mean(row.scores[name] for row in rows):.3f}" for name in ("auto", "linear", "constant")]
            lines.append([f"{epsilon:g}", half, len(rows), *means, ", ".join(low) or "none"])
        head = ["epsilon", "half", "tables", "`auto`", "`linear`", "constant", f"more than {BELOW:g} below the better"]
        return markdown(head, lines)

    def every(schema: str) -> str:
        rows = [row for row in known if row.schema == schema]
        methods = [name for name in METHODS if any(name in row.scores for row in rows)]
        lines = [
            [row.table, row.half, row.rows, f"{row.epsilon:g}", row.seeds, row.learner]
            + [f"{row.scores[name]:.3f}" if name in row.scores else "" for name in methods]
            for row in sorted(rows, key=lambda row: (row.table.lower(), row.epsilon))
        ]
        return markdown(["table", "half", "rows", "epsilon", "seeds", "takes", *methods], lines)

    return {"best": best, "small": small, "every": every}


def _rows(page: Page) -> list[Row]:
    """Return a row for each table, schema and epsilon; means are over the seeds that `auto` and all learners have."""
    cells: dict[tuple[str, str, float], dict[str, dict[int, Any]]] = {}
    for cell in page.cells(ITEM):
        key = (cell.settings["table"], cell.settings["schema"], cell.settings["epsilon"])
        cells.setdefault(key, {}).setdefault(cell.settings["method"], {})[cell.settings["seed"]] = cell
    rows = []
    for (table, schema, epsilon), by_method in cells.items():
        seeds = set.intersection(*(set(found) for name, found in by_method.items() if name != "constant"))
        if not {"auto", "linear"} <= by_method.keys() or not seeds:
            continue
        auto = [by_method["auto"][seed] for seed in sorted(seeds)]
        rows.append(
            Row(
                table=table,
                schema=schema,
                epsilon=epsilon,
                seeds=len(seeds),
                learner=" or ".join(sorted({cell.result["learner"] for cell in auto})),
                scores={
                    name: mean(found[seed].result["score"] for seed in seeds)
                    for name, found in by_method.items()
                    if seeds <= found.keys()
                },
                **{name: auto[0].result[name] for name in ("half", "rows")},
            )
        )
    return rows
