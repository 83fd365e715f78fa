"""The benchmarks behind the policy: the score of every candidate on development sets, at several budgets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["CLOSE", "benchmark_sentence", "evidence", "wins"]

CLOSE = 0.01
"""Scores that differ by at most this are called equal."""
MANY_CLASSES = 5
"""Tables with at least this many classes are compared among themselves."""


@cache
def evidence(form: str) -> list[Mapping[str, Any]]:
    """Return the cells of one form of data: set, rows, epsilon, classes or colours, and the score of each candidate."""
    stored = files("privaware.workflow.auto").joinpath(f"{form}.json").read_text(encoding="utf-8")
    cells: list[Mapping[str, Any]] = json.loads(stored)
    return cells


def wins(candidate: str, facts: Mapping[str, Any]) -> tuple[int, int]:
    """Return how often `candidate` was best, or at most `CLOSE` below the best, and in how many benchmark runs.

    Counted are the benchmark runs of `candidate` on sets of the same form and kind (see `_kind`) whose rows x epsilon
    differs from `facts["rows_epsilon"]` by less than a factor of 10.
    """
    form, signal = facts["form"], facts["rows_epsilon"]
    alike = [
        cell["scores"]
        for cell in evidence(form)
        if candidate in cell["scores"]
        and _kind(form, cell.get("classes", 0), cell.get("colours", 0))
        == _kind(form, facts["classes"], facts["channels"])
        and 0.1 < cell["rows"] * cell["epsilon"] / signal < 10
    ]
    return sum(scores[candidate] >= max(scores.values()) - CLOSE for scores in alike), len(alike)


def benchmark_sentence(candidate: str, facts: Mapping[str, Any]) -> str:
    """Return the sentence of the plan that says how often `candidate` was best or nearly best (`wins`)."""
    form, signal = facts["form"], facts["rows_epsilon"]
    sets = {"table": "tables", "text": "texts", "image": "image sets"}[form]
    best, runs = wins(candidate, facts)
    measure = "rows x epsilon" if facts["cap"] == 1 else "rows x epsilon / cap"
    if not runs:
        return f"No benchmark was run on {sets} of similar size and budget ({measure} {signal:,.0f})."
    return (
        f"In {runs} benchmark runs on {sets} of similar size and budget ({measure} {signal / 10:,.0f} to "
        f"{10 * signal:,.0f}) it was the best candidate or within one point of the best {best} times."
    )


def _kind(form: str, classes: int, colours: int) -> tuple[bool, bool]:
    """Return what two sets of one form must share to be compared.

    For tables it is the task, and whether there are at least `MANY_CLASSES` classes. For images it is whether they are
    grey. Texts are always compared.
    """
    if form == "table":
        return classes > 0, classes >= MANY_CLASSES
    return form == "image" and colours == 1, False
