"""`privaware crossover`: up to which epsilon the simpler of two models is better."""

from __future__ import annotations

from typing import Any

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import confirm, say, show

app = typer.Typer()


@app.command(
    epilog="Example: privaware crossover wisconsin --simple majority --complex linear --epsilons 0.03,0.1,0.3,1"
)
@o.with_run_options
def crossover(
    data: o.DATA,
    simple: o.SIMPLE,
    complex_: o.COMPLEX,
    epsilons: o.EPSILONS = "0.1,0.3,1,3,10",
    repeats: o.REPEATS = 5,
    set_: o.SET = None,
    device: o.DEVICE = "cpu",
    out: o.COMPARISON = None,
    json: o.JSON = False,
    **run_options: Any,
) -> None:
    """Up to which epsilon the simpler of two models is better; every training is charged."""
    from privaware.workflow.crossover import crossover as run

    result = run(
        data,
        simple=simple,
        complex=complex_,
        epsilons=o.numbers("--epsilons", epsilons),
        repeats=repeats,
        settings=o.named_values("--set", set_),
        device=device,
        out=out,
        say=say,
        confirm=confirm,
        **run_options,
    )
    lines = [] if result.crossover is None else [f"crossover epsilon: {result.crossover.sentence}"]
    for low, high in zip(result.curves["simple"], result.curves["complex"], strict=True):
        lines.append(
            f"epsilon {low.x:g}: simple {low.mean:.4f} ± {low.spread:.4f}, complex {high.mean:.4f} ± {high.spread:.4f}"
        )
    lines.append(f"{result.note}; all of it: epsilon {result.epsilon:.4g} at delta {result.delta:g}")
    show(result.json(), lines, json)
