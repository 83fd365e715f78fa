"""Recommend learners and settings for a data set and an epsilon, with evidence, from public facts only.

The rules are the flowchart of Bao et al. and section 5.7 of DPMLBench. The evidence of a rule is what this package
measured, beside the claim of the paper, and it says where the two differ. Nothing is charged.

>>> advised = advise("digits", epsilon=1.0, accuracy=0.8)
>>> advised.advice[0]["rule"]
'Train a linear model on features that have no privacy cost: `prior` with `scatter`, or `extractor`'
>>> [estimate["data"] for estimate in advised.estimates]
['digits']
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np

from privaware import accounting
from privaware._summary import Summarised
from privaware.errors import WrongInput
from privaware.events import Gaussian
from privaware.schema import Schema
from privaware.workflow._advice_rules import AdviceFacts, advice, stored_evidence
from privaware.workflow._estimates import estimates
from privaware.workflow.auto import choose
from privaware.workflow.run.options import RunArguments, RunOptions
from privaware.workflow.run.plan import expect_budget
from privaware.workflow.run.source import resolve

__all__ = ["Advised", "advise"]

FPRS = (0.001, 0.01, 0.1)
SCHEMA_ONLY = "Nothing is charged: only the schema was read."
GIVEN = (
    "Nothing is charged: only the names and types of columns, the classes and the number of rows were read. `fit` also "
    "takes these facts as public, and its guarantee lists them."
)


@dataclass(frozen=True, kw_only=True, repr=False)
class Advised(Summarised):
    """The result of `advise`.

    `choice` has the rule by which `fit` chooses, its learner, its reason `why` and its page of `evidence`. `advice` has
    the rules that apply. `risk` has, for each false positive rate `fpr`, the largest true positive rate of
    any attack: `gaussian` for a Gaussian mechanism with this epsilon (such as the learner `linear`), and `any` for any
    mechanism with this epsilon and delta. `estimates` is empty unless an accuracy was given.
    """

    data: str
    epsilon: float
    delta: float
    facts: dict[str, Any]
    choice: dict[str, str]
    advice: list[dict[str, Any]] = field(repr=False)
    risk: list[dict[str, float]]
    accuracy: float | None
    estimates: list[dict[str, Any]] = field(repr=False)
    note: str
    charged: str

    def _facts(self) -> dict[str, Any]:
        budget = {"epsilon": self.epsilon, "delta": self.delta, "accuracy": self.accuracy}
        return {"data": self.data, "learner": self.choice["learner"], **budget, "rules": len(self.advice)}

    def _words(self) -> str:
        return self.choice["why"]

    def json(self) -> dict[str, Any]:
        """Return the fields of `privaware advise --json`."""
        return dict(vars(self))


def advise(
    data: Any, *, epsilon: float, accuracy: float | None = None, public: Any = None, **run_options: Unpack[RunArguments]
) -> Advised:
    """Recommend learners and settings from public facts, with the evidence. Nothing is charged.

    Parameters
    ----------
    data
        The data, as for `fit`. Only public facts are read: the schema, or the names and types of columns.
    epsilon
        The privacy budget.
    accuracy
        An accuracy between 0 and 1. With it, the result estimates the epsilon and the number of rows that it needs,
        from public data of the same form.
    public
        Public rows that are available. They are not read.
    **run_options
        The options of `fit` that describe the data, such as `target`, `schema`, `unit` and `delta`.

    Returns
    -------
    Advised
        The rules that apply, each with its reason and evidence; the risk of attacks; and the estimates.

    Examples
    --------
    >>> len(advise("wisconsin", epsilon=1.0).advice) > 0
    True
    """
    options = RunOptions.of({**run_options, "dry_run": True})
    source = resolve(data, options)
    schema = source.schema
    delta = options.delta_for(schema)
    expect_budget(schema, epsilon, delta)
    return Advised(
        data=source.name,
        epsilon=epsilon,
        delta=delta,
        facts=_shown(schema),
        choice=_choice(schema, epsilon),
        advice=list(advice(AdviceFacts(schema=schema, epsilon=epsilon, public=public is not None))),
        risk=_risk(epsilon, delta),
        accuracy=accuracy,
        estimates=_estimates(source.name, schema, epsilon, accuracy),
        note=_note(schema, accuracy),
        charged=SCHEMA_ONLY if source.builtin or options.schema is not None else GIVEN,
    )


def _choice(schema: Schema, epsilon: float) -> dict[str, str]:
    """Return what the policy of `fit` chooses, and why."""
    choice = choose(schema, epsilon)
    return {"rule": choice.rule, "learner": choice.learner, "why": choice.reasons[0], "evidence": choice.evidence}


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


def _estimates(name: str, schema: Schema, epsilon: float, accuracy: float | None) -> list[dict[str, Any]]:
    if accuracy is None:
        return []
    if not schema.classes:
        raise WrongInput("expected classes to predict with --accuracy, got a regression; leave --accuracy out")
    if not 0 < accuracy < 1:
        raise WrongInput(f"expected --accuracy as a fraction between 0 and 1, such as 0.9, got {accuracy!r:.40}")
    return estimates(name, schema.form, accuracy=accuracy, rows=schema.rows, epsilon=epsilon)


def _note(schema: Schema, accuracy: float | None) -> str:
    if accuracy is None:
        return "Pass --accuracy to estimate the epsilon and the number of rows that it needs."
    law = stored_evidence()["evidence"]["size_law"]
    return (
        "The estimates extrapolate results on the named public data sets with a sample-size law. Only "
        "a charged run shows "
        f"how difficult your data are. The published law: {law['paper']}. The law measured here: {law['ours']}"
    )
