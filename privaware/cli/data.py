"""`privaware data`: the built-in benchmark data sets."""

from __future__ import annotations

from typing import Annotated

import typer

from privaware.cli import _options as o
from privaware.cli._options import complete_names
from privaware.cli._terminal import show

app = typer.Typer(
    help="List, download and locate the built-in benchmark data sets.", no_args_is_help=True, rich_markup_mode=None
)
_BUILTIN = "A built-in data set."
NAME = Annotated[str, typer.Argument(help=_BUILTIN, show_default=False, autocompletion=complete_names("datasets"))]


@app.command("list", epilog="Example: privaware data list")
def data_list(seed: o.NO_SEED = None, json: o.JSON = False) -> None:
    """List the built-in data sets, and whether their files are on this machine."""
    from privaware.datasets import listing

    listed = listing()
    lines = []
    for row in listed:
        state = "here" if row["ready"] else "to fetch"
        lines.append(f"{row['name']:<15} {row['rows']:>7} rows  {state:<9} {row['what']}")
    show({"datasets": listed}, lines, json)


@app.command("fetch", epilog="Example: privaware data fetch mnist")
def data_fetch(name: NAME, seed: o.NO_SEED = None, json: o.JSON = False) -> None:
    """Download a data set from its public source and verify its checksum."""
    from privaware.datasets import fetch

    path = fetch(name)
    shown = f"{name} comes with scikit-learn" if path is None else str(path)
    show({"name": name, "path": None if path is None else str(path)}, [shown], json)


@app.command("path", epilog="Example: privaware data path mnist")
def data_path(name: NAME, seed: o.NO_SEED = None, json: o.JSON = False) -> None:
    """Print the folder that contains the files of a data set."""
    from privaware.datasets import path as find

    path = str(find(name))
    show({"name": name, "path": path}, [path], json)
