"""`privaware select`: columns worth having, chosen under a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import say, show

app = typer.Typer()
METHOD = Annotated[str, o.option("One of `privaware list selectors`.", completes="selectors")]
COLUMNS = Annotated[int | None, o.option("How many columns to keep, at most.")]
POPULATION = Annotated[int | None, o.option("For genetic searches: sets in a generation.")]
GENERATIONS = Annotated[int | None, o.option("For genetic searches: how many generations.")]
WORKFLOW = Annotated[str, o.option("aware, or standard: choose without noise, to compare on built-in data.")]
RAY = Annotated[str | None, o.option("The address of a Ray cluster that reads the rows (Parquet), or auto.")]
SELECTION = Annotated[Path | None, o.option("A folder to make, with the choice in selection.json.")]


@app.command(epilog="Example: privaware select people.csv --target income --method cfs_greedy --epsilon 1")
@o.with_run_options
def select(
    data: o.DATA,
    method: METHOD = "cfs_greedy",
    epsilon: o.EPSILON = 1.0,
    columns: COLUMNS = None,
    population: POPULATION = None,
    generations: GENERATIONS = None,
    set_: o.SET = None,
    describe: o.DESCRIBE = None,
    workflow: WORKFLOW = "aware",
    ray: RAY = None,
    out: SELECTION = None,
    json: o.JSON = False,
    **run_options: Any,
) -> None:
    """Choose columns worth their noise; the choice itself is charged."""
    from privaware.workflow.select import select as run

    sizes = {"columns": columns, "population": population, "generations": generations}
    settings = {**o.named_values("--set", set_), **{k: v for k, v in sizes.items() if v is not None}}
    selection = run(
        data,
        method=method,
        epsilon=epsilon,
        settings=settings,
        describe=describe,
        workflow=workflow,
        ray=ray,
        out=out,
        say=say,
        **run_options,
    )
    show(selection.json(), [*(selection.columns or ()), *_closing(selection)], json)


def _closing(selection: Any) -> list[str]:
    """What the columns cost, or that no guarantee covers them."""
    if selection.sentence.startswith("NOT PRIVATE"):
        return [selection.sentence]
    return [f"epsilon {selection.epsilon:.4g} at delta {selection.delta:g}"]
