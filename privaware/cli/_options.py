"""Arguments and options that several commands share, each described once, and shell completions for them."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer

from privaware.cli._early import expect_data, expect_learner
from privaware.errors import WrongInput
from privaware.registry import names, settings


def complete_names(kind: str, *more: str) -> Callable[[str], list[str]]:
    """Return a function from the beginning of a word to all names that start with it, sorted, for shell completion.

    The names are those of the kind, such as "learners", and `more`.

    >>> complete_names("learners", "auto")("a")
    ['adassp', 'additive', 'alibi', 'amortised', 'auto']
    """

    def complete(incomplete: str) -> list[str]:
        return sorted(name for name in (*names(kind), *more) if name.startswith(incomplete))

    return complete


def complete_data(incomplete: str) -> list[str]:
    """Return the built-in data sets and the paths that start with `incomplete`, except paths that end in .ledger."""
    start = Path(incomplete)
    folder = start if incomplete.endswith("/") else start.parent
    beginning = "" if incomplete.endswith("/") else start.name
    paths = sorted(folder.glob("*")) if folder.is_dir() else []
    files = [str(path) for path in paths if path.name.startswith(beginning) and not path.name.endswith(".ledger")]
    return complete_names("datasets")(incomplete) + files


Verb = TypeVar("Verb", bound=Callable[..., int | None])


def option(text: str, *names: str, completes: str | None = None) -> object:
    """Return an option with this text in --help; `names` are its spellings, by default the name of its parameter.

    If `completes` is a kind, such as "learners", a shell completes the option with the names of this kind and "auto".
    """
    return typer.Option(*names, help=text, autocompletion=complete_names(completes, "auto") if completes else None)


_DATA = (
    "A file (CSV, JSON, Parquet, Feather, Excel, ARFF, Stata, SAS, SPSS or .npz), a folder with one subfolder of "
    "images or texts for each class, or a built-in data set (`privaware data list`)."
)
_ACCEPT = "Use ranges and categories read from the rows, without noise. The result is not certified."
_DELTA = "The delta of the guarantee. Default: 1e-5, or 0.1 / rows if there are 100,000 rows or more."
_UNIT = (
    "The unit of privacy: a column that identifies the person of each row, `label`, or `row`. Default: the unit of the "
    "schema, or `row`. A ledger has one unit."
)

DATA = Annotated[str, typer.Argument(help=_DATA, show_default=False, autocompletion=complete_data)]
_MODEL = "A model folder made by `privaware fit` or `search`."
MODEL = Annotated[Path, typer.Argument(help=_MODEL, show_default=False)]
TARGET = Annotated[str | None, option("The column to predict. Built-in data sets have a default.")]
EPSILON = Annotated[float, option("The privacy budget of this run. A smaller epsilon is more private.")]
DELTA = Annotated[float | None, option(_DELTA)]
SCHEMA = Annotated[
    Path | None, option("A TOML file with the public facts about the columns; `privaware schema` drafts one.")
]
ACCEPT = Annotated[bool, option(_ACCEPT, "--accept-schema")]
PRIVATE = Annotated[
    bool, option("Estimate ranges and categories with part of the budget. This is the default.", "--private-schema")
]
KINDS = Annotated[
    Path | None,
    option("A TOML file with the kinds of columns, which then cost nothing; `privaware schema --kinds` drafts one."),
]
UNIT = Annotated[str | None, option(_UNIT)]
CAP = Annotated[int, option("With --unit COLUMN: the largest number of rows used for each person.")]
NOT_PERSONS = Annotated[
    list[str] | None,
    option("A column that identifies nobody although its name suggests it; repeatable. It is used as a feature."),
]
_CHECK_PERSONS = (
    "Count, with 1% of the budget, the different values of columns that may identify persons or cases by their names. "
    "If values clearly repeat, the run stops before its main charge."
)
CHECK_PERSONS = Annotated[bool, option(_CHECK_PERSONS, "--check-persons")]
HEADER = Annotated[
    bool | None, option("Whether the first line of a CSV file contains the column names.", "--header/--no-header")
]
SEP = Annotated[str | None, option("The separator of a CSV file. Default: detected from its first line.")]
DECIMAL = Annotated[
    str | None, option("The decimal mark of a CSV file. Default: a point; in files with the separator ; also a comma.")
]
ENCODING = Annotated[str | None, option("The encoding of CSV and other text files, such as latin-1. Default: utf-8.")]
TASK = Annotated[str | None, option("classification or regression. Needed only if the target could be either.")]
_LEDGER = (
    "The ledger file of the data set. Default: DATA.ledger next to the data file; if it does not exist, the ledger "
    "that was charged for these rows before, or else a new DATA.ledger. Built-in data: run.ledger in --out."
)
LEDGER = Annotated[Path | None, option(_LEDGER)]
_NEW = "Create a new ledger although another ledger has similar rows. Use this only if the rows are about other people."
NEW_LEDGER = Annotated[bool, option(_NEW, "--new-ledger")]
_LIMIT = (
    "The total epsilon that all runs on a new ledger may spend. Default: the epsilon of this run; for `advise`, "
    "--pilot plus --epsilon; for `crossover`, a given --total."
)
LIMIT = Annotated[float | None, option(_LIMIT)]
SIGN = Annotated[Path | None, option("A PEM file with an Ed25519 private key that signs the result.")]
DESCRIBE = Annotated[
    Path | None, option("A TOML file with the owner's statement: owner, contact, intended_use, limitations.")
]
SEED = Annotated[int | None, option("The random seed. It makes the run reproducible and the result NOT for release.")]
NO_SEED = Annotated[int | None, option("Has no effect, because this command draws nothing at random.")]
_JSON = "Print one JSON object to standard output, and nothing else."
JSON = Annotated[bool, typer.Option("--json", help=_JSON, is_eager=True)]

_SET = "A hyper-parameter of the learner, as NAME=VALUE; repeatable, such as --set steps=50 --set schedule=cosine."
SET = Annotated[list[str] | None, option(_SET, "--set")]
TEST = Annotated[str | None, option("Test rows. The test score is printed and never released.")]
DEVICE = Annotated[str, option("cpu or cuda.")]
DRY_RUN = Annotated[
    bool, option("Show the plan and its privacy cost. Nothing is charged and nothing is trained.", "--dry-run")
]
STRATEGY_TEXT = "The strategy of a search: one of `privaware list strategies`, such as rs."
SPACE_TEXT = "The search space of a search: one of `privaware list spaces`, or a TOML file."
TRIALS = Annotated[
    int | None,
    option("The number of candidates of a search. It is the expected number if the strategy draws it at random."),
]
VERBOSE = Annotated[
    bool, option("Show every sentence of the plan, with the mechanism and the noise of each release.", "--verbose")
]
FOLDER = Annotated[Path | None, option("The new folder of the model. Default: DATA-model.")]


def _at_a_terminal(context: typer.Context, wanted: bool) -> None:
    """Let error messages quote values of rows while the command runs, if `wanted`.

    If `wanted`, raise `WrongInput` with `--json`, or if standard error is not a terminal, because others may read a
    stored message later.
    """
    if not wanted:
        return
    if not sys.stderr.isatty() or context.params.get("json"):
        raise WrongInput(
            "expected --show-values only at a terminal and without --json, because it shows values of rows"
        )
    from privaware.data import show_values

    context.with_resource(show_values())


SHOW_VALUES = Annotated[
    bool,
    typer.Option(
        "--show-values",
        help="Show the offending value in error messages. Works only at a terminal.",
        callback=_at_a_terminal,
        expose_value=False,
    ),
]

RUN_OPTIONS: dict[str, tuple[Any, Any]] = {
    "target": (TARGET, None),
    "delta": (DELTA, None),
    "schema": (SCHEMA, None),
    "accept_schema": (ACCEPT, False),
    "private_schema": (PRIVATE, False),
    "kinds": (KINDS, None),
    "unit": (UNIT, None),
    "cap": (CAP, 1),
    "not_persons": (NOT_PERSONS, None),
    "check_persons": (CHECK_PERSONS, False),
    "header": (HEADER, None),
    "sep": (SEP, None),
    "decimal": (DECIMAL, None),
    "encoding": (ENCODING, None),
    "task": (TASK, None),
    "ledger": (LEDGER, None),
    "new_ledger": (NEW_LEDGER, False),
    "limit": (LIMIT, None),
    "dry_run": (DRY_RUN, False),
    "verbose": (VERBOSE, False),
    "sign": (SIGN, None),
    "seed": (SEED, None),
}
"""The options that `with_run_options` gives to commands that may charge a ledger, with their defaults."""
LAST = ("out", "show_values", "seed", "json")


def with_run_options(verb: Verb) -> Verb:
    """Give a command the options `RUN_OPTIONS` and `--show-values` instead of its `**run_options`.

    `--sign` needs `--out`, so a command without a parameter `out` does not get it. Before the command runs, raise
    `WrongInput` unless its data and its learner exist. `--show-values` is not passed on to the command.
    """

    @functools.wraps(verb)
    def run(**arguments: Any) -> int | None:
        arguments.pop("show_values", None)  # its callback has already run
        expect_data(arguments["data"], or_model=verb.__name__ == "audit")
        expect_learner(arguments.get("learner") or "auto")
        return verb(**arguments)

    signature = inspect.signature(verb, eval_str=True)
    data, *parameters = (
        parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD
    )
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in {**RUN_OPTIONS, "show_values": (SHOW_VALUES, False)}.items()
        if name != "sign" or "out" in signature.parameters
    ]
    options = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in (shared[0], *parameters, *shared[1:])]
    options.sort(key=lambda parameter: LAST.index(parameter.name) if parameter.name in LAST else -1)
    run.__signature__ = signature.replace(parameters=[data, *options])  # type: ignore[attr-defined]
    return cast("Verb", run)


def named_values(option: str, pairs: list[str] | None) -> dict[str, Any]:
    """Return the values of the `pairs` NAME=VALUE of a repeatable option, by name; a value is JSON or else text.

    The dict is empty if `pairs` is None. Raise `WrongInput`, which names `option`, for a pair without "=".
    """
    try:
        return settings(pairs or [])
    except ValueError as problem:
        raise WrongInput(f"expected {option} NAME=VALUE, got {problem}") from None


def feature(text: str) -> dict[str, Any]:
    """Return a feature of --features, NAME or NAME,SETTING=VALUE, as a dict; `WrongInput` for a setting without "=".

    >>> feature("pca,components=8,norm=2.0")
    {'name': 'pca', 'components': 8, 'norm': 2.0}
    """
    name, *pairs = text.split(",")
    return {"name": name.strip(), **named_values("--features NAME,", [pair.strip() for pair in pairs])}


def numbers(option: str, text: str) -> list[float]:
    """Return the values of an option that takes numbers separated by commas; raise `WrongInput` for other text."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise WrongInput(f"expected {option} as numbers separated by commas, got {text!r:.80}") from None
