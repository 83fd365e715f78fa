"""`privaware ledger`: show the budget that was spent on a data set."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import show
from privaware.errors import WrongInput

app = typer.Typer()
_RESTORE = (
    "Restore charges that are missing from a ledger file copied from a backup, from the records in your data folder."
)


@app.command(epilog="Example: privaware ledger people.csv.ledger --set-limit 4")
def ledger(
    file: Annotated[Path, typer.Argument(help="A ledger file.")],
    set_limit: Annotated[
        float | None, typer.Option(help="A new limit for the total epsilon. The change is recorded in the ledger.")
    ] = None,
    restore: Annotated[bool, typer.Option("--restore", help=_RESTORE)] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Write a chart of the spent budget to this .svg, .png, .pdf or .html file.")
    ] = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """Show what was charged to a data set, by whom and for what, and the remaining budget."""
    from privaware.ledger import Ledger, printed_lines

    beside = Path(f"{file}.ledger")
    if beside.is_file():
        raise WrongInput(f"expected a ledger, got the data that it is for; type `privaware ledger {beside}`")
    lines = []
    if restore:
        lines = [f"Restored {len(Ledger.restore(file))} entries."]
    opened = Ledger.open(file)
    if set_limit is not None:
        opened.set_limit(set_limit)
    facts = opened.json()
    if plot is not None:
        from privaware.workflow._spending import plot_spending

        lines += [f"Chart: {plot_spending(opened, plot)}"]
    show(_finite(facts), [*printed_lines(facts), *lines], json)


def _finite(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts for JSON, which has no infinity: an unproven epsilon becomes null."""
    events = [event | {"epsilon": _or_none(event["epsilon"])} for event in facts["events"]]
    return facts | {"epsilon_spent": _or_none(facts["epsilon_spent"]), "events": events}


def _or_none(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None
