"""Say which epsilon an accuracy needs, and which findings apply to a data set, with their evidence.

Without a pilot only public facts are used, nothing is charged, and the estimate is about other tables. A pilot is a
charged run that trains a model and releases its score. It places this table on the measured curves. The evidence of a
finding is what this package measured, beside the claim of the paper, and it says where the two differ.

>>> advised = advise("wisconsin", epsilon=1.0, accuracy=0.9)
>>> advised.estimate["epsilon"], advised.estimate["about"]
(None, 'other tables')
>>> advised.advice[0]["name"]
'table'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np

from privaware import accounting
from privaware._rounded import rounded_up
from privaware._summary import Summarised
from privaware._validate import expect, typed_arguments
from privaware.errors import WrongInput, for_caller
from privaware.events import Gaussian
from privaware.schema import Schema
from privaware.workflow._accuracy_curves import Pilot
from privaware.workflow._advice_rules import AdviceFacts, advice
from privaware.workflow._advice_words import advice_page
from privaware.workflow._answer import answer_for, facts_of_table, least_epsilon, unmeasured
from privaware.workflow._score import Score, ScoredModel, with_score
from privaware.workflow.auto import choose_with_texts
from privaware.workflow.auto._facts import NETWORKS
from privaware.workflow.run.charge import charged_run
from privaware.workflow.run.options import RunArguments, RunOptions
from privaware.workflow.run.output import PILOT
from privaware.workflow.run.plan import Plan
from privaware.workflow.run.pricing import expect_budget
from privaware.workflow.run.source import resolve
from privaware.workflow.run.training_plan import training_plan

__all__ = ["HELD_OUT", "Advised", "advise", "charged_pilot", "pilot_plan", "read_pilot"]

FPRS = (0.001, 0.01, 0.1)
SCHEMA_ONLY = "Nothing is charged: only the schema was read."
GIVEN = (
    "Nothing is charged: only the names and types of columns, the classes and the number of rows were read. `fit` also "
    "takes these facts as public, and its guarantee lists them."
)
HELD_OUT = 0.3
"""Fraction of the rows that score the model of a pilot."""
SCORE_FRACTION = 0.6
"""Epsilon of the score as a fraction of the epsilon of the pilot.

Training and score use different rows, so their epsilons do not add up.
"""
INFORMATIVE = 2.0
"""Recommended epsilon of a pilot, as a multiple of the least epsilon at which it trains more than a constant."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Advised(Summarised):
    """The result of `advise`.

    `data` is the name of the data. `epsilon` and `delta` are the budget of the planned `fit`, and `accuracy` is the
    requested accuracy, if any. `facts` has `form`, `task`, `rows`, `columns` (a number), `classes` (a number) and
    `unit`. `charged` says in a sentence what was charged. `estimate` has the `epsilon` that the accuracy needs (after a
    pilot only), and its 10% and 90% quantiles `low` and `high`. Its entry `about` says whether they are about "other
    tables" or "this table"; it is absent if no measured curve applies. After a pilot, `chance` is the probability that
    this table reaches the accuracy at epsilon 10 or less, and `epsilon` gives the accuracy within 0.02, if it is
    reached. Values that are not known are None, and `reason` says why; beside an `epsilon`, `reason` warns that the
    pilot may be no better than a constant prediction, or is None. `curve` has the accuracy to expect at several
    epsilons, each with `epsilon`, `accuracy`, `low` and `high`. `pilot` has the accuracy that a pilot released, its
    standard `error` and the pilot's `epsilon`. `choice` describes what the learner `auto` of `fit` takes: the name of
    the `rule`, the `learner`, the reason `why`, the page of `evidence` and a `warning`. `advice` has the findings that
    apply. `risk` has, for each false positive rate `fpr`, the largest true positive rate of any attack: `gaussian` for
    a Gaussian mechanism with this epsilon (such as the learner `linear`), and `any` for any mechanism with this epsilon
    and delta.
    """

    data: str
    epsilon: float
    delta: float
    facts: dict[str, Any]
    accuracy: float | None
    estimate: dict[str, Any]
    curve: list[dict[str, float]] = field(repr=False)
    pilot: dict[str, float] | None
    choice: dict[str, str] = field(repr=False)
    advice: list[dict[str, Any]] = field(repr=False)
    risk: list[dict[str, float]] = field(repr=False)
    charged: str

    def _facts(self) -> dict[str, Any]:
        budget = {"epsilon": self.epsilon, "delta": self.delta, "accuracy": self.accuracy}
        return {"data": self.data, "learner": self.choice["learner"], **budget, "rules": len(self.advice)}

    def _words(self) -> str:
        return self.choice["why"]

    def json(self) -> dict[str, Any]:
        """Return the fields of `privaware advise --json`."""
        return dict(vars(self))

    def html(self) -> str:
        """Return the estimate, its plot and the findings with their evidence as one HTML page."""
        return advice_page(self)


