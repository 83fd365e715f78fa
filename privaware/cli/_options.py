"""Arguments and options that several verbs have, each described once, and those of every charged verb."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer

from privaware.cli._completion import complete_data, complete_names
from privaware.cli._early import expect_data, expect_learner
from privaware.errors import WrongInput
from privaware.registry import settings

Verb = TypeVar("Verb", bound=Callable[..., int | None])


def option(text: str, *names: str, completes: str | None = None) -> object:
    """An option with this text in --help, which a shell completes with names of this kind."""
    return typer.Option(*names, help=text, autocompletion=complete_names(completes, "auto") if completes else None)


_DATA = (
    "A CSV, Parquet, Feather, Excel or .npz file, a folder of images or texts by class, or a built-in data set "
    "(`privaware data list`)."
)
_ACCEPT = "Take bounds and categories as drafted from the rows: the result is not certified until you review them."
_DELTA = "The chance that the guarantee fails. Default: 1e-5, from 100,000 rows on a tenth of 1 / rows."
_UNIT = "Whom to protect: a column that names the person of each row, or `label`."

DATA = Annotated[str, typer.Argument(help=_DATA, show_default=False, autocompletion=complete_data)]
MODEL = Annotated[Path, typer.Argument(help="A model folder made by `privaware fit`.", show_default=False)]
TARGET = Annotated[str | None, option("The column to predict. Built-in data bring their own.")]
EPSILON = Annotated[float, option("The privacy budget of this run. Smaller is more private.")]
DELTA = Annotated[float | None, option("The chance that the guarantee fails; well below 1 / rows. Default: 1e-5.")]
SCHEMA = Annotated[Path | None, option("What is public, in TOML (start one with `privaware schema`).")]
ACCEPT = Annotated[bool, option(_ACCEPT, "--accept-schema")]
PRIVATE = Annotated[bool, option("Pay for bounds and categories from the budget: the default.", "--private-schema")]
UNIT = Annotated[str | None, option(_UNIT)]
CAP = Annotated[int, option("With --unit COLUMN: how many rows of one person are used at most.")]
HEADER = Annotated[bool | None, option("Whether the first line of a CSV holds names.", "--header/--no-header")]
SEP = Annotated[str | None, option("What stands between the values of a CSV. Default: found from its first line.")]
DECIMAL = Annotated[str | None, option("A comma, where the numbers of a CSV have a decimal comma.")]
ENCODING = Annotated[str | None, option("How the text of a CSV is stored, such as latin-1. Default: utf-8.")]
TASK = Annotated[str | None, option("classification or regression, where the target could be either.")]
LEDGER = Annotated[Path | None, option("The ledger of the data set. Default: DATA.ledger beside the file.")]
_NEW = "Give rows that resemble those of another ledger a ledger of their own: they are other people."
NEW_LEDGER = Annotated[bool, option(_NEW, "--new-ledger")]
LIMIT = Annotated[float | None, option("The total epsilon of a new ledger. Default: the epsilon asked for.")]
SIGN = Annotated[Path | None, option("An ed25519 private key in a PEM file, to sign the result with.")]
DESCRIBE = Annotated[
    Path | None, option("A TOML file with owner, contact, intended_use, limitations: the owner's words.")
]
SEED = Annotated[int | None, option("Makes the run reproducible and the result NOT for release.")]
_JSON = "One JSON object on standard output, nothing else."
JSON = Annotated[bool, typer.Option("--json", help=_JSON, is_eager=True)]

_SET = "A setting of the learner, as NAME=VALUE; repeatable: --set steps=50 --set schedule=cosine --set average=ema."
SET = Annotated[list[str] | None, option(_SET, "--set")]
TEST = Annotated[str | None, option("Rows to score the model on, for your eyes only.")]
DEVICE = Annotated[str, option("cpu, or cuda where there is one.")]
DRY_RUN = Annotated[bool, option("Show the plan and its price; charge nothing and train on no row.", "--dry-run")]
FOLDER = Annotated[Path | None, option("The model folder to make. Default: DATA-model.")]


def _at_a_terminal(context: typer.Context, wanted: bool) -> None:
    """Lets refusals quote values while the verb runs, where only its owner sees them."""
    if not wanted:
        return
    if not sys.stderr.isatty() or context.params.get("json"):
        raise WrongInput("expected --show-values at a terminal and without --json: it shows values of rows")
    from privaware.data import show_values

    context.with_resource(show_values())


SHOW_VALUES = Annotated[
    bool,
    typer.Option(
        "--show-values",
        help="Quote the value that an error is about; at your own terminal only.",
        callback=_at_a_terminal,
        expose_value=False,
    ),
]

RUN_OPTIONS: dict[str, tuple[Any, Any]] = {
    "target": (TARGET, None),
    "delta": (Annotated[float | None, option(_DELTA)], None),
    "schema": (SCHEMA, None),
    "accept_schema": (ACCEPT, False),
    "private_schema": (PRIVATE, False),
    "unit": (UNIT, None),
    "cap": (CAP, 1),
    "header": (HEADER, None),
    "sep": (SEP, None),
    "decimal": (DECIMAL, None),
    "encoding": (ENCODING, None),
    "task": (TASK, None),
    "ledger": (LEDGER, None),
    "new_ledger": (NEW_LEDGER, False),
    "limit": (LIMIT, None),
    "dry_run": (DRY_RUN, False),
    "sign": (SIGN, None),
    "seed": (SEED, None),
}
"""The options of every verb that reads private rows, with their defaults."""
LAST = ("out", "show_values", "seed", "json")


def with_run_options(verb: Verb) -> Verb:
    """Gives a verb the options that every charged one has, in the place of its `**run_options`.

    `--show-values` is one of them on the command line only.
    """

    @functools.wraps(verb)
    def run(**arguments: Any) -> int | None:
        arguments.pop("show_values", None)  # its callback has acted
        expect_data(arguments["data"])
        expect_learner(arguments.get("learner") or "auto")
        return verb(**arguments)

    signature = inspect.signature(verb, eval_str=True)
    data, *parameters = (
        parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD
    )
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in {**RUN_OPTIONS, "show_values": (SHOW_VALUES, False)}.items()
    ]
    options = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in (shared[0], *parameters, *shared[1:])]
    options.sort(key=lambda parameter: LAST.index(parameter.name) if parameter.name in LAST else -1)
    run.__signature__ = signature.replace(parameters=[data, *options])  # type: ignore[attr-defined]
    return cast("Verb", run)


def named_values(option: str, pairs: list[str] | None) -> dict[str, Any]:
    """The values of a repeatable option NAME=VALUE."""
    try:
        return settings(pairs or [])
    except ValueError as problem:
        raise WrongInput(f"expected {option} NAME=VALUE, got {problem}") from None


def feature(text: str) -> dict[str, Any]:
    """A feature of --features, NAME or NAME,SETTING=VALUE, as a table.

    >>> feature("pca,components=8,norm=2.0")
    {'name': 'pca', 'components': 8, 'norm': 2.0}
    """
    name, *pairs = text.split(",")
    return {"name": name.strip(), **named_values("--features NAME,", [pair.strip() for pair in pairs])}


def numbers(option: str, text: str) -> list[float]:
    """The values of an option that takes numbers with commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise WrongInput(f"expected {option} as numbers with commas, got {text!r:.80}") from None
