"""`privaware card`: export the card of a model to other formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import say, show

app = typer.Typer()
_TO = "registry (OpenDP's registry of deployments), huggingface, cyclonedx, nist (SP 800-226) or sacro (SACRO-ML)."
TO = Annotated[str, typer.Option(help=_TO, show_default=False)]
OUT = Annotated[
    Path | None, typer.Option(help="The file to write; for sacro, the folder. The default depends on the format.")
]

_MEMBERS = "For sacro: the training rows, so that SACRO-ML can attack the model. For the data owner only."
MEMBERS = Annotated[str | None, typer.Option(help=_MEMBERS)]
OTHERS = Annotated[str | None, typer.Option(help="For sacro, with --members: rows that were not used for training.")]


@app.command(epilog="Example: privaware card income-model --to huggingface --out README.md --describe owner.toml")
def card(
    model: o.MODEL,
    to: TO,
    out: OUT = None,
    describe: o.DESCRIBE = None,
    members: MEMBERS = None,
    non_members: OTHERS = None,
    seed: o.NO_SEED = None,
    json: o.JSON = False,
) -> None:
    """Export the model card to another format. It contains a score only if one was released with noise."""
    from privaware.report import export

    predictions = None
    if members is not None or non_members is not None:
        from privaware.workflow.predict import predictions_for_owner

        predictions = predictions_for_owner(model, members, non_members)
    exported = export(model, to, out, describe=describe, predictions=predictions)
    if predictions is not None:
        say(
            "Internal, not for release: the folder contains predictions on private rows, which were not "
            "charged. Do not publish it."
        )
    if exported.missing:
        say(
            f"The owner has not stated: {', '.join(exported.missing)}. Add these entries to a TOML file "
            "and pass it with --describe."
        )
    show(exported.json(), [str(exported.out)], json)