@typed_arguments
def advise(
    data: Any,
    *,
    epsilon: float = 1.0,
    accuracy: float | None = None,
    pilot: float | None = None,
    public: Any = None,
    **run_options: Unpack[RunArguments],
) -> Advised:
    """Say which epsilon an accuracy needs, and which findings apply. Only `pilot` is charged.

    Parameters
    ----------
    data
        The data, as for `fit`. Without `pilot` only the schema, or columns, types, classes and number of rows, is read.
    epsilon
        The privacy budget for which the findings and the risk are given.
    accuracy
        An accuracy between 0 and 1. The result estimates the epsilon that it needs.
    pilot
        The epsilon of a charged run whose score places this table. The same pilot with the same `out` is charged once.
    public
        Public rows that are available, if any. They are not read; only whether they are given counts.
    **run_options
        The options of `fit` that describe the data, such as `target` and `schema`; with `pilot`, also of the ledger.

    Returns
    -------
    Advised
        The estimate, the accuracy to expect at several epsilons, the findings with their evidence, and the risk.

    Examples
    --------
    >>> len(advise("wisconsin").advice) > 0
    True
    """
    expect(accuracy is None or 0 < accuracy < 1, "", "--accuracy as a fraction between 0 and 1, such as 0.9", accuracy)
    options = _options(run_options, pilot)
    source = resolve(data, options)
    schema, delta = source.schema, options.delta_for(source.schema)
    expect_budget(schema, epsilon, delta)
    released, charged = None, SCHEMA_ONLY if source.builtin or options.schema is not None else GIVEN
    if pilot is not None:
        expect_table(schema)
        released, charged = charged_pilot(data, options, pilot=pilot, epsilon=epsilon)
    answer = answer_for(schema, delta, accuracy, released)
    return Advised(
        data=source.name,
        epsilon=epsilon,
        delta=delta,
        facts=_shown(schema),
        accuracy=accuracy,
        estimate=answer.estimate,
        curve=answer.curve,
        pilot=None if released is None else {**released.json(), "epsilon": float(pilot or 0.0)},
        choice=_choice(schema, epsilon),
        advice=list(advice(AdviceFacts(schema=schema, epsilon=epsilon, public=public is not None))),
        risk=_risk(epsilon, delta),
        charged=charged,
    )


def _options(run_options: RunArguments, pilot: float | None) -> RunOptions:
    """Return the options of a run, which is a dry run without a pilot; raise `WrongInput` for `out` without a pilot."""
    if pilot is None and run_options.get("out") is not None:
        raise WrongInput("expected --pilot with --out, the folder of its released score; leave --out out without one")
    return RunOptions.of(run_options if pilot is not None else {**run_options, "dry_run": True})


def expect_table(schema: Schema) -> None:
    """Raise `WrongInput`, before a pilot is charged, if no measured curve applies to such data (see `unmeasured`)."""
    if (reason := unmeasured(schema, pilot=True)) is not None:
        raise WrongInput(f"expected a table with classes and enough rows for --pilot: {reason}; leave --pilot out")


