"""What the page of unseen texts shows: the share of the plain gain that `auto` keeps, text by text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import mean
from typing import Any

from privaware.bench._shown import markdown
from privaware.bench._store import Cell
from research.papers._page import Page

__all__ = ["functions"]

Runs = dict[tuple[float, str], dict[str, list[Cell]]]
"""Private cells by epsilon and text, then by method."""
ITEM = "benchmarks/unseen_texts"
BELOW = 0.01
"""How far the mean over seeds may be below the private constant."""


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    """By name, for the template."""
    cells = page.cells(ITEM)
    plain = {(cell.settings["text"], cell.settings["method"]): cell.result for cell in cells if not _private(cell)}
    runs: Runs = {}
    for cell in filter(_private, cells):
        key = (cell.settings["epsilon"], cell.settings["text"])
        runs.setdefault(key, {}).setdefault(cell.settings["method"], []).append(cell)
    rows = [
        [
            epsilon,
            text,
            by_method["auto"],
            *(mean(cell.result["score"] for cell in by_method[each]) for each in METHODS),
            *(plain[text, each]["score"] for each in ("constant", "plain")),
            *(_score(by_method.get(each, [])) for each in (UNOPINIONATED, NAMELESS, WORDS)),
        ]
        for (epsilon, text), by_method in sorted(runs.items())
        if set(METHODS) <= set(by_method) and (text, "plain") in plain
    ]

    def shares() -> str:
        shown = []
        for epsilon in sorted({row[0] for row in rows}):
            group = [row for row in rows if row[0] == epsilon]
            gain, most = (sum(row[at] - row[5] for row in group) for at in (3, 6))
            low = [row[1] for row in group if row[3] < row[4] - BELOW]
            seeds = sorted({len(row[2]) for row in group})
            shown.append([f"{epsilon:g}", len(group), " or ".join(map(str, seeds)), f"{gain / most:.3f}"])
            shown[-1].append(", ".join(low) or "none")
        head = ["epsilon", "texts", "seeds", "share of the plain gain"]
        return markdown([*head, f"more than {BELOW:g} below the private constant"], shown)

    def every() -> str:
        shown = [
            [text, ours[0].result["rows"], ours[0].result["classes"], f"{epsilon:g}", ours[0].result["learner"]]
            + ["" if score is None else f"{score:.3f}" for score in scores]
            for epsilon, text, ours, *scores in rows
        ]
        head = ["text", "rows", "classes", "epsilon", "takes", "`auto`", "private constant", "constant", "no privacy"]
        head += [f"`auto` {method.removeprefix('auto ')}" for method in (UNOPINIONATED, NAMELESS, WORDS)]
        return markdown(head, shown)

    def commits() -> str:
        return ", ".join(sorted({cell.run["commit"] for cell in cells}))

    shown: dict[str, Callable[..., Any]] = {"shares": shares, "every": every, "commits": commits}
    shown |= {"share_of": partial(_share_of, rows), "of_network": partial(_of_network, cells)}
    return {**shown, "without": partial(_without, runs, plain)}


METHODS = ("auto", "private constant")
WORDS = "auto without the network"
"""What `auto` takes where the network of `sentences` is not installed."""
NAMELESS = "auto without names"
"""What it took before the directions of class names weighed more."""
UNOPINIONATED = "auto without opinion"
"""What it took before the direction from blame to praise did."""


def _share_of(rows: list[list[Any]], epsilon: float, *texts: str) -> str:
    """The share on these texts alone."""
    group = [row for row in rows if row[0] == epsilon and row[1] in texts]
    gain, most = (sum(row[at] - row[5] for row in group) for at in (3, 6))
    return f"{gain / most:.3f}"


def _of_network(cells: list[Cell]) -> str:
    """What the method without privacy on the rows of the public network has."""
    read = {cell.settings["text"]: cell.result["score"] for cell in cells if "network" in cell.settings}
    return ", ".join(f"{score:.3f} on {text}" for text, score in sorted(read.items()))


def _without(runs: Runs, plain: dict[tuple[str, str], Any]) -> str:
    """The share without the network: on the texts measured with it, and on all if these are more."""
    shown = []
    for epsilon in sorted({at for (at, _), by_method in runs.items() if WORDS in by_method}):
        words = {text: _score(by[WORDS]) for (at, text), by in sorted(runs.items()) if at == epsilon and WORDS in by}
        both = [text for text in words if "auto" in runs[epsilon, text]]
        for texts in [both] if len(both) == len(words) else [both, list(words)]:
            gain = sum((words[text] or 0.0) - plain[text, "constant"]["score"] for text in texts)
            most = sum(plain[text, "plain"]["score"] - plain[text, "constant"]["score"] for text in texts)
            shown.append([f"{epsilon:g}", ", ".join(texts), f"{gain / most:.3f}" if texts else ""])
    return markdown(["epsilon", "texts", "share without the network"], shown)


def _score(cells: list[Cell]) -> float | None:
    return mean(cell.result["score"] for cell in cells) if cells else None


def _private(cell: Cell) -> bool:
    return "epsilon" in cell.settings
