"""`privaware ui`: a local page over a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import show

app = typer.Typer()
FOLDER = Annotated[Path, typer.Argument(help="The folder with data, ledgers and models.")]
PORT = Annotated[int, typer.Option(help="The port on this machine. Default: a free one.", show_default=False)]


@app.command(epilog="Example: privaware ui . --port 8000")
def ui(folder: FOLDER = Path(), port: PORT = 0, seed: o.SEED = None, json: o.JSON = False) -> None:
    """Show ledgers, models, plans, reports and verdicts in a browser, on this machine only; nothing is spent."""
    from privaware.ui import serve

    def started(address: str) -> None:
        show({"address": address}, [f"open {address} (whoever has this address sees the page; Ctrl-C ends it)"], json)

    serve(folder, port=port, started=started)
