"""The benchmarks behind the policy: the score of every candidate on development sets, at several budgets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

CLOSE = 0.01
"""Scores that differ by at most this are called equal."""
MANY_CLASSES = 5
"""Tables with at least this many classes are compared among themselves."""


@cache
def evidence(form: str) -> list[Mapping[str, Any]]:
    """Return the benchmark runs on one `form` of data ("table", "text" or "image"), as mappings not to be changed.

    A run has the name of the data set, `rows`, `epsilon`, `classes` or `colours`, and `scores` by candidate.
    """
    stored = files("privaware.workflow.auto").joinpath(f"{form}.json").read_text(encoding="utf-8")
    return json.loads(stored)


def wins(candidate: str, facts: Mapping[str, Any]) -> tuple[int, int]:
    """Return (count, runs): in how many of how many benchmark runs `candidate` was at most `CLOSE` below the best.

    Counted are the benchmark runs that are similar to `facts`, the values of `FACTS` (see `_alike`).
    """
    alike = _alike(candidate, facts)
    return sum(scores[candidate] >= max(scores.values()) - CLOSE for scores in alike), len(alike)


def _alike(candidate: str, facts: Mapping[str, Any]) -> list[Mapping[str, float]]:
    """Return the scores of all candidates in each benchmark run that is similar to `facts` and has `candidate`.

    They are the runs on sets of the same form and kind (see `_kind`) whose rows x epsilon differs from
    `facts["rows_epsilon"]` by less than a factor of 10.
    """
    form, signal = facts["form"], facts["rows_epsilon"]
    return [
        cell["scores"]
        for cell in evidence(form)
        if candidate in cell["scores"]
        and _kind(form, cell.get("classes", 0), cell.get("colours", 0))
        == _kind(form, facts["classes"], facts["channels"])
        and 0.1 < cell["rows"] * cell["epsilon"] / signal < 10
    ]


def _gap_words(candidate: str, facts: Mapping[str, Any]) -> str:
    """Return a sentence: how far `candidate` was below the best on average, and whether all others were further below.

    `facts` are the values of `FACTS`. The average is over the runs that `_alike` returns; there must be at least one.
    Other candidates count only if they have a score in every run.
    """
    alike = _alike(candidate, facts)
    common = set(alike[0]).intersection(*alike)
    gaps = {name: sum(max(scores.values()) - scores[name] for scores in alike) / len(alike) for name in common}
    others = [gap for name, gap in gaps.items() if name != candidate]
    points = f"{100 * gaps[candidate]:.1f} points"
    if others and gaps[candidate] < min(others):
        return f"On average it lost {points} to the best candidate of a run, less than any other candidate."
    return f"On average it was {points} below the best candidate of a run."


def benchmark_sentence(candidate: str, facts: Mapping[str, Any]) -> str:
    """Return the sentences of the plan about `candidate` in the benchmark runs that are similar to `facts`.

    They say in how many runs `candidate` was at most `CLOSE` below the best candidate (`wins`), and how far below the
    best candidate it was on average. If no run is similar, the only sentence says so.
    """
    form, signal = facts["form"], facts["rows_epsilon"]
    sets = {"table": "tables", "text": "texts", "image": "image sets"}[form]
    best, runs = wins(candidate, facts)
    times = "once" if best == 1 else f"{best} times"
    measure = "rows x epsilon" if facts["cap"] == 1 else "rows x epsilon / cap"
    if not runs:
        return f"No benchmark was run on {sets} of similar size and budget ({measure} {signal:,.0f})."
    return (
        f"In {runs} benchmark runs on {sets} of similar size and budget ({measure} {signal / 10:,.0f} to "
        f"{10 * signal:,.0f}) the learner of this plan was the best candidate or within one point "
        f"of the best {times}. "
        f"{_gap_words(candidate, facts)}"
    )


def _kind(form: str, classes: int, colours: int) -> tuple[bool, bool]:
    """Return two booleans; two data sets of the same `form` are compared only if both booleans are equal for them.

    `classes` is the number of classes (0 for a regression), and `colours` is the number of colour channels. For a table
    the booleans say whether its task is a classification, and whether it has at least `MANY_CLASSES` classes. For
    images the first one says whether they are grey, and the second one is False. For texts both are False, so any two
    data sets of texts are compared.
    """
    if form == "table":
        return classes > 0, classes >= MANY_CLASSES
    return form == "image" and colours == 1, False
