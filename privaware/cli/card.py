"""`privaware card`: the card of a model in other formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import say, show

app = typer.Typer()
_TO = "registry (OpenDP's registry of deployments), huggingface, cyclonedx, nist (SP 800-226) or sacro (SACRO-ML)."
TO = Annotated[str, typer.Option(help=_TO, show_default=False)]
OUT = Annotated[Path | None, typer.Option(help="The file to write, or for sacro the folder. Default: by the format.")]


@app.command(epilog="Example: privaware card income-model --to huggingface --out README.md --describe owner.toml")
def card(
    model: o.MODEL, to: TO, out: OUT = None, describe: o.DESCRIBE = None, seed: o.SEED = None, json: o.JSON = False
) -> None:
    """Write the card of a model as others read it; no score but one that was bought."""
    from privaware.report import export

    exported = export(model, to, out, describe=describe)
    if exported.missing:
        say(f"not stated by the owner: {', '.join(exported.missing)}; give them in a TOML file with --describe")
    show(exported.json(), [str(exported.out)], json)
