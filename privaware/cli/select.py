"""`privaware select`: select columns under a budget."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from privaware._rounded import rounded_up
from privaware.cli import _options as o
from privaware.cli._terminal import say, show

app = typer.Typer()
METHOD = Annotated[str, o.option("One of `privaware list selectors`.", completes="selectors")]
COLUMNS = Annotated[int | None, o.option("The largest number of columns to keep.")]
POPULATION = Annotated[int | None, o.option("For genetic algorithms: the number of column sets in a generation.")]
GENERATIONS = Annotated[int | None, o.option("For genetic algorithms: the number of generations.")]
_SET = "A setting of the selection method, as NAME=VALUE; repeatable. `privaware list selectors` lists the methods."
SET = Annotated[list[str] | None, o.option(_SET, "--set")]
WORKFLOW = Annotated[str, o.option("aware, or standard: select without noise, on built-in data only, for comparison.")]
LEVEL = Annotated[str, o.option("column, or category: select single categories, which must be declared.")]
RAY = Annotated[str | None, o.option("The address of a Ray cluster that reads the rows from Parquet files, or auto.")]
SELECTION = Annotated[Path | None, o.option("A new folder for the selected columns, in selection.json.")]


@app.command(epilog="Example: privaware select people.csv --target income --method cfs_greedy --epsilon 1")
@o.with_run_options
def select(
    data: o.DATA,
    method: METHOD = "cfs_greedy",
    epsilon: o.EPSILON = 1.0,
    columns: COLUMNS = None,
    population: POPULATION = None,
    generations: GENERATIONS = None,
    set_: SET = None,
    describe: o.DESCRIBE = None,
    workflow: WORKFLOW = "aware",
    level: LEVEL = "column",
    ray: RAY = None,
    out: SELECTION = None,
    json: o.JSON = False,
    **run_options: Any,
) -> None:
    """Select columns under differential privacy, and charge the cost to the ledger."""
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
        level=level,
        ray=ray,
        out=out,
        say=say,
        **run_options,
    )
    show(selection.json(), [*(selection.columns or ()), *_closing(selection)], json)


def _closing(selection: Any) -> list[str]:
    """Return the last lines about a selection: its cost, its guarantee and, if it was saved, the command that uses it.

    For a selection without noise there is only the sentence that it is not private. For a dry run there is only the
    sentence that nothing was charged.
    """
    if selection.sentence.startswith("NOT PRIVATE"):
        return [selection.sentence]
    if selection.columns is None:
        return ["Dry run: nothing was charged, and nothing was selected. The plan above states the cost."]
    lines = [f"Cost: epsilon {rounded_up(selection.epsilon)} at delta {rounded_up(selection.delta)}"]
    lines.append(selection.sentence)
    if selection.out is not None:
        lines.append(f"To train on these columns: privaware fit ... --use {shlex.quote(selection.out)}")
    return lines
