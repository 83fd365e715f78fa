"""What the page of `amortised` shows: its scores beside those of our other learners, by budget and by table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import Any

from privaware.bench._shown import markdown, spread
from privaware.bench._store import Cell
from research.papers._page import Page, measured_at

__all__ = ["functions"]

ITEM = "benchmarks/amortised"
RARE = 0.8
"""Where the larger class holds more than this share, AUC is compared and not accuracy."""
CLOSE = 0.01
"""Scores as close as this are called equal."""
HALVES = {"choose": "chosen on", "check": "checked on"}


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The scores of one method on one table at one epsilon, one a seed."""

    table: str
    half: str
    epsilon: float
    method: str
    metric: str
    values: tuple[float, ...]
    losses: tuple[float, ...]


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    """By name, for the template."""
    scores = _scores(page.cells(ITEM))
    methods = list(dict.fromkeys(one.method for one in scores))
    epsilons = sorted({one.epsilon for one in scores})

    def of(**wanted: Any) -> list[Scores]:
        return [one for one in scores if all(getattr(one, name) == value for name, value in wanted.items())]

    def means(half: str, field: str = "values") -> str:
        rows = []
        for epsilon in epsilons:
            chosen = {name: of(half=half, epsilon=epsilon, method=name) for name in methods}
            tables = set.intersection(*({one.table for one in listed} for listed in chosen.values()))
            row = [
                f"{mean(mean(getattr(one, field)) for one in listed if one.table in tables):.3f}" if tables else ""
                for listed in chosen.values()
            ]
            rows.append([f"{epsilon:g}", len(tables), *row])
        return markdown(["epsilon", "tables", *methods], rows)

    def duels(ours: str, half: str) -> str:
        """Against each other: on how many tables `ours` is better or worse by more than `CLOSE`, and its mean lead."""
        rows = []
        for other in (name for name in methods if name != ours and not name.startswith("amortised")):
            row = [other]
            for epsilon in epsilons:
                here = of(half=half, epsilon=epsilon)
                leads = [lead for table in _tables(here) if (lead := _lead(here, ours, other, table)) is not None]
                better, worse = sum(lead > CLOSE for lead in leads), sum(lead < -CLOSE for lead in leads)
                row.append(f"{better} / {worse} of {len(leads)}, {mean(leads):+.3f}" if leads else "")
            rows.append(row)
        return markdown(["against", *(f"{epsilon:g}" for epsilon in epsilons)], rows)

    def every() -> str:
        rows = []
        for table in _tables(scores):
            for epsilon in epsilons:
                listed = {one.method: one for one in of(table=table, epsilon=epsilon)}
                first = next(iter(listed.values()), None)
                if first is not None:
                    shown = [_shown(listed.get(name)) for name in methods]
                    rows.append([table, HALVES[first.half], f"{epsilon:g}", first.metric, *shown])
        return markdown(["table", "half", "epsilon", "score", *methods], rows)

    return {
        "seeds": partial(_seeds, page.cells(ITEM), {one.table: one.metric for one in scores}),
        "means": means,
        "duels": duels,
        "every": every,
        "weights_compared": partial(_weights, page.cells(f"{ITEM}/weights")),
        "commits": lambda: measured_at(page.cells(ITEM)),
    }


def _weights(cells: Sequence[Cell], half: str) -> str:
    """Shipped weights beside earlier ones: means, and on how many tables they are better or worse by `CLOSE`."""
    pairs: dict[tuple[float, str], dict[str, list[Cell]]] = {}
    for cell in cells:
        if cell.result["half"] == half:
            key = (cell.settings["epsilon"], cell.settings["table"])
            pairs.setdefault(key, {}).setdefault(cell.settings["method"], []).append(cell)
    rows = []
    for epsilon in sorted({epsilon for epsilon, _ in pairs}):
        tables = [found for (each, _), found in pairs.items() if each == epsilon]
        means = {
            (name, field): [mean(cell.result[field] for cell in table[name]) for table in tables]
            for name in ("earlier", "shipped")
            for field in ("accuracy", "loss")
        }
        leads = [b - a for a, b in zip(means["earlier", "accuracy"], means["shipped", "accuracy"], strict=True)]
        counts = f"{sum(lead > CLOSE for lead in leads)} / {sum(lead < -CLOSE for lead in leads)}"
        rows.append([f"{epsilon:g}", len(tables), *(f"{mean(values):.3f}" for values in means.values()), counts])
    head = ["epsilon", "tables", "accuracy, earlier", "log loss, earlier", "accuracy, shipped", "log loss, shipped"]
    return markdown([*head, "better / worse"], rows)


def _seeds(cells: Sequence[Cell], metrics: dict[str, str], half: str) -> str:
    """`amortised` alone: means over tables of all its seeds, and of the first one."""
    alone = [cell for cell in cells if str(cell.settings["method"]).startswith("amortised")]
    methods = sorted({str(cell.settings["method"]) for cell in alone})
    rows = []
    for epsilon in sorted({float(cell.settings["epsilon"]) for cell in alone}):
        row = [f"{epsilon:g}"]
        for method in methods:
            by_table: dict[str, list[float]] = {}
            for cell in alone:
                table, here = cell.settings["table"], (cell.settings["method"], cell.settings["epsilon"])
                if here == (method, epsilon) and cell.result["half"] == half:
                    by_table.setdefault(table, []).append(cell.result[metrics[table]])
            first = [values[:1] for values in by_table.values()]
            row.append(f"{mean(map(mean, by_table.values())):.3f} ({mean(map(mean, first)):.3f})")
        rows.append(row)
    return markdown(["epsilon", *methods], rows)


def _scores(cells: Sequence[Cell]) -> list[Scores]:
    """One for each method, table and epsilon, of the seeds that all methods have there."""
    rare = {
        cell.settings["table"]: cell.result["accuracy"] > RARE
        for cell in cells
        if cell.settings["method"] == "constant"
    }
    grouped: dict[tuple[str, float], dict[str, dict[int, Cell]]] = {}
    for cell in cells:
        key = (cell.settings["table"], cell.settings["epsilon"])
        grouped.setdefault(key, {}).setdefault(cell.settings["method"], {})[cell.settings["seed"]] = cell
    scores = []
    for (table, epsilon), methods in grouped.items():
        seeds = sorted(set.intersection(*(set(of_seed) for of_seed in methods.values())))
        metric = "auc" if rare.get(table) else "accuracy"
        for method, of_seed in methods.items():
            listed = [of_seed[seed] for seed in seeds]
            if listed:
                values = tuple(cell.result[metric] for cell in listed)
                losses = tuple(cell.result["loss"] for cell in listed)
                facts = {"table": table, "half": listed[0].result["half"], "epsilon": epsilon, "method": method}
                scores.append(Scores(**facts, metric=metric, values=values, losses=losses))
    return scores


def _tables(scores: Sequence[Scores]) -> list[str]:
    return sorted({one.table for one in scores}, key=str.lower)


def _lead(scores: Sequence[Scores], ours: str, other: str, table: str) -> float | None:
    """How far `ours` is ahead on a table; None where one is missing."""
    listed = {one.method: mean(one.values) for one in scores if one.table == table}
    return listed[ours] - listed[other] if ours in listed and other in listed else None


def _shown(one: Scores | None) -> str:
    if one is None:
        return ""
    middle, deviation = spread(one.values)
    return f"{middle:.3f} ± {deviation:.3f}" if len(one.values) > 1 else f"{middle:.3f}"
