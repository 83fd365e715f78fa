"""`privaware ui`: a local web page for a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import show
from privaware.errors import Interrupted

app = typer.Typer()
FOLDER = Annotated[Path, typer.Argument(help="The folder that contains data, ledgers and models.")]
PORT = Annotated[int, typer.Option(help="The port on this machine. Default: a free one.", show_default=False)]


@app.command(epilog="Example: privaware ui . --port 8000")
def ui(folder: FOLDER = Path(), port: PORT = 0, seed: o.NO_SEED = None, json: o.JSON = False) -> None:
    """Train, predict, audit, and see ledgers and reports in a browser on this machine."""
    from privaware.ui import serve

    def started(address: str) -> None:
        show(
            {"address": address},
            [f"open {address} (anyone with this address can use the page; Ctrl-C stops the server and its runs)"],
            json,
        )

    try:
        serve(folder, port=port, started=started)
    except KeyboardInterrupt:
        raise Interrupted(
            "the server and its runs were stopped; a run that was charged stays in its ledger, and the page resumes it"
        ) from None