def pilot_plan(schema: Schema, *, pilot: float, delta: float, epsilon: float) -> Plan:
    """Return the plan of a pilot: a training whose model gets a released score, for epsilon `pilot` in total.

    By default a new ledger has the limit `pilot + epsilon`, which leaves `epsilon` for a model. Raise `WrongInput` if
    `auto` would train a constant prediction at this cost.
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
    return replace(plan, reasons=(reason, *plan.reasons), requested=pilot, room=epsilon)


def charged_pilot(data: Any, options: RunOptions, *, pilot: float, epsilon: float) -> tuple[Pilot | None, str]:
    """Charge and run a pilot: a training whose model gets a released score, for epsilon `pilot` in total.

    Return what the pilot released, and a text about its cost and its score. By default a new ledger has the limit
    `pilot + epsilon`, which leaves `epsilon` for a model. If the same pilot was charged and published before, its
    stored result is returned, whatever `epsilon` is. A dry run returns None and a sentence.
    """
    spent = "The pilot cost epsilon {}."
    with charged_run("advise", data, options) as run:
        schema = run.schema
        delta = options.delta_for(schema)
        plan = pilot_plan(schema, pilot=pilot, delta=delta, epsilon=epsilon)
        into = "" if options.folder is None else f" into {options.folder.name}"
        if run.charge(plan, what=f"advise {run.source.name}: pilot with {plan.learner} and its score{into}"):
            released: ScoredModel = run.execute()
            score: Mapping[str, Any] = released.score.json()
            facts = {"epsilon": plan.epsilon, "delta": plan.delta, "certified": run.certified, "plan": plan.sentences}
            run.publish_result(PILOT, {**facts, "score": score})
        elif run.result is not None:
            score = run.result["score"]
            spent = "The pilot cost epsilon {} when it ran, and nothing was charged again."
        else:
            return None, "Nothing is charged: this is a dry run."
    kept = ""
    if options.folder is not None:
        kept = f" Its score is kept in {str(options.folder)!r}, so that the same pilot is not charged again."
    cost = f"{spent.format(rounded_up(plan.epsilon))} {Score.of(score).sentence}{kept}"
    return read_pilot(Score.of(score), schema, plan), cost


def read_pilot(score: Score, schema: Schema, plan: Plan) -> Pilot:
    """Return what the released `score` of a pilot says: an accuracy, its standard error, and a constant's accuracy.

    The standard error follows from the 95% interval of `score`. The accuracy of a constant prediction is clipped to [1
    / classes, 0.99]; it is None if it was not released. The result also has the signal of the training
    (`TableFacts.signal`) at `(1 - HELD_OUT)` times the epsilon of `plan`.
    """
    constant = None if score.constant is None else score.constant["value"]
    return Pilot(
        accuracy=score.value,
        error=(score.high - score.low) / (2 * 1.96),
        signal=float(facts_of_table(schema).signal((1 - HELD_OUT) * plan.epsilon)),
        constant=None if constant is None else min(max(constant, 1 / len(schema.classes)), 0.99),
    )


def _choice(schema: Schema, epsilon: float) -> dict[str, str]:
    """Return what the policy of `fit` chooses, as a dictionary of texts.

    It has the `rule`, the `learner`, the reason `why`, the page of `evidence`, and the `warning` about a public
    network, which is empty if the learner uses none.
    """
    choice = choose_with_texts(schema, epsilon)
    warnings = [network.warning for network in NETWORKS.values() if network.warning in choice.reasons]
    chosen = {"rule": choice.rule, "learner": choice.learner, "why": choice.reasons[0], "evidence": choice.evidence}
    return {name: for_caller(text) for name, text in (chosen | {"warning": " ".join(warnings)}).items()}


def _shown(schema: Schema) -> dict[str, Any]:
    return {
        "form": schema.form,
        "task": schema.task,
        "rows": schema.rows,
        "columns": len(schema.used),
        "classes": len(schema.classes),
        "unit": schema.unit,
    }


def _risk(epsilon: float, delta: float) -> list[dict[str, float]]:
    noise = accounting.calibrate(lambda noise: Gaussian(noise=noise), epsilon, delta)
    at = np.array(FPRS)
    gaussian = accounting.trade_off(Gaussian(noise=noise)).powers(at)
    alone = accounting.TradeOff(np.array([min(epsilon, 700.0)]), np.array([delta])).powers(at)
    return [
        {"fpr": fpr, "gaussian": round(float(min(low, high)), 4), "any": round(float(high), 4)}
        for fpr, low, high in zip(FPRS, gaussian, alone, strict=True)
    ]
