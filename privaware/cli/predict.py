"""`privaware predict`: predict new rows with a released model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privaware.cli import _options as o
from privaware.cli._early import expect_data, expect_model
from privaware.cli._terminal import say, show

app = typer.Typer()
KEEP_FORMULAS = Annotated[
    bool,
    typer.Option(
        "--keep-formulas", help="Write cells to CSV unchanged, even if a spreadsheet would run them as formulas."
    ),
]
KEEP = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="COLUMN", help="Copy a column to the output, such as an identifier. Repeatable."),
]
ALLOW_UNREADABLE = Annotated[
    bool,
    typer.Option(
        "--allow-unreadable",
        help="Predict even if most values of a column cannot be read, or all values of a strongly used column or of a "
        "column of texts are missing.",
    ),
]


@app.command(epilog="Example: privaware predict income-model new.csv --keep id --out predictions.csv")
def predict(
    model: o.MODEL,
    data: o.DATA,
    header: o.HEADER = None,
    sep: o.SEP = None,
    decimal: o.DECIMAL = None,
    encoding: o.ENCODING = None,
    out: Annotated[Path, typer.Option(help="The new .csv or .parquet file for the predictions.")] = Path(
        "predictions.csv"
    ),
    device: o.DEVICE = "cpu",
    keep: KEEP = None,
    keep_formulas: KEEP_FORMULAS = False,
    allow_unreadable: ALLOW_UNREADABLE = False,
    show_values: o.SHOW_VALUES = False,
    seed: o.NO_SEED = None,
    json: o.JSON = False,
) -> None:
    """Predict the target of new rows. This has no privacy cost, because a released model is public."""
    expect_model(model)
    expect_data(data)
    from privaware.workflow.predict import mostly_outside_sentences, outside_sentences
    from privaware.workflow.predict import predict as run

    reading: dict[str, Any] = {"header": header, "sep": sep, "decimal": decimal, "encoding": encoding}
    columns: dict[str, Any] = {"keep": keep or (), "keep_formulas": keep_formulas, "allow_unreadable": allow_unreadable}
    result = run(model, data, out=out, device=device, **columns, **reading)
    for sentence in mostly_outside_sentences(result):
        say(sentence)
    show(result, [f"{result['rows']} predictions: {result['out']}", *outside_sentences(result)], json)
