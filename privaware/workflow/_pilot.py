"""The pilot of `advise`: a charged run that trains a model with a small epsilon and releases its score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privaware._rounded import rounded_up
from privaware.errors import WrongInput
from privaware.schema import Schema
from privaware.workflow._accuracy_curves import Pilot, TableFacts
from privaware.workflow._answer import least_epsilon
from privaware.workflow._score import Score, ScoredModel, with_score
from privaware.workflow.run.charge import charged_run
from privaware.workflow.run.options import RunOptions
from privaware.workflow.run.plan import Plan, expect_budget
from privaware.workflow.run.training_plan import training_plan

__all__ = ["HELD_OUT", "charged_pilot", "pilot_plan", "read_pilot"]

FILE = "pilot.json"
HELD_OUT = 0.3
"""Fraction of the rows that score the model of a pilot."""
SCORE_FRACTION = 0.6
"""Epsilon of the score as a fraction of the epsilon of the pilot; training and score use different rows."""
INFORMATIVE = 2.0
"""Recommended epsilon of a pilot, as a multiple of the least epsilon at which it trains more than a constant."""


def pilot_plan(schema: Schema, *, pilot: float, delta: float, epsilon: float) -> Plan:
    """Return the plan of a pilot that costs `pilot`; a new ledger also gets room for a model that costs `epsilon`.

    Raise `WrongInput` if `auto` would train a constant prediction at this cost.
    """
    expect_budget(schema, pilot, delta)
    least = least_epsilon(schema, delta) / (1 - HELD_OUT)
    if pilot < least:
        raise WrongInput(
            f"expected --pilot of at least {least:.2g} for {schema.rows:,} rows, better {INFORMATIVE * least:.2g}, got "
            f"{pilot:g}: with less, `auto` trains a constant prediction, which shows nothing about this table"
        )
    plan = training_plan(schema, epsilon=pilot, delta=delta)
    plan = with_score(plan, epsilon=SCORE_FRACTION * pilot, metric="accuracy", held_out=HELD_OUT)
    reason = f"Pilot: it costs epsilon {pilot:g} and places this table on the measured curves. Its model is not kept."
    room = (
        f"A ledger that exists keeps its limit. Without --limit, a new ledger has a limit of {pilot + epsilon:g}: the "
        f"pilot, and --epsilon {epsilon:g} for a model."
    )
    return replace(plan, reasons=(reason, *plan.reasons, room), requested=pilot + epsilon)


def charged_pilot(data: Any, options: RunOptions, *, pilot: float, epsilon: float) -> tuple[Pilot | None, str]:
    """Charge and run a pilot that costs `pilot`; return what it released, and what it cost in words.

    A new ledger also gets room for a model that costs `epsilon`.

    If the same pilot was charged and published before, its stored result is returned. A dry run returns None and a
    sentence.
    """
    with charged_run("advise", data, options) as run:
        schema = run.schema
        plan = pilot_plan(schema, pilot=pilot, delta=options.delta_for(schema), epsilon=epsilon)
        if run.charge(plan, what=f"advise {run.source.name}: pilot with {plan.learner} and its score"):
            released: ScoredModel = run.execute()
            score: Mapping[str, Any] = released.score.json()
            facts = {"epsilon": plan.epsilon, "delta": plan.delta, "certified": run.certified, "plan": plan.sentences}
            run.publish_result(FILE, {**facts, "score": score})
        elif run.result is not None:
            score = run.result["score"]
        else:
            return None, "Nothing is charged: this is a dry run."
    cost = f"The pilot cost epsilon {rounded_up(plan.epsilon)}. {Score.of(score).sentence}"
    return read_pilot(Score.of(score), schema, plan), cost


def read_pilot(score: Score, schema: Schema, plan: Plan) -> Pilot:
    """Return the released accuracy with its standard error, the signal of the training, and the constant's accuracy.

    The standard error follows from the 95% interval of `score`, and the signal from the epsilon of `plan`. The accuracy
    of a constant prediction is clipped to [1 / classes, 0.99]; it is None if it was not released.
    """
    facts = TableFacts(rows=schema.rows, classes=len(schema.classes), least_epsilon=0.0)
    constant = None if score.constant is None else score.constant["value"]
    return Pilot(
        accuracy=score.value,
        error=(score.high - score.low) / (2 * 1.96),
        signal=float(facts.signal((1 - HELD_OUT) * plan.epsilon)),
        constant=None if constant is None else min(max(constant, 1 / len(schema.classes)), 0.99),
    )
