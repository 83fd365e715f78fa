"""What `advise` estimates: the epsilon that an accuracy needs, and the accuracy to expect at several epsilons."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privaware.data._persons import of_persons
from privaware.errors import for_caller
from privaware.schema import Schema
from privaware.workflow._accuracy_curves import (
    GRID,
    MANY_CLASSES,
    TOLERANCE,
    Curve,
    Expected,
    Pilot,
    TableFacts,
    measured_curves,
    of_others,
    of_pilot,
)
from privaware.workflow.auto import constant_choice
from privaware.workflow.run.training_plan import training_plan

SIZE_FACTOR = 4.0
"""Largest factor between the numbers of rows of two tables of similar size."""
PILOT_SIZE_FACTOR = 10.0
"""Factor by which a table with a pilot may be smaller than the smallest or larger than the largest measured table."""
PILOT_ADVICE = "--pilot=0.2 measures it with a charged run"
FEWEST_TABLES = 5
"""Smallest number of measured tables of similar size for an estimate without a pilot."""
LIKELY_ENOUGH = 0.15
"""Least probability of `accuracy - TOLERANCE` at epsilon 10 or less for which `advise` names an epsilon."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The `estimate` and the `curve` of `advise --json`.

    `estimate` has the `epsilon` that the accuracy needs, with its 80% interval from `low` to `high`, and a `reason`:
    why they are not known or doubtful. Each of these may be None. If measured curves apply, its entry `about` is "this
    table" or "other tables". `curve` is a result of `Expected.curve`, or empty.
    """

    estimate: dict[str, Any]
    curve: list[dict[str, float]]


def unmeasured(schema: Schema, *, pilot: bool) -> str | None:
    """Return why the measured curves do not apply to data of `schema`; None if they do.

    They apply to tables with classes and `smallest / factor <= rows <= largest * factor`, where `smallest` and
    `largest` are the numbers of rows of measured tables. `factor` is `PILOT_SIZE_FACTOR` with a `pilot`, else
    `SIZE_FACTOR`.
    """
    if schema.form != "table":
        return f"curves were measured on tables, and these data are {schema.form}s"
    if not schema.classes:
        return "curves were measured for classes, and this target is a number"
    sizes = [curve.rows for curve in _curves(schema)]
    factor = PILOT_SIZE_FACTOR if pilot else SIZE_FACTOR
    if not min(sizes) / factor <= schema.rows <= max(sizes) * factor:
        return f"curves were measured on {min(sizes):,} to {max(sizes):,} rows, and this table has {schema.rows:,}"
    return None


def answer_for(schema: Schema, delta: float, accuracy: float | None, pilot: Pilot | None) -> Answer:
    """Return the `Answer` from `pilot`, a pilot on this table; without one, from measured tables of similar size.

    If `accuracy` is None, only a curve is estimated. `delta` is the delta at which `auto` plans. Without a pilot,
    measured tables on which a constant prediction already reaches `accuracy` are left out. The result has no curve, and
    only a reason, if `unmeasured` gives one, or if fewer than `FEWEST_TABLES` tables remain.
    """
    if (reason := unmeasured(schema, pilot=pilot is not None)) is not None:
        way = "To measure it, train a model with `privaware fit --score`, which releases its score with noise"
        return Answer(estimate=_estimate(reason=f"Not known: {reason}. {way}."), curve=[])
    facts = facts_of_table(schema, least_epsilon(schema, delta))
    if pilot is not None:
        expected = of_pilot(_curves(schema), facts, pilot)
        return Answer(estimate=_of_this_table(expected, accuracy, pilot), curve=expected.curve())
    harder = [curve for curve in _curves(schema) if accuracy is None or curve.constant < accuracy]
    similar = _similar(harder, schema.rows)
    if len(similar) < FEWEST_TABLES:
        return Answer(estimate=_estimate(reason=_too_few(similar, schema)), curve=[])
    expected = of_others(similar, facts)
    return Answer(estimate=_of_other_tables(expected, accuracy, len(similar)), curve=expected.curve())


def facts_of_table(schema: Schema, least_epsilon: float = 0.0) -> TableFacts:
    """Return the facts about the table of `schema`; below `least_epsilon`, `auto` trains a constant prediction."""
    cap = schema.cap if of_persons(schema) else 1
    return TableFacts(rows=schema.rows, classes=len(schema.classes), least_epsilon=least_epsilon, cap=cap)


def _too_few(similar: Sequence[Curve], schema: Schema) -> str:
    """Return why there is no estimate, given that fewer than `FEWEST_TABLES` measured tables are `similar` to this one.

    `similar` are the tables of similar size on which a constant prediction does not reach the requested accuracy. The
    reason says whether too few tables have a similar size, or a constant prediction reaches the accuracy on too many of
    them.
    """
    tables = len(_similar(_curves(schema), schema.rows))
    if tables < FEWEST_TABLES:
        return f"Not known: only {tables} measured tables have a similar size; {PILOT_ADVICE}."
    easy = f"{tables - len(similar)} of {tables}" if similar else f"all {tables}"
    return f"Not known: on {easy} measured tables of similar size, a constant reaches it."


def least_epsilon(schema: Schema, delta: float) -> float:
    """Return the smallest epsilon of `GRID` at which `auto` trains more than a constant; infinity if none does.

    The search assumes that `auto` trains more than a constant at every epsilon above such an epsilon.
    """
    constant = constant_choice(schema, "").learner

    def trains(at: int) -> bool:
        return training_plan(schema, epsilon=float(GRID[at]), delta=delta).learner != constant

    first = bisect_left(range(len(GRID)), True, key=trains)
    return float(GRID[first]) if first < len(GRID) else math.inf


def _curves(schema: Schema) -> tuple[Curve, ...]:
    return measured_curves(len(schema.classes) >= MANY_CLASSES)


def _similar(curves: Sequence[Curve], rows: int) -> list[Curve]:
    """Return one of `curves` for each table that was measured at a similar size, the nearest to `rows` first.

    A size is similar if its number of rows differs from `rows` by a factor of at most `SIZE_FACTOR`. The nearest size
    has the smallest factor. Of several curves of one table, the one with the nearest number of rows is returned.
    """
    nearest: dict[str, Curve] = {}
    for curve in sorted(curves, key=lambda curve: abs(math.log(curve.rows / rows))):
        if curve.rows <= rows * SIZE_FACTOR and rows <= curve.rows * SIZE_FACTOR:
            nearest.setdefault(curve.table, curve)
    return list(nearest.values())


def _estimate(
    *, epsilon: float | None = None, low: float | None = None, high: float | None = None, reason: str | None = None
) -> dict[str, Any]:
    ends = {"epsilon": epsilon, "low": low, "high": high}
    rounded = {
        name: None if end is None or not math.isfinite(end) else float(f"{end:.2g}") for name, end in ends.items()
    }
    return {**rounded, "reason": reason and for_caller(reason)}


def _of_other_tables(expected: Expected, accuracy: float | None, tables: int) -> dict[str, Any]:
    about = {"about": "other tables", "tables": tables}
    if accuracy is None:
        return {**_estimate(reason="No --accuracy was given."), **about}
    low, _, high = expected.needed(accuracy)
    reason = f"How hard this table is cannot be known without spending: {PILOT_ADVICE}."
    return {**_estimate(low=low, high=high, reason=reason), **about}


def _of_this_table(expected: Expected, accuracy: float | None, pilot: Pilot) -> dict[str, Any]:
    """Return the estimate for the table of `pilot`: the epsilon that `accuracy` needs, its interval and its `chance`.

    `expected` are the accuracies to expect after the pilot. Return only a reason if `accuracy` is None, if the released
    accuracy of a constant prediction reaches it, or if an accuracy within `TOLERANCE` of it is too improbable
    (`LIKELY_ENOUGH`). The estimate has a reason for doubt if the pilot may be no better than a constant prediction.
    """
    about, constant = {"about": "this table"}, pilot.constant
    if accuracy is None:
        return {**_estimate(reason="No --accuracy was given."), **about}
    low, epsilon, high = expected.posterior(accuracy)
    most = expected.at(float(GRID[-1]))
    if constant is not None and accuracy <= constant:
        reason = (
            f"By the released counts, a constant prediction has an accuracy of about {constant:.2f}: probably no "
            "epsilon is needed."
        )
        return {**_estimate(reason=reason), **about}
    if expected.chance(accuracy - TOLERANCE) < LIKELY_ENOUGH:
        reason = f"Not reached: at epsilon {GRID[-1]:g} expect {most[1]:.2f} ({most[0]:.2f} to {most[2]:.2f})."
        return {**_estimate(reason=reason), **about}
    named = _estimate(epsilon=epsilon, low=low, high=high, reason=_doubt(pilot))
    return {**named, **about, "chance": expected.chance(accuracy)}


def _doubt(pilot: Pilot) -> str | None:
    """Return a warning if the model of the pilot may be no better than a constant prediction; otherwise return None.

    It may be if `pilot.constant >= pilot.accuracy - 1.96 * pilot.error`. If `pilot.constant` is None, return None.
    """
    if pilot.constant is None or pilot.constant < pilot.accuracy - 1.96 * pilot.error:
        return None
    return (
        f"The model of the pilot may be no better than a constant prediction: its accuracy is {pilot.accuracy:.2f}, "
        f"with a 95% interval of ± {1.96 * pilot.error:.2f}, and the accuracy of the constant is {pilot.constant:.2f}. "
        "So this epsilon follows mostly from other tables."
    )
