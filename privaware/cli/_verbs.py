"""The command line with all its verbs, in the order in which help lists them."""

from __future__ import annotations

import typer

from privaware.cli import (
    account,
    audit,
    bench,
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
    verify,
)
from privaware.cli import list as list_

app = typer.Typer(
    name="privaware",
    help="The best model you can release under a privacy budget, and what the whole way to it revealed.",
    epilog="Start with: privaware fit wisconsin --epsilon 1",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for verb in (fit, select, search, crossover, predict, verify, audit, report, schema, ledger, list_, reproduce):
    app.add_typer(verb.app)
app.add_typer(account.app, name="account")
app.add_typer(bench.app, name="bench")
app.add_typer(data.app, name="data")
