"""`privaware report`: write the report of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import show

app = typer.Typer()


@app.command(epilog="Example: privaware report income-model --out report.html")
def report(
    model: o.MODEL,
    out: Annotated[
        Path | None, typer.Option(help="A new HTML file, needed with --describe. Default: report.html in the folder.")
    ] = None,
    describe: o.DESCRIBE = None,
    seed: o.NO_SEED = None,
    json: o.JSON = False,
) -> None:
    """Write the HTML report of a model."""
    from privaware.report import write

    path = str(write(model, out, describe=describe))
    show({"out": path}, [path], json)
