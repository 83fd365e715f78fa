"""`privaware bench`: a grid of learners on public data, its tables and its plots."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import say, show

app = typer.Typer(
    help="Compare learners on public data, including your own learners.", no_args_is_help=True, rich_markup_mode=None
)
GRID = Annotated[
    Path,
    typer.Argument(
        help="A TOML file with the learners, architectures, data sets, epsilons and seeds to combine.",
        show_default=False,
    ),
]
STORE = Annotated[Path, o.option("The file for the results. A run with the same file resumes.")]
WORKERS = Annotated[int, o.option("The number of processes that train models.")]
RAY = Annotated[str | None, o.option("The address of a Ray cluster that trains models, or auto.")]
TIME_LIMIT = Annotated[
    float | None, o.option("The time in seconds after which no new batch of trainings or attacks starts.")
]
POPULATION = Annotated[
    int,
    o.option(
        "The largest number of cells (seeds and epsilons) that a process takes at a time. It trains them in turn."
    ),
]
SKIP = Annotated[
    bool, o.option("Run the grid without the combinations that are impossible. Default: such a grid is refused.")
]
ONE_SEED = Annotated[int | None, o.option("Run this seed instead of the seeds of the grid.")]
FORMAT = Annotated[str, o.option("text, markdown, latex or csv.", "--format")]
COLUMNS = Annotated[
    str | None,
    o.option(
        "Columns, separated by commas: seeds, score, spread, utility_loss, auc, tailored_auc, leakage, seconds, or "
        "auc:ATTACK and so on for one attack. Default: all that have values, except spread. With only one column, "
        "`bench table` has a column for each epsilon, except as csv."
    ),
]
OUT = Annotated[Path | None, o.option("A file to write. Default: the table is printed.")]
PAGE = Annotated[Path, o.option("The HTML file to write.")]
DEFAULT_STORE = Path("bench.jsonl")


@app.command(epilog="Example: privaware bench run grid.toml --store cells.jsonl --workers 2")
def run(
    grid: GRID,
    store: STORE = DEFAULT_STORE,
    workers: WORKERS = 1,
    ray: RAY = None,
    device: o.DEVICE = "cpu",
    time_limit: TIME_LIMIT = None,
    population: POPULATION = 32,
    skip_impossible: SKIP = False,
    seed: ONE_SEED = None,
    json: o.JSON = False,
) -> int:
    """Train, test and attack the cells that have no result or failed before. The exit code is 1 if some fail."""
    from privaware._validate import expect_count
    from privaware.bench._cells import TrainingPlace
    from privaware.bench._grid import read_grid
    from privaware.bench._run import ITEM, run_cells
    from privaware.bench._store import Store
    from privaware.workflow.run.options import expect_device

    expect_count("bench run", workers=workers, population=population)
    expect_device(device)
    cells, skipped = _possible(read_grid(grid, None if seed is None else [seed]), skip_impossible)
    deadline = float("inf") if time_limit is None else time.time() + time_limit
    place = TrainingPlace(device=device, deadline=deadline, progress=True)
    wanted = [(ITEM, cell) for cell in cells]
    state = run_cells(wanted, Store(store), place, workers=workers, ray=ray, most=population, say=say)
    facts = {**state.json(), "skipped": skipped, "store": str(store)}
    show(facts, _lines(facts), json)
    return 1 if facts["failed"] or facts["attacks_failed"] else 0


def _possible(cells: list[Any], skip: bool) -> tuple[list[Any], list[dict[str, str]]]:
    """Return the settings of the cells that can be run, and each skipped `combination` with the `reason`.

    `cells` are the settings of all cells of a grid. A combination is a learner, network and data set. Raise
    `WrongInput` if a combination is impossible and `skip` is false, or if all combinations are impossible.
    """
    from privaware.bench._possible import combination, combination_name, impossible, refusal
    from privaware.errors import WrongInput

    refused = impossible(cells)
    skipped = [{"combination": combination_name(place), "reason": reason} for place, reason in refused.items()]
    if not skipped:
        return cells, []
    places = {combination(cell) for cell in cells}
    if len(refused) == len(places) or not skip:
        if len(refused) > 1:
            for one in skipped:
                say(f"impossible: {one['combination']}: {one['reason']}")
        raise WrongInput(refusal(refused, len(places)))
    return [cell for cell in cells if combination(cell) not in refused], skipped


def _lines(facts: dict[str, Any]) -> list[str]:
    """Return the lines that `bench run` prints at the end: the counts, and one line for each skip and each failure.

    `facts` has the entries of `BenchState.json`, and `skipped`: a list of dicts with `combination` and `reason`.
    """
    counts = f"{facts['done']} of {facts['cells']} cells done, {facts['failed']} failed, {facts['not_begun']} not begun"
    if facts["attacks_failed"] or facts["not_attacked"]:
        counts += f"; attacks failed on {facts['attacks_failed']} cells, {facts['not_attacked']} not attacked yet"
    return [
        counts,
        *(f"skipped: {one['combination']}: {one['reason']}" for one in facts["skipped"]),
        *(f"failed: {one['cell']}: {one['reason']}" for one in facts["failures"]),
        *(f"attack failed: {one['cell']}: {one['attack']}: {one['reason']}" for one in facts["attack_failures"]),
    ]


@app.command(epilog="Example: privaware bench table --store cells.jsonl --columns score,leakage --format latex")
def table(
    store: STORE = DEFAULT_STORE,
    columns: COLUMNS = None,
    format_: FORMAT = "markdown",
    out: OUT = None,
    seed: o.NO_SEED = None,
    json: o.JSON = False,
) -> None:
    """Print score, utility loss, AUC and leakage: means over seeds with 95% intervals."""
    from privaware.bench._summary import summary
    from privaware.bench._table import bench_table, chosen_columns

    cells, facts = _stored(store)
    rows = summary(cells)
    text = bench_table(rows, format_, chosen_columns(columns, rows))
    if out is not None:
        out.write_text(text + "\n", encoding="utf-8")
    facts |= {"rows": [row.json() for row in rows], "out": None if out is None else str(out)}
    show(facts, [text if out is None else f"table: {out}"], json)


@app.command(epilog="Example: privaware bench report --store cells.jsonl --out bench.html")
def report(
    store: STORE = DEFAULT_STORE,
    columns: COLUMNS = None,
    out: PAGE = Path("bench.html"),
    seed: o.NO_SEED = None,
    json: o.JSON = False,
) -> None:
    """Show utility, leakage and time on one HTML page: plots against epsilon, and a table."""
    from privaware._files import atomic_write
    from privaware.bench._report import bench_page
    from privaware.errors import WrongInput

    if out.suffix.lower() not in (".html", ".htm"):
        raise WrongInput(f"expected a name for the report ending in .html, got {out.name!r}")
    cells, facts = _stored(store)
    atomic_write(out, bench_page(cells, columns).encode())
    show({**facts, "out": str(out)}, [f"report: {out}"], json)


def _stored(path: Path) -> tuple[list[Any], dict[str, Any]]:
    """Return the cells of a store whose settings have `learner` and `epsilon` (None counts), and their numbers by name.

    `cells` is the number of all cells, `done` of trained cells, `failed` of failed trainings, and `attacks_failed` the
    cells with a failed attack. Raise `WrongInput` if there is no such cell.
    """
    from privaware.bench._run import cells_in, failed_attacks, failed_cells
    from privaware.bench._store import Store
    from privaware.errors import WrongInput

    cells = [cell for cell in Store(path).read().values() if "learner" in cell.settings and "epsilon" in cell.settings]
    if not cells:
        raise WrongInput(f"expected stored cells in {str(path)!r:.120}, got none; run `privaware bench run GRID.toml`")
    failed = len(failed_cells(cells))
    counts = {"cells": len(cells), "done": len(cells) - failed, "failed": failed}
    return cells, {**counts, "attacks_failed": cells_in(failed_attacks(cells))}
