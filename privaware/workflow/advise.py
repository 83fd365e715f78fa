"""Say which epsilon an accuracy needs, and which findings apply to a data set, with their evidence.

Without a pilot only public facts are used, nothing is charged, and the answer is about other tables. A pilot is a
charged run that trains a model and releases its score. It places this table on the measured curves. The evidence of a
finding is what this package measured, beside the claim of the paper, and it says where the two differ.

>>> advised = advise("wisconsin", epsilon=1.0, accuracy=0.9)
>>> advised.estimate["epsilon"], advised.estimate["about"]
(None, 'other tables')
>>> advised.advice[0]["name"]
'table'
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
from privaware.workflow._advice_rules import AdviceFacts, advice
from privaware.workflow._advice_words import advice_page
from privaware.workflow._answer import answer_for, unmeasured
from privaware.workflow._pilot import charged_pilot
from privaware.workflow.auto import choose
from privaware.workflow.auto._facts import NETWORKS
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

    `estimate` has the `epsilon` that the accuracy needs (after a pilot only), and its 10% and 90% quantiles `low` and
    `high`. Its entry `about` says whether they are about "other tables" or "this table"; it is absent if no measured
    curve applies. After a pilot, `chance` is the probability that this table reaches the accuracy at epsilon 10 or
    less. Values that are not known are None, and `reason` says why. `curve` has the accuracy to expect at several
    epsilons. `pilot` has the accuracy that a pilot released, its standard `error` and the pilot's `epsilon`. `choice`
    has the rule by which `fit` chooses, its learner, its reason `why`, its page of `evidence` and its `warning`.
    `advice` has the findings that apply. `risk` has, for each false positive rate `fpr`, the largest true positive rate
    of any attack: `gaussian` for a Gaussian mechanism with this epsilon (such as the learner `linear`), and `any` for
    any mechanism with this epsilon and delta.
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
        """Return the answer, its plot and the findings with their evidence as one HTML page."""
        return advice_page(self)


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
        The epsilon of a charged run that trains a model and releases its score. The estimate is then about this table.
    public
        Public rows that are available. They are not read.
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
    expect_accuracy(accuracy)
    options = RunOptions.of(run_options if pilot is not None else {**run_options, "dry_run": True})
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


def expect_accuracy(accuracy: float | None) -> None:
    """Raise `WrongInput` for an accuracy that is not above 0 and below 1; None is allowed."""
    if accuracy is not None and not 0 < accuracy < 1:
        raise WrongInput(f"expected --accuracy as a fraction between 0 and 1, such as 0.9, got {accuracy!r:.40}")


def expect_table(schema: Schema) -> None:
    """Raise `WrongInput`, before a pilot is charged, if the measured curves do not apply to data of this schema."""
    if (reason := unmeasured(schema, pilot=True)) is not None:
        raise WrongInput(f"expected a table with classes and enough rows for --pilot: {reason}; leave --pilot out")


def _choice(schema: Schema, epsilon: float) -> dict[str, str]:
    """Return what the policy of `fit` chooses, why, and the warning about a public network, if it uses one."""
    choice = choose(schema, epsilon)
    warnings = [network.warning for network in NETWORKS.values() if network.warning in choice.reasons]
    chosen = {"rule": choice.rule, "learner": choice.learner, "why": choice.reasons[0], "evidence": choice.evidence}
    return {**chosen, "warning": " ".join(warnings)}


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
