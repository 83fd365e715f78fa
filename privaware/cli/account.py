"""`privaware account`: the privacy cost of a training run, before it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from privaware._rounded import number, rounded_up
from privaware.cli import _options as o
from privaware.cli._terminal import show

app = typer.Typer(
    help="Compute the privacy cost of a training run before it starts.", no_args_is_help=True, rich_markup_mode=None
)


@app.command(epilog="Example: privaware account dpsgd --rows 60000 --batch 256 --epochs 60 --noise 1.1")
def dpsgd(
    rows: Annotated[int, typer.Option(help="The number of rows of the data set.")],
    batch: Annotated[int, typer.Option(help="The expected batch size (Poisson sampling).")],
    epochs: Annotated[float, typer.Option(help="The number of epochs.")],
    delta: o.DELTA = None,
    noise: Annotated[
        float | None,
        typer.Option("--noise", "--noise-multiplier", help="The noise multiplier. Give either --noise or --epsilon."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="The epsilon to calibrate the noise to. Give either --epsilon or --noise.")
    ] = None,
    seed: o.NO_SEED = None,
    json: o.JSON = False,
) -> None:
    """Compute the epsilon of DP-SGD, or the noise multiplier for a given epsilon."""
    from privaware import accounting
    from privaware.errors import WrongInput
    from privaware.schema import Schema
    from privaware.workflow.run.options import RunOptions
    from privaware.workflow.run.pricing import expect_budget

    if (noise is None) == (epsilon is None):
        raise WrongInput("expected one of --noise and --epsilon, got " + ("neither" if noise is None else "both"))
    schema = Schema(rows=rows)
    delta = RunOptions(delta=delta).delta_for(schema)
    expect_budget(schema, 1.0 if epsilon is None else epsilon, delta)
    run = accounting.dpsgd(rows, batch, str(epochs))
    multiplier = accounting.calibrate(run.event, epsilon or 0.0, delta) if noise is None else noise
    bounds = accounting.bounds(run.event(multiplier), delta)
    shown = {name: bounds[name] for name in ("pld", "cf", "rdp", "rdp_classic")}
    result = {"epsilon": shown, "noise": multiplier, "rate": run.rate, "steps": run.steps, "delta": delta}
    rate, noise_multiplier = number(run.rate), number(multiplier)
    lines = [f"{run.steps} steps, sampling rate {rate}, noise multiplier {noise_multiplier}, delta {number(delta)}"]
    names = {
        "pld": "PLD, reported",
        "cf": "independent check",
        "rdp": "RDP",
        "rdp_classic": "classic RDP, for old papers",
    }
    lines += [
        f"epsilon {rounded_up(shown[name])} ({label})" for name, label in names.items() if shown[name] is not None
    ]
    show(result, lines, json)
