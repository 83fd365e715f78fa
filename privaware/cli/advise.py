"""`privaware advise`: recommend learners and settings for a data set and an epsilon."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import show

app = typer.Typer()
ACCURACY = Annotated[
    float | None, o.option("Also estimate the epsilon and the number of rows that this accuracy needs, such as 0.9.")
]
DELTA = Annotated[float | None, o.option("The delta of the guarantee. Default: the default of `fit`.")]
PUBLIC = Annotated[str | None, o.option("Public rows that are available. They are not read.")]


@app.command(epilog="Example: privaware advise wisconsin --epsilon 1 --accuracy 0.9")
def advise(
    data: o.DATA,
    epsilon: o.EPSILON,
    accuracy: ACCURACY = None,
    target: o.TARGET = None,
    delta: DELTA = None,
    schema: o.SCHEMA = None,
    unit: o.UNIT = None,
    task: o.TASK = None,
    public: PUBLIC = None,
    header: o.HEADER = None,
    sep: o.SEP = None,
    decimal: o.DECIMAL = None,
    encoding: o.ENCODING = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """Recommend learners and settings from public facts, with the evidence. Nothing is charged."""
    from privaware.workflow.advise import advise as run

    options: dict[str, Any] = {"target": target, "delta": delta, "schema": schema, "unit": unit, "task": task}
    options |= {"header": header, "sep": sep, "decimal": decimal, "encoding": encoding}
    result = run(data, epsilon=epsilon, accuracy=accuracy, public=public, **options)
    chosen = f"By default `fit` uses the rule {result.choice['rule']!r}. {result.choice['why']}"
    first = [chosen, f"   Measured: {result.choice['evidence']}"]
    show(result.json(), [*first, *_rules(result.advice), *_risk(result), *_estimates(result), result.charged], json)


def _rules(advice: list[dict[str, Any]]) -> list[str]:
    lines = []
    for number, each in enumerate(advice, start=1):
        lines.append(f"{number}. {each['rule']}. Reason: {each['reason']}.")
        for evidence in each["evidence"]:
            lines.append(f"   Measured: {evidence['ours']} ({evidence['page']})")
            if evidence["paper"]:
                lines.append(f"   Published{' (differs)' if evidence['differs'] else ''}: {evidence['paper']}")
    return lines


def _risk(result: Any) -> list[str]:
    rates = ", ".join(f"{100 * each['gaussian']:.3g}% at {100 * each['fpr']:g}%" for each in result.risk)
    mechanism = f"a Gaussian mechanism at epsilon {result.epsilon:g} (such as the learner linear)"
    return [
        f"A membership attack on {mechanism} has at most this true positive rate at this false positive rate: {rates}."
    ]


def _estimates(result: Any) -> list[str]:
    if result.accuracy is None:
        return []
    lines = [f"Estimates for accuracy {result.accuracy:g}, from public data of the same form:"]
    for each in result.estimates:
        if each["epsilon"] is None:
            lines.append(f"   {each['data']}, {each['learner']}: {each['note']}")
            continue
        lines.append(
            f"   {each['data']}, {each['learner']}: epsilon {_interval(each['epsilon'])} with {result.facts['rows']:,} "
            f"rows; {_interval(each['rows'])} rows at epsilon {result.epsilon:g}"
            + (f"; {each['note']}" if each["note"] else "")
        )
    return [*lines, f"   {result.note}"]


def _interval(estimate: dict[str, float]) -> str:
    value, low, high = (f"{estimate[name]:,g}" for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"
