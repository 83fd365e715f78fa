"""`privaware crossover`: the epsilon up to which the simpler of two models is better."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privaware._rounded import rounded_up
from privaware.cli import _options as o
from privaware.cli._terminal import say, show

app = typer.Typer()
_CONTENDER = "a learner (linear, linear:columns=age+town,steps=50), a published model, or a model in JSON."
COMPARISON = Annotated[Path | None, o.option("A new folder for crossover.json and a plot.")]
EPSILONS = Annotated[
    str | None,
    o.option(
        "The epsilons to try, in ascending order, separated by commas. Default: as many of 0.1,0.3,1,3,10 as --total "
        "allows."
    ),
]
REPEATS = Annotated[
    int | None,
    o.option(
        "The number of times that each model is trained at each epsilon. Default: as many as --total allows, up to 5."
    ),
]
TOTAL = Annotated[
    float | None,
    o.option(
        "The largest epsilon of all trainings and scores together. A given total is the limit of a new ledger, unless "
        "--limit is given. Default: 5, or --limit if it is smaller; no bound for built-in data."
    ),
]
SIMPLE = Annotated[str, o.option(f"The simple model: {_CONTENDER}", "--simple")]
COMPLEX = Annotated[str, o.option(f"The complex model: {_CONTENDER}", "--complex")]


@app.command(
    epilog="Example: privaware crossover wisconsin --simple majority --complex linear --epsilons 0.03,0.1,0.3,1"
)
@o.with_run_options
def crossover(
    data: o.DATA,
    simple: SIMPLE,
    complex_: COMPLEX,
    epsilons: EPSILONS = None,
    repeats: REPEATS = None,
    total: TOTAL = None,
    set_: o.SET = None,
    device: o.DEVICE = "cpu",
    out: COMPARISON = None,
    json: o.JSON = False,
    **run_options: Any,
) -> None:
    """Find the epsilon up to which the simpler of two models is better. Every training run is charged."""
    from privaware.workflow.crossover import crossover as run

    result = run(
        data,
        simple=simple,
        complex=complex_,
        epsilons=None if epsilons is None else o.numbers("--epsilons", epsilons),
        repeats=repeats,
        total=total,
        settings=o.named_values("--set", set_),
        device=device,
        out=out,
        say=say,
        **run_options,
    )
    lines = [] if result.crossover is None else [result.crossover.sentence]
    for low, high in zip(result.curves["simple"], result.curves["complex"], strict=True):
        lines.append(f"epsilon {low.x:g}: simple {_score(low)}, complex {_score(high)}")
    if result.crossover is not None and result.repeats > 1:
        lines.append(f"In brackets: the 95% interval of the mean over {result.repeats} repeats.")
    cost = "Total cost" if result.crossover is not None else "The run would cost"
    price = f"{cost}: epsilon {rounded_up(result.epsilon)} at delta {rounded_up(result.delta)}"
    lines.append(f"Note: {result.note}. {price}.")
    show(result.json(), lines, json)


def _score(point: Any) -> str:
    """Return the mean of the scores of a `Point` as text; if it has several, with the interval of the mean."""
    ends = f" ({point.low:.4f} to {point.high:.4f})" if len(point.scores) > 1 else ""
    return f"{point.mean:.4f}{ends}"
