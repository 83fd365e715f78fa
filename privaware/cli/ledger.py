"""`privaware ledger`: show the budget that was spent on a data set."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from privaware._rounded import number
from privaware.cli import _options as o
from privaware.cli._terminal import show
from privaware.errors import WrongInput

app = typer.Typer()
_RESTORE = (
    "Restore charges that an older copy of the ledger file lacks, from your folder of ledgers ($PRIVAWARE_LEDGERS)."
)


@app.command(epilog="Example: privaware ledger people.csv.ledger --set-limit 4")
def ledger(
    file: Annotated[Path, typer.Argument(help="A ledger file.")],
    set_limit: Annotated[
        float | None, typer.Option(help="A new limit for the total epsilon. The change is recorded in the ledger.")
    ] = None,
    restore: Annotated[bool, typer.Option("--restore", help=_RESTORE)] = False,
    close: Annotated[
        int | None,
        typer.Option(help="Give up the unfinished run of this entry. Its epsilon stays spent; it cannot be resumed."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write a chart of the spent budget to this .svg, .png, .pdf or .html file.")
    ] = None,
    seed: o.NO_SEED = None,
    json: o.JSON = False,
) -> None:
    """Show what was charged to a data set, by whom and for what, the running total, and the remaining budget."""
    from privaware.ledger import Ledger, explained_lines, ledger_lines
    from privaware.workflow.run.other_ledgers import SameRows

    beside = Path(f"{file}.ledger")
    if beside.is_file():
        raise WrongInput(f"expected a ledger file, got a data file; type `privaware ledger {beside}`")
    lines = []
    if restore:
        lines = [f"Restored {len(Ledger.restore(file))} entries."]
    opened = Ledger.open(file)
    if set_limit is not None:
        former = opened.limit
        opened.set_limit(set_limit)
        lines += [f"The limit is {number(former)} already, so nothing is recorded."] if opened.limit == former else []
    if close is not None:
        opened.close(close)
        lines += [f"Entry {close} is closed without a result. Its epsilon stays spent, and its run cannot be resumed."]
    same_rows = SameRows.of_ledger(opened)
    facts = opened.json(totals=True) | same_rows.json()
    if plot is not None:
        from privaware.workflow._spending import plot_spending

        lines += [f"Chart: {plot_spending(opened, plot)}"]
    others = [f"{sentence[0].upper()}{sentence[1:]}." for sentence in same_rows.sentences(during_run=False)]
    show(_finite(facts), [*ledger_lines(facts), *others, *explained_lines(facts), *lines], json)


def _finite(values: Any) -> Any:
    """Return `values`, which may be nested in dicts and lists, with None for every float that is infinite or NaN.

    JSON has no infinity, which is the epsilon of a release without a proven guarantee.
    """
    if isinstance(values, dict):
        return {name: _finite(value) for name, value in values.items()}
    if isinstance(values, list):
        return [_finite(value) for value in values]
    return None if isinstance(values, float) and not math.isfinite(values) else values
