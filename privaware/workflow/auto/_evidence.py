"""The benchmarks behind the policy: the score of every candidate on development sets, at several budgets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["CLOSE", "benchmark_sentence", "evidence"]

CLOSE = 0.01
"""Scores that differ by at most this are called equal."""
MANY_CLASSES = 5
"""Tables with at least this many classes are compared among themselves."""


@cache
def evidence(form: str) -> list[Mapping[str, Any]]:
    """The cells of one form: the set, rows, epsilon, classes or colours, and the score of each candidate."""
    stored = files("privaware.workflow.auto").joinpath(f"{form}.json").read_text(encoding="utf-8")
    cells: list[Mapping[str, Any]] = json.loads(stored)
    return cells


def benchmark_sentence(candidate: str, facts: Mapping[str, Any]) -> str:
    """The sentence of the plan: how often a candidate was best on sets of the same kind at a similar rows x epsilon."""
    form, signal = facts["form"], facts["rows_epsilon"]
    alike = [
        cell["scores"]
        for cell in evidence(form)
        if candidate in cell["scores"]
        and _kind(form, cell.get("classes", 0), cell.get("colours", 0))
        == _kind(form, facts["classes"], facts["channels"])
        and 0.1 < cell["rows"] * cell["epsilon"] / signal < 10
    ]
    sets = {"table": "tables", "text": "texts", "image": "image sets"}[form]
    if not alike:
        return f"No benchmark was run on {sets} of similar size and budget (rows x epsilon {signal:,.0f})."
    best = sum(scores[candidate] >= max(scores.values()) - CLOSE for scores in alike)
    return (
        f"In {len(alike)} benchmark runs on {sets} of similar size and budget (rows x epsilon {signal / 10:,.0f} to "
        f"{10 * signal:,.0f}) it was the best candidate or within one point of the best {best} times."
    )


def _kind(form: str, classes: int, colours: int) -> tuple[bool, bool]:
    """What two sets must share to be compared: task and many classes of a table, grey or colour of images."""
    if form == "table":
        return classes > 0, classes >= MANY_CLASSES
    return form == "image" and colours == 1, False
