"""The verbs that cost nothing: they read what is released, what is public, or rows for their owner's eyes only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privaware.cli import _options as o
from privaware.cli._words import show

verbs = typer.Typer()


@verbs.command(epilog="Example: privaware predict income-model new.csv --out predictions.csv")
def predict(
    model: o.MODEL,
    data: o.DATA,
    out: Annotated[Path, typer.Option(help="A new .csv or .parquet file.")] = Path("predictions.csv"),
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """Predict new rows; costs nothing, for a released model is public."""
    from privaware.workflow.predict import predict as run

    made = run(model, data, out=out)
    show(made, [f"{made['rows']} predictions: {made['out']}"], json)


@verbs.command(epilog="Example: privaware verify income-model --ledger people.csv.ledger")
def verify(model: o.MODEL, ledger: o.LEDGER = None, seed: o.SEED = None, json: o.JSON = False) -> int:
    """Recompute a model's guarantee from its events, with both accountants."""
    from privaware.workflow.verify import verify as run

    made = run(model, ledger=ledger)
    words = ["valid" if made.valid else "NOT valid", *made.problems]
    shown = [f"epsilon by {name} {value:.5g}" for name, value in made.epsilon.items() if value is not None]
    words.append(", ".join([*shown, f"delta {made.delta:g}"]))
    show(made.json(), words, json)
    return 0 if made.valid else 4


@verbs.command(epilog="Example: privaware report income-model --out report.html")
def report(
    model: o.MODEL,
    out: Annotated[Path | None, typer.Option(help="The page to write. Default: report.html in the folder.")] = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """Write the page a person reads."""
    from privaware.report import write

    place = str(write(model, out))
    show({"out": place}, [place], json)


@verbs.command(epilog="Example: privaware schema people.csv --target income --out people.toml")
def schema(
    data: o.DATA,
    target: o.TARGET = None,
    task: Annotated[str | None, typer.Option(help="classification or regression.")] = None,
    unit: o.UNIT = None,
    out: Annotated[Path | None, typer.Option(help="A new .toml file to edit and confirm.")] = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """Draft a schema from the rows, for you to edit: it says what you are about to call public."""
    from privaware.errors import WrongInput
    from privaware.workflow._source import drafted

    made = drafted(data, target=target, task=task, unit=unit)
    if out is not None:
        if out.exists():
            raise WrongInput(f"{str(out)!r} exists and is not overwritten; choose another --out")
        from privaware._files import atomic_write

        atomic_write(out, made.toml().encode())
    facts = {"columns": made.json()["columns"], "reviewed": made.reviewed, "out": None if out is None else str(out)}
    show(facts, [f"draft written to {out}; read it, then pass it with --schema"] if out else [made.toml()], json)


@verbs.command(epilog="Example: privaware ledger people.csv.ledger --set-limit 4")
def ledger(
    file: Annotated[Path, typer.Argument(help="A ledger file.")],
    set_limit: Annotated[float | None, typer.Option(help="A new total epsilon, recorded in the chain.")] = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """What has been spent on a data set, by whom and for what."""
    from privaware.ledger import Ledger

    book = Ledger.open(file)
    if set_limit is not None:
        book.set_limit(set_limit)
    made = book.json()
    spent = f"epsilon {made['epsilon_spent']:.5g} of {made['limit']:g} spent at delta {made['delta']:g}"
    words = [f"{spent}, unit {made['unit']}, {made['relation']}"]
    for entry in made["events"]:
        head = f"{entry['number']:>4}  {entry['time']}  {entry['who']}"
        words.append(f"{head}  {entry['what']}  epsilon {entry['epsilon']:.4g}")
    show(made, words, json)


account = typer.Typer(help="What a training run costs, before you run it.", no_args_is_help=True, rich_markup_mode=None)
verbs.add_typer(account, name="account")


@account.command(epilog="Example: privaware account dpsgd --rows 60000 --batch 256 --epochs 60 --noise 1.1")
def dpsgd(
    rows: Annotated[int, typer.Option(help="Rows of the data set.")],
    batch: Annotated[int, typer.Option(help="Expected rows in a step (Poisson sampling).")],
    epochs: Annotated[float, typer.Option(help="Passes over the rows.")],
    delta: o.DELTA = 1e-5,
    noise: Annotated[float | None, typer.Option(help="The noise multiplier; give this or --epsilon.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The target; give this or --noise.")] = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """Price DP-SGD, or calibrate its noise."""
    from privaware import accounting
    from privaware.errors import WrongInput

    if (noise is None) == (epsilon is None):
        raise WrongInput("expected one of --noise and --epsilon, got " + ("neither" if noise is None else "both"))
    run = accounting.dpsgd(rows, batch, str(epochs))
    level = accounting.calibrate(run.event, epsilon or 0.0, delta) if noise is None else noise
    bounds = accounting.bounds(run.event(level), delta)
    shown = {name: bounds[name] for name in ("pld", "cf", "rdp", "rdp_classic")}
    made = {"epsilon": shown, "noise": level, "rate": run.rate, "steps": run.steps, "delta": delta}
    words = [f"{run.steps} steps at rate {run.rate:.6g}, noise {level:.6g}, delta {delta:g}"]
    names = {"pld": "PLD, reported", "cf": "our own check", "rdp": "RDP", "rdp_classic": "classic RDP, for old papers"}
    words += [f"epsilon {shown[name]:.5g} ({what})" for name, what in names.items() if shown[name] is not None]
    show(made, words, json)


@verbs.command("list", epilog="Example: privaware list learners")
def list_(
    kind: Annotated[str | None, typer.Argument(help="learners, datasets, models and so on.")] = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """What there is to choose from."""
    from privaware.cli._catalogue import catalogue

    made = catalogue(kind)
    words = []
    for heading, things in made.items():
        words += [f"{heading}:", *(f"  {thing['name']:<18} {thing['what']}" for thing in things)]
    show(made, words, json)


data = typer.Typer(help="Built-in benchmark data.", no_args_is_help=True, rich_markup_mode=None)
verbs.add_typer(data, name="data")


@data.command("list", epilog="Example: privaware data list")
def data_list(seed: o.SEED = None, json: o.JSON = False) -> None:
    """Every built-in data set, and whether its files are here."""
    from privaware.datasets import listing

    made = listing()
    words = []
    for row in made:
        state = "here" if row["ready"] else "to fetch"
        words.append(f"{row['name']:<15} {row['rows']:>7} rows  {state:<9} {row['what']}")
    show({"datasets": made}, words, json)


@data.command("fetch", epilog="Example: privaware data fetch mnist")
def data_fetch(name: o.NAME, seed: o.SEED = None, json: o.JSON = False) -> None:
    """Download a data set from its public origin and check it."""
    from privaware.datasets import fetch

    place = fetch(name)
    shown = f"{name} comes with scikit-learn" if place is None else str(place)
    show({"name": name, "path": None if place is None else str(place)}, [shown], json)


@data.command("path", epilog="Example: privaware data path mnist")
def data_path(name: o.NAME, seed: o.SEED = None, json: o.JSON = False) -> None:
    """Where the files of a data set are on this machine."""
    from privaware.datasets import path

    place = str(path(name))
    show({"name": name, "path": place}, [place], json)
