"""The verbs. Each turns arguments into one call and its result into words or JSON."""

from __future__ import annotations

import json as json_
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from privaware.cli import _options as o

app = typer.Typer(
    name="privaware",
    help="The best model you can release under a privacy budget, and what the whole way to it revealed.",
    epilog="Start with: privaware fit wisconsin --epsilon 1",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _show(result: dict[str, Any], words: list[str], json: bool) -> None:
    shown = json_.dumps(result, allow_nan=False) if json else "\n".join(words)
    code = sys.stdout.encoding or "utf-8"
    print(shown.encode(code, "backslashreplace").decode(code), flush=True)


def _confirm(schema: Any) -> bool:
    """Shows the draft and asks, where there is somebody to ask."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    _say(schema.toml())
    _say(
        "This draft was read off the rows; if you accept it, all of the above is treated as public."
    )
    return typer.confirm("Accept it?", err=True)


@app.command(
    epilog="Example: privaware fit people.csv --target income --epsilon 1 --accept-schema --out income-model"
)
def fit(
    data: o.DATA,
    target: o.TARGET = None,
    epsilon: o.EPSILON = 1.0,
    delta: o.DELTA = 1e-5,
    schema: o.SCHEMA = None,
    accept_schema: o.ACCEPT = False,
    private_schema: o.PRIVATE = False,
    unit: o.UNIT = None,
    cap: o.CAP = 1,
    public: o.PUBLIC = None,
    learner: o.LEARNER = "auto",
    set_: o.SET = None,
    task: o.TASK = None,
    test: o.TEST = None,
    ledger: o.LEDGER = None,
    limit: o.LIMIT = None,
    time_limit: o.TIME_LIMIT = None,
    device: o.DEVICE = "cpu",
    dry_run: o.DRY_RUN = False,
    out: o.FOLDER = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """Choose, charge and train the best releasable model."""
    from privaware.errors import WrongInput
    from privaware.fit import fit as run

    if task not in (None, "classification", "regression"):
        raise WrongInput(f"expected --task classification or regression, got {task!r}")
    folder = out or Path(f"{Path(data).name}-model")
    made = run(
        data, target=target, epsilon=epsilon, delta=delta, schema=schema, accept_schema=accept_schema,
        private_schema=private_schema, unit=unit, cap=cap, public=public, learner=learner, settings=_settings(set_),
        task=task, test=test, ledger=ledger, limit=limit, time_limit=time_limit, device=device, dry_run=dry_run,
        out=folder, seed=seed, say=_say, confirm=_confirm,
    )  # fmt: skip
    words = [made.sentence]
    score = made.internal["test_score"]
    if score is not None:
        constant = made.internal["constant_score"]
        words.append(
            f"internal, not for release: test score {score:.4f} (a constant gets {constant:.4f})"
        )
    if made.out:
        words += [f"model folder: {made.out}", f"report: {Path(made.out) / 'report.html'}"]
    _show(made.json(), words, json)


@app.command(
    epilog="Example: privaware select people.csv --target income --method cfs_greedy --epsilon 1 --accept-schema"
)
def select(
    data: o.DATA,
    target: o.TARGET = None,
    method: o.METHOD = "cfs_greedy",
    epsilon: o.EPSILON = 1.0,
    delta: o.DELTA = 1e-5,
    columns: o.COLUMNS = None,
    population: o.POPULATION = None,
    generations: o.GENERATIONS = None,
    set_: o.SET = None,
    schema: o.SCHEMA = None,
    accept_schema: o.ACCEPT = False,
    private_schema: o.PRIVATE = False,
    unit: o.UNIT = None,
    cap: o.CAP = 1,
    task: o.TASK = None,
    ledger: o.LEDGER = None,
    limit: o.LIMIT = None,
    dry_run: o.DRY_RUN = False,
    out: o.SELECTION = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """Choose columns worth their noise; the choice itself is charged."""
    from privaware.choose import select as run

    sizes = {"columns": columns, "population": population, "generations": generations}
    settings = {**_settings(set_), **{k: v for k, v in sizes.items() if v is not None}}
    made = run(
        data, target=target, method=method, epsilon=epsilon, delta=delta, settings=settings, schema=schema,
        accept_schema=accept_schema, private_schema=private_schema, unit=unit, cap=cap, task=task, ledger=ledger,
        limit=limit, dry_run=dry_run, out=out, seed=seed, say=_say, confirm=_confirm,
    )  # fmt: skip
    shown = list(made.columns or ())
    _show(made.json(), [*shown, f"epsilon {made.epsilon:.4g} at delta {made.delta:g}"], json)


@app.command(
    epilog="Example: privaware search digits --space fcn --strategy rs --epsilon 5 --trials 20"
)
def search(
    data: o.DATA,
    target: o.TARGET = None,
    space: o.SPACE = "fcn",
    strategy: o.STRATEGY = "rs",
    epsilon: o.TOTAL = None,
    model_epsilon: o.MODEL_EPSILON = None,
    delta: o.DELTA = 1e-5,
    trials: o.TRIALS = None,
    option: o.OPTION = None,
    set_: o.SET = None,
    held_out: o.HELD_OUT = 0.1,
    public: o.SEARCH_PUBLIC = None,
    workflow: o.WORKFLOW = "aware",
    workers: o.WORKERS = 1,
    ray: o.RAY = None,
    schema: o.SCHEMA = None,
    accept_schema: o.ACCEPT = False,
    private_schema: o.PRIVATE = False,
    unit: o.UNIT = None,
    cap: o.CAP = 1,
    task: o.TASK = None,
    test: o.TEST = None,
    ledger: o.LEDGER = None,
    limit: o.LIMIT = None,
    device: o.DEVICE = "cpu",
    dry_run: o.DRY_RUN = False,
    out: o.FOLDER = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """Find an architecture and settings that bear the noise; the search itself is charged."""
    from privaware.explore import search as run

    if epsilon is None and model_epsilon is None:
        epsilon = 1.0
    made = run(
        data, target=target, space=space, strategy=strategy, epsilon=epsilon, model_epsilon=model_epsilon,
        delta=delta, trials=trials, settings=_settings(set_), options=_settings(option), held_out=held_out,
        public=public, workflow=workflow, workers=workers, ray=ray, schema=schema, accept_schema=accept_schema,
        private_schema=private_schema, unit=unit, cap=cap, task=task, test=test, ledger=ledger, limit=limit,
        device=device, dry_run=dry_run, out=out or Path(f"{Path(data).name}-model"), seed=seed, say=_say,
        confirm=_confirm,
    )  # fmt: skip
    words = [made.sentence] if made.sentence else []
    words.append(
        f"epsilon {made.epsilon_total:.4g} in all, {made.epsilon_model:.4g} for one model, "
        f"about {made.trials:.4g} trials"
    )
    words += [f"{name}: {value}" for name, value in (made.best or {}).items()]
    if (score := made.internal.get("test_score")) is not None:
        words.append(f"internal, not for release: test score {score:.4f}")
    if made.out:
        words.append(f"model folder: {made.out}")
    _show(made.json(), words, json)


@app.command(
    epilog="Example: privaware crossover wisconsin --simple majority --complex linear --epsilons 0.03,0.1,0.3,1"
)
def crossover(
    data: o.DATA,
    simple: o.SIMPLE,
    complex_: o.COMPLEX,
    epsilons: o.EPSILONS = "0.1,0.3,1,3,10",
    repeats: o.REPEATS = 5,
    target: o.TARGET = None,
    delta: o.DELTA = 1e-5,
    set_: o.SET = None,
    schema: o.SCHEMA = None,
    accept_schema: o.ACCEPT = False,
    private_schema: o.PRIVATE = False,
    unit: o.UNIT = None,
    cap: o.CAP = 1,
    task: o.TASK = None,
    ledger: o.LEDGER = None,
    limit: o.LIMIT = None,
    device: o.DEVICE = "cpu",
    dry_run: o.DRY_RUN = False,
    out: o.COMPARISON = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """Up to which epsilon the simpler of two models is better; every training is charged."""
    from privaware.study.crossover import crossover as run

    made = run(
        data, simple=simple, complex=complex_, epsilons=_numbers("--epsilons", epsilons), repeats=repeats,
        target=target, delta=delta, settings=_settings(set_), schema=schema, accept_schema=accept_schema,
        private_schema=private_schema, unit=unit, cap=cap, task=task, ledger=ledger, limit=limit, device=device,
        dry_run=dry_run, out=out, seed=seed, say=_say, confirm=_confirm,
    )  # fmt: skip
    words = [] if made.crossover is None else [f"crossover epsilon: {made.crossover.sentence}"]
    for at, low in enumerate(made.curves["simple"]):
        high = made.curves["complex"][at]
        words.append(
            f"epsilon {low.x:g}: simple {low.mean:.4f} ± {low.spread:.4f}, complex {high.mean:.4f} ± {high.spread:.4f}"
        )
    words.append(f"{made.note}; all of it: epsilon {made.epsilon:.4g} at delta {made.delta:g}")
    _show(made.json(), words, json)


def _numbers(name: str, text: str) -> list[float]:
    from privaware.errors import WrongInput

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise WrongInput(f"expected {name} as numbers with commas, got {text!r:.80}") from None


def _settings(pairs: list[str] | None) -> dict[str, Any]:
    from privaware.errors import WrongInput

    out: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, text = pair.partition("=")
        if not equals:
            raise WrongInput(f"expected --set NAME=VALUE, got {pair!r}")
        try:
            out[name] = json_.loads(text)
        except ValueError:
            out[name] = text
    return out


@app.command(epilog="Example: privaware predict income-model new.csv --out predictions.csv")
def predict(
    model: o.MODEL,
    data: o.DATA,
    out: Annotated[Path, typer.Option(help="A new .csv or .parquet file.")] = Path(
        "predictions.csv"
    ),
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """Predict new rows; costs nothing, for a released model is public."""
    from privaware.predict import predict as run

    made = run(model, data, out=out)
    _show(made, [f"{made['rows']} predictions: {made['out']}"], json)


@app.command(epilog="Example: privaware verify income-model --ledger people.csv.ledger")
def verify(
    model: o.MODEL, ledger: o.LEDGER = None, seed: o.SEED = None, json: o.JSON = False
) -> int:
    """Recompute a model's guarantee from its events, with both accountants."""
    from privaware.verify import verify as run

    made = run(model, ledger=ledger)
    words = ["valid" if made.valid else "NOT valid", *made.problems]
    shown = [
        f"epsilon by {name} {value:.5g}"
        for name, value in made.epsilon.items()
        if value is not None
    ]
    words.append(", ".join([*shown, f"delta {made.delta:g}"]))
    _show(made.json(), words, json)
    return 0 if made.valid else 4


@app.command(epilog="Example: privaware report income-model --out report.html")
def report(
    model: o.MODEL,
    out: Annotated[
        Path | None, typer.Option(help="The page to write. Default: report.html in the folder.")
    ] = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """Write the page a person reads."""
    from privaware.report import write

    place = str(write(model, out))
    _show({"out": place}, [place], json)


@app.command(epilog="Example: privaware schema people.csv --target income --out people.toml")
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
    from privaware.source import drafted

    made = drafted(data, target=target, task=task, unit=unit)
    if out is not None:
        if out.exists():
            raise WrongInput(f"{str(out)!r} exists and is not overwritten; choose another --out")
        from privaware.model import write_file

        write_file(out, made.toml().encode())
    facts = {
        "columns": made.json()["columns"],
        "reviewed": made.reviewed,
        "out": None if out is None else str(out),
    }
    _show(
        facts,
        [f"draft written to {out}; read it, then pass it with --schema"] if out else [made.toml()],
        json,
    )


@app.command(epilog="Example: privaware ledger people.csv.ledger --set-limit 4")
def ledger(
    file: Annotated[Path, typer.Argument(help="A ledger file.")],
    set_limit: Annotated[
        float | None, typer.Option(help="A new total epsilon, recorded in the chain.")
    ] = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """What has been spent on a data set, by whom and for what."""
    from privaware.ledger import Ledger

    book = Ledger.open(file)
    if set_limit is not None:
        book.set_limit(set_limit)
    made = book.json()
    spent = (
        f"epsilon {made['epsilon_spent']:.5g} of {made['limit']:g} spent at delta {made['delta']:g}"
    )
    words = [f"{spent}, unit {made['unit']}, {made['relation']}"]
    for entry in made["events"]:
        head = f"{entry['number']:>4}  {entry['time']}  {entry['who']}"
        words.append(f"{head}  {entry['what']}  epsilon {entry['epsilon']:.4g}")
    _show(made, words, json)


account = typer.Typer(
    help="What a training run costs, before you run it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(account, name="account")


@account.command(
    epilog="Example: privaware account dpsgd --rows 60000 --batch 256 --epochs 60 --noise 1.1"
)
def dpsgd(
    rows: Annotated[int, typer.Option(help="Rows of the data set.")],
    batch: Annotated[int, typer.Option(help="Expected rows in a step (Poisson sampling).")],
    epochs: Annotated[float, typer.Option(help="Passes over the rows.")],
    delta: o.DELTA = 1e-5,
    noise: Annotated[
        float | None, typer.Option(help="The noise multiplier; give this or --epsilon.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="The target; give this or --noise.")] = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """Price DP-SGD, or calibrate its noise."""
    from privaware import accounting
    from privaware.errors import WrongInput

    if (noise is None) == (epsilon is None):
        raise WrongInput(
            "expected one of --noise and --epsilon, got " + ("neither" if noise is None else "both")
        )
    run = accounting.dpsgd(rows, batch, str(epochs))
    level = accounting.calibrate(run.event, epsilon or 0.0, delta) if noise is None else noise
    bounds = accounting.bounds(run.event(level), delta)
    shown = {name: bounds[name] for name in ("pld", "cf", "rdp", "rdp_classic")}
    made = {"epsilon": shown, "noise": level, "rate": run.rate, "steps": run.steps, "delta": delta}
    words = [f"{run.steps} steps at rate {run.rate:.6g}, noise {level:.6g}, delta {delta:g}"]
    names = {
        "pld": "PLD, reported",
        "cf": "our own check",
        "rdp": "RDP",
        "rdp_classic": "classic RDP, for old papers",
    }
    words += [
        f"epsilon {shown[name]:.5g} ({what})"
        for name, what in names.items()
        if shown[name] is not None
    ]
    _show(made, words, json)


@app.command("list", epilog="Example: privaware list learners")
def list_(
    kind: Annotated[
        str | None, typer.Argument(help="learners, datasets, models and so on.")
    ] = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """What there is to choose from."""
    from privaware.catalogue import catalogue

    made = catalogue(kind)
    words = []
    for heading, things in made.items():
        words += [f"{heading}:", *(f"  {thing['name']:<18} {thing['what']}" for thing in things)]
    _show(made, words, json)


data = typer.Typer(help="Built-in benchmark data.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data, name="data")


@data.command("list", epilog="Example: privaware data list")
def data_list(seed: o.SEED = None, json: o.JSON = False) -> None:
    """Every built-in data set, and whether its files are here."""
    from privaware.datasets import listing

    made = listing()
    words = []
    for row in made:
        state = "here" if row["ready"] else "to fetch"
        words.append(f"{row['name']:<15} {row['rows']:>7} rows  {state:<9} {row['what']}")
    _show({"datasets": made}, words, json)


@data.command("fetch", epilog="Example: privaware data fetch mnist")
def data_fetch(name: o.NAME, seed: o.SEED = None, json: o.JSON = False) -> None:
    """Download a data set from its public origin and check it."""
    from privaware.datasets import fetch

    place = fetch(name)
    shown = f"{name} comes with scikit-learn" if place is None else str(place)
    _show({"name": name, "path": None if place is None else str(place)}, [shown], json)


@data.command("path", epilog="Example: privaware data path mnist")
def data_path(name: o.NAME, seed: o.SEED = None, json: o.JSON = False) -> None:
    """Where the files of a data set are on this machine."""
    from privaware.datasets import path

    place = str(path(name))
    _show({"name": name, "path": place}, [place], json)
