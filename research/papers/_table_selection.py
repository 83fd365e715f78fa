"""What a private selection among candidates could gain over the rule of `auto` for tables, from its recorded study.

A selection trains every candidate and buys a score of each, so k candidates share the budget: with a twentieth for the
scores, each has the noise of epsilon sqrt(0.95 / k). Scores at that budget are read between those that were measured,
straight in log epsilon (from the constant at a hundredth of the least epsilon). The selection is taken to be perfect,
by held-out rows and without noise: an upper bound of any private one.

>>> among("choose", ("linear", "boosted")).cells
27
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import numpy as np

from privaware.bench._shown import markdown
from privaware.bench._store import Cell
from privaware.workflow.auto import evidence

__all__ = ["Selection", "among", "measured_selection", "part_of", "rule", "selection_table"]

CANDIDATES = (
    ("linear", "boosted"),
    ("linear with bins", "boosted"),
    ("boosted", "amortised"),
    ("linear", "boosted", "amortised"),
    ("linear", "linear with bins", "boosted"),
)
SCORED = 0.05
"""The part of the budget for the scores."""
FLOOR, CLOSE = -1.0, 0.01
"""R2 below the first counts as this; scores as near as the second are equal."""


LINEAR_BELOW = 1_000
"""Rows x epsilon below which `auto` takes `linear` for a table with declared bounds."""


def rule(signal: float) -> str:
    """The candidate that `auto` takes without a selection, for declared bounds and so many rows x epsilon."""
    return "linear" if signal < LINEAR_BELOW else "boosted"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Leads over the rule, cell by cell: of the best candidate at the whole budget, and at its part of it."""

    whole: tuple[float, ...]
    shared: tuple[float, ...]

    @property
    def cells(self) -> int:
        return len(self.shared)


def among(half: str, candidates: Sequence[str]) -> Selection:
    """The leads on one half of the development tables, where every candidate was measured."""
    tables: dict[str, list[Mapping[str, Any]]] = {}
    few_classes = [each for each in evidence("table") if "waves" not in each["scores"]]
    for cell in few_classes:
        tables.setdefault(cell["table"], []).append(cell)
    whole, shared = [], []
    for cells in tables.values():
        for cell in cells:
            scores = cell["scores"]
            if cell["half"] == half and all(name in scores for name in candidates):
                taken = max(scores[rule(cell["rows"] * cell["epsilon"])], FLOOR)
                part = part_of(cell["epsilon"], len(candidates))
                whole.append(max(scores[name] for name in candidates) - taken)
                shared.append(max(_between(cells, name, part) for name in candidates) - taken)
    return Selection(whole=tuple(whole), shared=tuple(shared))


def part_of(epsilon: float, candidates: int) -> float:
    """The epsilon whose noise each of so many candidates has that share a budget with their scores."""
    return epsilon * math.sqrt((1 - SCORED) / candidates)


def _between(cells: Sequence[Mapping[str, Any]], name: str, epsilon: float) -> float:
    """The score of a candidate at a budget between those that were measured."""
    known = sorted(cells, key=lambda cell: float(cell["epsilon"]))
    epsilons = [known[0]["epsilon"] / 100, *(cell["epsilon"] for cell in known)]
    scores = [known[0]["scores"]["constant"], *(max(cell["scores"][name], FLOOR) for cell in known)]
    return float(np.interp(math.log(epsilon), np.log(epsilons), scores))


def selection_table() -> str:
    """One line for each set of candidates and each half."""
    head = ["among", "tables", "cells", "best at the whole budget", "best at its part", "without its best cell"]
    rows = []
    for candidates in CANDIDATES:
        for half in ("choose", "check"):
            found = among(half, candidates)
            rest = sorted(found.shared)[:-1]
            worse, better = (sum(sign * lead > CLOSE for lead in found.shared) for sign in (-1, 1))
            names = " / ".join(f"`{name}`" for name in candidates)
            shown = f"{mean(found.shared):+.4f} ({better} better, {worse} worse by {CLOSE:g})"
            rows.append([names, half, found.cells, f"{mean(found.whole):+.4f}", shown, f"{mean(rest):+.4f}"])
    return markdown(head, rows)


def measured_selection(cells: Sequence[Cell]) -> str:
    """Two candidates at their parts of epsilon 1, measured: how far the better one is from the rule, by half."""
    head = ["table", "tables", "rule", "at the whole budget", "`linear`", "`boosted`", "`amortised`"]
    head += ["`linear` / `boosted`", "`boosted` / `amortised`"]
    rows, leads = [], dict[tuple[str, tuple[str, str]], list[float]]()
    for cell in sorted(cells, key=lambda each: (each.result["half"], each.settings["table"])):
        part, whole = cell.result["part"], cell.result["whole"]
        shown = [f"{part[name]:.3f}" if name in part else "" for name in ("linear", "boosted", "amortised")]
        gains = []
        for pair in (("linear", "boosted"), ("boosted", "amortised")):
            able = all(name in part for name in pair)
            gains.append(f"{max(part[name] for name in pair) - whole:+.3f}" if able else "")
            if able:
                leads.setdefault((cell.result["half"], pair), []).append(max(part[name] for name in pair) - whole)
        rows.append([cell.settings["table"], cell.result["half"], cell.result["rule"], f"{whole:.3f}", *shown, *gains])
    for half in ("choose", "check"):
        means = [leads.get((half, pair), []) for pair in (("linear", "boosted"), ("boosted", "amortised"))]
        rows.append(["mean", half, "", "", "", "", "", *(f"{mean(each):+.4f}" if each else "" for each in means)])
    return markdown(head, rows)
