"""The command line with all its commands, in the order of the help."""

from __future__ import annotations

from typing import Annotated

import typer

from privaware._version import __version__
from privaware.cli import (
    account,
    advise,
    audit,
    bench,
    card,
    crossover,
    data,
    fit,
    ledger,
    predict,
    report,
    reproduce,
    schema,
    search,
    select,
    ui,
    verify,
)
from privaware.cli import list as list_

WHAT = "Train the most accurate model that a privacy budget allows, and account for every access to the data."
FIRST_COMMANDS = {
    "privaware fit DATA --target COLUMN --epsilon 1": "train a model and write its report (try: privaware fit "
    "wisconsin)",
    "privaware fit DATA --target COLUMN --dry-run": "show the plan and its privacy cost; spend nothing",
    "privaware predict MODEL DATA": "predict the target of new rows",
    "privaware verify MODEL": "recompute the guarantee of a model",
    "privaware ledger DATA.ledger": "show the privacy budget that was spent and that remains",
    "privaware --help": "list all commands; privaware COMMAND -h lists its options",
}

app = typer.Typer(
    name="privaware",
    epilog="Start with: privaware fit wisconsin --epsilon 1",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"privaware {__version__}")
        raise typer.Exit


VERSION = Annotated[
    bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
]


@app.callback(invoke_without_command=True, help=WHAT)
def privaware(context: typer.Context, version: VERSION = False) -> None:
    """Print the first commands that a new user needs, if no command is given."""
    if context.invoked_subcommand is None:
        width = max(map(len, FIRST_COMMANDS))
        lines = [f"  {command:<{width}}  {what}" for command, what in FIRST_COMMANDS.items()]
        print("\n".join([f"privaware {__version__}. {WHAT}", "", *lines]))


for verb in (
    advise,
    fit,
    select,
    search,
    crossover,
    predict,
    verify,
    audit,
    report,
    card,
    schema,
    ledger,
    list_,
    reproduce,
    ui,
):
    app.add_typer(verb.app)
app.add_typer(account.app, name="account")
app.add_typer(bench.app, name="bench")
app.add_typer(data.app, name="data")
