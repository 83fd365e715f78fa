"""What `auto` takes for a table, from its schema and epsilon alone, and the study that says so.

The rule was first chosen on half of the development tables and checked on the other half; no bins before `boosted`,
the share of the coding and the thresholds were set after a look at both, so expect less elsewhere. Where bounds are
bought, `boosted` was ahead of `linear` on both halves, and from the floor on never 0.01 below the majority. A
regression with few rows takes `linear`, which was up to 0.5 ahead on five tables of 300 to 1,400 rows, since it is
compared with the mean: on 900 delays of flights, which follow from hardly anything, it would be 0.4 below that. Of
5,000 rows at epsilon 0.1 `boosted` was ahead on 2 of 3 tables, but further below the mean on those flights.
`amortised` is compared for classes: on the tables to choose on it was 0.01 behind `boosted` at every budget, so it is
not taken, though on those that check it was ahead, mostly by one of them. More and deeper trees for
regressions from 35,000 rows x epsilon were chosen on four tables; with classes Adult had 0.1 points more by them at
epsilon 8, and AUC of lending_club was 0.02 lower.
Up to 20,000 rows waves take the place of trees in `boosted`: chosen on 37 tables with bounds that are bought, those
that were looked at before and new ones (two seeds), where at epsilon 1 accuracy is 0.006 higher on average of 20 (9
gain 0.005 or more, 4 lose it: Adult 0.008, mortgages 0.024) and R2 0.011 on average of 17 (10 gain, 2 lose).
Five classes or more take `waves`, a linear head on random waves of a few columns, whose noise in an output depends on
neither the width nor the classes: chosen on the tables of `research/comparisons/_many_classes.py`, where it gained on
every one.
No candidates are selected privately: two of them share the budget, and of `linear` and `boosted` at epsilon 1 even the
better one by held-out rows was then 0.012 and 0.008 below this rule on the two halves (docs/results/tables.md); of
`boosted` and `amortised` 0.006 below on the first, and 0.007 above on the second by one table. `fit --search` selects.
`table_evidence.json` holds the scores of every candidate on all of them, and `python -m
research.comparisons.table_choice` measures them again.

>>> from privaware.datasets import schema
>>> table_choice(schema("wisconsin"), epsilon=1.0).learner
'linear'
>>> table_choice(schema("adult"), epsilon=1.0).learner
'boosted'
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from privaware.events import NOTHING
from privaware.learners import find_learner
from privaware.preprocessing.bins import Bins
from privaware.schema import Schema
from privaware.workflow._choice import Choice, Stage
from privaware.workflow._floor import share_for
from privaware.workflow.run.settings import configured

__all__ = ["BIN_NUMBERS", "CANDIDATES", "able_candidates", "candidate", "evidence", "rule", "table_choice"]

CANDIDATES: dict[str, tuple[str, bool, bool]] = {
    "linear": ("linear", False, True),
    "linear with bins": ("linear", True, True),
    "boosted": ("boosted", False, False),
    "boosted waves": ("fourier", False, False),
    "amortised": ("amortised", False, False),
    "waves": ("linear", True, False),
}
"""What was compared: a learner, whether it buys bins, and whether a regression buys the range of its target."""

WAVES = {"features": [{"name": "table_fourier"}], "centre": 0.05}
"""Settings of `linear` for the candidate `waves`: random waves of a few columns, measured from their private mean."""

MANY_CLASSES = 5
"""Fewest classes for which the candidate `waves` is compared and taken."""

MOST_ROWS = 50_000
"""Most rows for which the candidate `waves` is compared; more rows were not measured."""

BOOSTED_WAVES = {"count": 512, "share": 0.4}
"""Settings of `fourier` for the candidate `boosted waves`."""

MOST_BOOSTED = 20_000
"""Most rows for which the candidate `boosted waves` is compared; with more rows trees are several times as fast."""

BIN_NUMBERS = "release bins of numbers"
LINEAR_BELOW = 1_000
"""Rows x epsilon from which a table with declared bounds learns more than a line."""

CLEAR = 35_000
"""Rows x epsilon from which a regression gains by more and deeper trees."""

MANY_ROWS = 200_000
"""Most rows for which more and deeper trees take a short time."""

GROWN = {"trees": 800, "depth": 5}
"""Those trees: R2 of diamonds at epsilon 8 was 0.949 (0.933 with 400 of depth 3), of wages 0.272 (0.254)."""
WORDS = {
    "waves": "linear on random Fourier features, which was better than trees for five or more classes",
    "boosted waves": "fourier, an additive model and then random Fourier features",
}
"""The names of candidates in a plan, where they differ from the names of learners."""
BIN_FRACTION = 0.1
"""The fraction of the budget for bins."""
CLOSE = 0.01
"""Scores as close as this are called equal."""


def table_choice(schema: Schema, epsilon: float) -> Choice:
    """A learner for a table with at least one column beside the target, and the releases before it."""
    signal = schema.rows * epsilon
    name = rule(signal) if schema.bounded else "boosted"
    if len(schema.classes) >= MANY_CLASSES and schema.rows <= MOST_ROWS:
        name = "waves"
    elif name == "boosted" and schema.rows <= MOST_BOOSTED and not _grows(schema, epsilon):
        name = "boosted waves"
    return candidate(name, schema, epsilon, _reason(name, schema, signal))


def rule(signal: float) -> str:
    """The candidate for declared bounds and so many rows x epsilon."""
    return "linear" if signal < LINEAR_BELOW else "boosted"


def candidate(name: str, schema: Schema, epsilon: float = 0.0, reason: str = "") -> Choice:
    """One of `CANDIDATES` for a table."""
    learner, bins, centred = CANDIDATES[name]
    settings: dict[str, Any] = dict(GROWN) if name == "boosted" and _grows(schema, epsilon) else {}
    if name in ("waves", "boosted waves"):
        settings = dict(WAVES if name == "waves" else BOOSTED_WAVES)
    before: tuple[Stage, ...] = ()
    if bins and schema.bounded and Bins().cost(schema, 1.0) != NOTHING:  # where bounds are bought, bins come with them
        cost = configured(learner, find_learner(learner), settings).cost(schema, 1.0)
        share = share_for(cost, BIN_FRACTION)
        before = (Stage(what=BIN_NUMBERS, mechanism=Bins(), join=Bins.join, share=share),)
    return Choice(learner=learner, settings=settings, before=before, centred=centred, reasons=(reason,) * bool(reason))


def _grows(schema: Schema, epsilon: float) -> bool:
    """Whether a regression has more and deeper trees."""
    return not schema.classes and schema.rows * epsilon >= CLEAR and schema.rows <= MANY_ROWS


def able_candidates(schema: Schema) -> list[str]:
    """The candidates that are compared for the target of a table."""
    if len(schema.classes) >= MANY_CLASSES:
        return ["linear with bins", "boosted", "waves"]
    able = [name for name, (learner, *_) in CANDIDATES.items() if schema.task in find_learner(learner).tasks]
    return [name for name in able if name != "waves"]


@cache
def evidence() -> list[Mapping[str, Any]]:
    """The cells of the study: table, rows, columns, classes, epsilon, which half, and the score of each candidate."""
    stored = files("privaware.workflow").joinpath("table_evidence.json").read_text(encoding="utf-8")
    cells: list[Mapping[str, Any]] = json.loads(stored)
    return cells


def _reason(name: str, schema: Schema, signal: float) -> str:
    """Return the sentence of the plan: the learner, and how often it was best at a similar rows x epsilon."""
    alike = [
        cell["scores"]
        for cell in evidence()
        if _kind(cell["classes"]) == _kind(len(schema.classes)) and 0.1 < cell["rows"] * cell["epsilon"] / signal < 10
    ]
    best = sum(scores[name] >= max(scores.values()) - CLOSE for scores in alike)
    words = WORDS.get(name, name)
    if not alike:
        return (
            f"Learner: {words}. There is no benchmark table of similar size and budget (rows x epsilon {signal:.3g})."
        )
    return (
        f"Learner: {words}. In {len(alike)} benchmark runs on tables of similar size and budget (rows "
        "x epsilon within a "
        f"factor of 10 of {signal:.3g}), its score was the best or within {CLOSE:g} of the best {best} times."
    )


def _kind(classes: int) -> tuple[bool, bool]:
    """Whether a table has classes, and many of them."""
    return classes > 0, classes >= MANY_CLASSES
