"""What to do with these data at this epsilon, and why: rules with evidence, from public facts only.

The rules are the flowchart of Bao et al. and section 5.7 of DPMLBench. Their evidence is our own recorded runs, with
the paper's claim beside it, and says where the two differ. Nothing is charged.

>>> advised = advise("digits", epsilon=1.0, accuracy=0.8)
>>> advised.advice[0]["rule"]
'Learn a linear model on features without privacy cost: the prior with scattering, or `extractor`'
>>> [estimate["data"] for estimate in advised.estimates]
['digits']
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np

from privaware import accounting
from privaware.errors import WrongInput
from privaware.events import Gaussian
from privaware.schema import Schema
from privaware.workflow._advice_rules import AdviceFacts, advice, stored_evidence
from privaware.workflow._estimates import estimates
from privaware.workflow._options import RunArguments, RunOptions
from privaware.workflow._plan import expect_budget
from privaware.workflow._source import resolve

__all__ = ["Advised", "advise"]

FPRS = (0.001, 0.01, 0.1)
SCHEMA_ONLY = "nothing is charged: the schema alone was looked at"
GIVEN = (
    "nothing is charged: names, kinds and classes of columns and the number of rows were looked at, which `fit` takes "
    "as given and names in its guarantee"
)


@dataclass(frozen=True, kw_only=True)
class Advised:
    """The rules that apply, the largest risk of an attack, and estimates where an accuracy was asked for.

    `risk` is for each false positive rate the largest true positive rate of any attack: `gaussian` on a Gaussian
    mechanism at this epsilon (what `linear` is), `any` on any mechanism with this epsilon and delta.
    """

    data: str
    epsilon: float
    delta: float
    facts: dict[str, Any]
    advice: list[dict[str, Any]] = field(repr=False)
    risk: list[dict[str, float]]
    accuracy: float | None
    estimates: list[dict[str, Any]] = field(repr=False)
    note: str
    charged: str

    def json(self) -> dict[str, Any]:
        """The fields of `privaware advise --json`."""
        return dict(vars(self))


def advise(
    data: Any, *, epsilon: float, accuracy: float | None = None, public: Any = None, **run_options: Unpack[RunArguments]
) -> Advised:
    """Rules for `data` at `epsilon`, each with its reason and its evidence; nothing is charged.

    Data and schema are given as for `fit`. With `accuracy` also which epsilon it needs at these rows, and how many rows
    at this epsilon, on recorded data of the same form. `public` says that there are public rows.

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
        advice=list(advice(AdviceFacts(schema=schema, epsilon=epsilon, public=public is not None))),
        risk=_risk(epsilon, delta),
        accuracy=accuracy,
        estimates=_estimates(source.name, schema, epsilon, accuracy),
        note=_note(schema, accuracy),
        charged=SCHEMA_ONLY if source.builtin or options.schema is not None else GIVEN,
    )


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
        return "give --accuracy to learn which epsilon and how many rows it needs"
    law = stored_evidence()["evidence"]["size_law"]
    return (
        "estimates are those of the named public data sets by a sample-size law, not of yours: how hard yours are is "
        f"known only from a charged run. The law as published: {law['paper']}; the same measured here: {law['ours']}"
    )
