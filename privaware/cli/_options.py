"""Arguments and options of the verbs, each described once, and those that every charged verb has."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from privaware.errors import WrongInput
from privaware.registry import settings

Verb = TypeVar("Verb", bound=Callable[..., None])


def _option(text: str, *names: str) -> object:
    return typer.Option(*names, help=text)


_DATA = "A CSV, Parquet or .npz file, a folder of images by class, or a built-in data set (`privaware data list`)."
_ACCEPT = "Take the schema drafted from the rows: its bounds and categories become public."
_UNIT = "Whom to protect: a column that names the person of each row, or `label`."
_BUILTIN = "A built-in data set."

DATA = Annotated[str, typer.Argument(help=_DATA, show_default=False)]
NAME = Annotated[str, typer.Argument(help=_BUILTIN, show_default=False)]
MODEL = Annotated[Path, typer.Argument(help="A model folder made by `privaware fit`.", show_default=False)]
TARGET = Annotated[str | None, _option("The column to predict. Built-in data bring their own.")]
EPSILON = Annotated[float, _option("The privacy budget of this run. Smaller is more private.")]
DELTA = Annotated[float, _option("The chance that the guarantee fails; well below 1 / rows.")]
SCHEMA = Annotated[Path | None, _option("What is public, in TOML (start one with `privaware schema`).")]
ACCEPT = Annotated[bool, _option(_ACCEPT, "--accept-schema")]
PRIVATE = Annotated[bool, _option("Pay for bounds and categories from the budget.", "--private-schema")]
UNIT = Annotated[str | None, _option(_UNIT)]
CAP = Annotated[int, _option("With --unit COLUMN: how many rows of one person are used at most.")]
PUBLIC = Annotated[str | None, _option("Public rows, for learners that need them.")]
TASK = Annotated[str | None, _option("classification or regression, where the target could be either.")]
LEDGER = Annotated[Path | None, _option("The ledger of the data set. Default: DATA.ledger beside the file.")]
LIMIT = Annotated[float | None, _option("The total epsilon of a new ledger. Default: the epsilon asked for.")]
SEED = Annotated[int | None, _option("Makes the run reproducible and the result NOT for release.")]
JSON = Annotated[bool, _option("One JSON object on standard output, nothing else.", "--json")]

LEARNER = Annotated[str, _option("One of `privaware list learners`, or auto.")]
SET = Annotated[list[str] | None, _option("A setting of the learner, as NAME=VALUE; repeatable.", "--set")]
TEST = Annotated[str | None, _option("Rows to score the model on, for your eyes only.")]
TIME_LIMIT = Annotated[float | None, _option("About how many seconds training may take.")]
DEVICE = Annotated[str, _option("cpu, or cuda where there is one.")]
DRY_RUN = Annotated[bool, _option("Show the plan and its price; charge nothing and train on no row.", "--dry-run")]
FOLDER = Annotated[Path | None, _option("The model folder to make. Default: DATA-model.")]

METHOD = Annotated[str, _option("One of `privaware list selectors`.")]
COLUMNS = Annotated[int | None, _option("How many columns to keep, at most.")]
POPULATION = Annotated[int | None, _option("For genetic searches: sets in a generation.")]
GENERATIONS = Annotated[int | None, _option("For genetic searches: how many generations.")]
SELECTION = Annotated[Path | None, _option("A folder to make, with the choice in selection.json.")]
COMPARISON = Annotated[Path | None, _option("A folder to make, with crossover.json and a plot.")]
EPSILONS = Annotated[str, _option("The epsilons to try, rising, with commas.")]
REPEATS = Annotated[int, _option("How often each model is trained at each epsilon.")]
_CONTENDER = "a learner (linear, linear:columns=age+town,steps=50), a published model, or a model in JSON."
SIMPLE = Annotated[str, _option(f"The simple model: {_CONTENDER}", "--simple")]
COMPLEX = Annotated[str, _option(f"The complex model: {_CONTENDER}", "--complex")]
SPACE = Annotated[str, _option("One of `privaware list spaces`, or a TOML file of your own.")]
STRATEGY = Annotated[str, _option("One of `privaware list strategies`.")]
TOTAL = Annotated[float | None, _option("The budget of the search and its model together.", "--epsilon")]
MODEL_EPSILON = Annotated[float | None, _option("The budget of one model; the total follows from the strategy.")]
TRIALS = Annotated[int | None, _option("How many candidates (on average, where it is a secret).")]
OPTION = Annotated[list[str] | None, _option("A setting of the strategy, as NAME=VALUE; repeatable.", "--option")]
SEARCH_PUBLIC = Annotated[str | None, _option("Public rows like these: searching them is free.", "--public")]
WORKFLOW = Annotated[str, _option("aware, or standard: search without noise, to compare on built-in data.")]
WORKERS = Annotated[int, _option("Processes that train candidates.")]
RAY = Annotated[str | None, _option("The address of a Ray cluster that trains candidates, or auto.")]
HELD_OUT = Annotated[float, _option("The share of rows that scores candidates and trains none.")]

RUN_OPTIONS: dict[str, tuple[Any, Any]] = {
    "target": (TARGET, None),
    "delta": (DELTA, 1e-5),
    "schema": (SCHEMA, None),
    "accept_schema": (ACCEPT, False),
    "private_schema": (PRIVATE, False),
    "unit": (UNIT, None),
    "cap": (CAP, 1),
    "task": (TASK, None),
    "ledger": (LEDGER, None),
    "limit": (LIMIT, None),
    "dry_run": (DRY_RUN, False),
    "seed": (SEED, None),
}
"""The options of every verb that reads private rows, with their defaults."""
LAST = ("out", "seed", "json")


def with_run_options(verb: Verb) -> Verb:
    """Gives a verb the options that every charged one has, in the place of its `**run_options`."""
    signature = inspect.signature(verb, eval_str=True)
    data, *own = (each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD)
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in RUN_OPTIONS.items()
    ]
    options = [each.replace(kind=each.KEYWORD_ONLY) for each in (shared[0], *own, *shared[1:])]
    options.sort(key=lambda each: LAST.index(each.name) if each.name in LAST else -1)
    verb.__signature__ = signature.replace(parameters=[data, *options])  # type: ignore[attr-defined]
    return verb


def named_values(option: str, pairs: list[str] | None) -> dict[str, Any]:
    """The values of a repeatable option NAME=VALUE."""
    try:
        return settings(pairs or [])
    except ValueError as problem:
        raise WrongInput(f"expected {option} NAME=VALUE, got {problem}") from None


def numbers(option: str, text: str) -> list[float]:
    """The values of an option that takes numbers with commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise WrongInput(f"expected {option} as numbers with commas, got {text!r:.80}") from None
