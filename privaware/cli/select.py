"""`privaware select`: columns worth having, chosen under a budget."""

from __future__ import annotations

from typing import Any

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import confirm, say, show

app = typer.Typer()


@app.command(
    epilog="Example: privaware select people.csv --target income --method cfs_greedy --epsilon 1 --accept-schema"
)
@o.with_run_options
def select(
    data: o.DATA,
    method: o.METHOD = "cfs_greedy",
    epsilon: o.EPSILON = 1.0,
    columns: o.COLUMNS = None,
    population: o.POPULATION = None,
    generations: o.GENERATIONS = None,
    set_: o.SET = None,
    out: o.SELECTION = None,
    json: o.JSON = False,
    **run_options: Any,
) -> None:
    """Choose columns worth their noise; the choice itself is charged."""
    from privaware.workflow.select import select as run

    sizes = {"columns": columns, "population": population, "generations": generations}
    settings = {**o.named_values("--set", set_), **{k: v for k, v in sizes.items() if v is not None}}
    selection = run(
        data, method=method, epsilon=epsilon, settings=settings, out=out, say=say, confirm=confirm, **run_options
    )
    show(
        selection.json(),
        [*(selection.columns or ()), f"epsilon {selection.epsilon:.4g} at delta {selection.delta:g}"],
        json,
    )
