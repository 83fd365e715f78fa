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

_MEMBERS = "For sacro: the rows that trained the model, so that SACRO-ML can attack it. For the owner only."
MEMBERS = Annotated[str | None, typer.Option(help=_MEMBERS)]
OTHERS = Annotated[str | None, typer.Option(help="For sacro: rows that did not train it, with --members.")]


@app.command(epilog="Example: privaware card income-model --to huggingface --out README.md --describe owner.toml")
def card(
    model: o.MODEL,
    to: TO,
    out: OUT = None,
    describe: o.DESCRIBE = None,
    members: MEMBERS = None,
    non_members: OTHERS = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """Write the card of a model as others read it; no score but one that was bought."""
    from privaware.report import export

    predictions = None
    if members is not None or non_members is not None:
        from privaware.workflow.predict import predictions_for_owner

        predictions = predictions_for_owner(model, members, non_members)
    exported = export(model, to, out, describe=describe, predictions=predictions)
    if predictions is not None:
        say("internal, not for release: predictions on private rows, charged nothing; do not publish the folder")
    if exported.missing:
        say(f"not stated by the owner: {', '.join(exported.missing)}; give them in a TOML file with --describe")
    show(exported.json(), [str(exported.out)], json)
