"""`privaware ledger`: what has been spent on a data set."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import show
from privaware.errors import WrongInput

app = typer.Typer()
_RESTORE = "For a file put back from a copy: write the charges that it lacks and that your data folder knows again."


@app.command(epilog="Example: privaware ledger people.csv.ledger --set-limit 4")
def ledger(
    file: Annotated[Path, typer.Argument(help="A ledger file.")],
    set_limit: Annotated[float | None, typer.Option(help="A new total epsilon, recorded in the chain.")] = None,
    restore: Annotated[bool, typer.Option("--restore", help=_RESTORE)] = False,
    plot: Annotated[Path | None, typer.Option(help="A chart of the spending: .svg, .png, .pdf or .html.")] = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """What has been spent on a data set, by whom and for what."""
    from privaware.ledger import Ledger, printed_lines

    beside = Path(f"{file}.ledger")
    if beside.is_file():
        raise WrongInput(f"expected a ledger, got the data that it is for; type `privaware ledger {beside}`")
    lines = []
    if restore:
        lines = [f"written again: {len(Ledger.restore(file))} entries"]
    opened = Ledger.open(file)
    if set_limit is not None:
        opened.set_limit(set_limit)
    facts = opened.json()
    if plot is not None:
        from privaware.workflow._spending import plot_spending

        lines += [f"chart: {plot_spending(opened, plot)}"]
    show(_finite(facts), [*printed_lines(facts), *lines], json)


def _finite(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts for JSON, which has no infinity: an epsilon that is not proven is null."""
    events = [event | {"epsilon": _or_none(event["epsilon"])} for event in facts["events"]]
    return facts | {"epsilon_spent": _or_none(facts["epsilon_spent"]), "events": events}


def _or_none(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None
