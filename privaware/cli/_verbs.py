"""The verbs. Each turns arguments into one call and its result into words or JSON."""

from __future__ import annotations

import typer

from privaware.cli import _charged, _free, reproduce

app = typer.Typer(
    name="privaware",
    help="The best model you can release under a privacy budget, and what the whole way to it revealed.",
    epilog="Start with: privaware fit wisconsin --epsilon 1",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(_charged.verbs)
app.add_typer(_free.verbs)
app.add_typer(reproduce.verbs)
