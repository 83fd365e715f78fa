"""The verbs that read private rows and are charged for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from privaware.cli import _options as o
from privaware.cli._words import confirm, say, show

verbs = typer.Typer()


@verbs.command(
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
    from privaware.workflow.fit import fit as run

    if task not in (None, "classification", "regression"):
        raise WrongInput(f"expected --task classification or regression, got {task!r}")
    folder = out or Path(f"{Path(data).name}-model")
    made = run(
        data,
        target=target,
        epsilon=epsilon,
        delta=delta,
        schema=schema,
        accept_schema=accept_schema,
        private_schema=private_schema,
        unit=unit,
        cap=cap,
        public=public,
        learner=learner,
        settings=_settings("--set", set_),
        task=task,
        test=test,
        ledger=ledger,
        limit=limit,
        time_limit=time_limit,
        device=device,
        dry_run=dry_run,
        out=folder,
        seed=seed,
        say=say,
        confirm=confirm,
    )
    words = [made.sentence]
    score = made.internal["test_score"]
    if score is not None:
        constant = made.internal["constant_score"]
        words.append(f"internal, not for release: test score {score:.4f} (a constant gets {constant:.4f})")
    if made.out:
        words += [f"model folder: {made.out}", f"report: {Path(made.out) / 'report.html'}"]
    show(made.json(), words, json)


@verbs.command(
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
    from privaware.workflow.select import select as run

    sizes = {"columns": columns, "population": population, "generations": generations}
    settings = {**_settings("--set", set_), **{k: v for k, v in sizes.items() if v is not None}}
    made = run(
        data,
        target=target,
        method=method,
        epsilon=epsilon,
        delta=delta,
        settings=settings,
        schema=schema,
        accept_schema=accept_schema,
        private_schema=private_schema,
        unit=unit,
        cap=cap,
        task=task,
        ledger=ledger,
        limit=limit,
        dry_run=dry_run,
        out=out,
        seed=seed,
        say=say,
        confirm=confirm,
    )
    shown = list(made.columns or ())
    show(made.json(), [*shown, f"epsilon {made.epsilon:.4g} at delta {made.delta:g}"], json)


@verbs.command(epilog="Example: privaware search digits --space fcn --strategy rs --epsilon 5 --trials 20")
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
    from privaware.workflow.search import search as run

    if epsilon is None and model_epsilon is None:
        epsilon = 1.0
    made = run(
        data,
        target=target,
        space=space,
        strategy=strategy,
        epsilon=epsilon,
        model_epsilon=model_epsilon,
        delta=delta,
        trials=trials,
        settings=_settings("--set", set_),
        options=_settings("--option", option),
        held_out=held_out,
        public=public,
        workflow=workflow,
        workers=workers,
        ray=ray,
        schema=schema,
        accept_schema=accept_schema,
        private_schema=private_schema,
        unit=unit,
        cap=cap,
        task=task,
        test=test,
        ledger=ledger,
        limit=limit,
        device=device,
        dry_run=dry_run,
        out=out or Path(f"{Path(data).name}-model"),
        seed=seed,
        say=say,
        confirm=confirm,
    )
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
    show(made.json(), words, json)


@verbs.command(
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
    from privaware.workflow.crossover import crossover as run

    made = run(
        data,
        simple=simple,
        complex=complex_,
        epsilons=_numbers("--epsilons", epsilons),
        repeats=repeats,
        target=target,
        delta=delta,
        settings=_settings("--set", set_),
        schema=schema,
        accept_schema=accept_schema,
        private_schema=private_schema,
        unit=unit,
        cap=cap,
        task=task,
        ledger=ledger,
        limit=limit,
        device=device,
        dry_run=dry_run,
        out=out,
        seed=seed,
        say=say,
        confirm=confirm,
    )
    words = [] if made.crossover is None else [f"crossover epsilon: {made.crossover.sentence}"]
    for at, low in enumerate(made.curves["simple"]):
        high = made.curves["complex"][at]
        words.append(
            f"epsilon {low.x:g}: simple {low.mean:.4f} ± {low.spread:.4f}, complex {high.mean:.4f} ± {high.spread:.4f}"
        )
    words.append(f"{made.note}; all of it: epsilon {made.epsilon:.4g} at delta {made.delta:g}")
    show(made.json(), words, json)


def _numbers(name: str, text: str) -> list[float]:
    from privaware.errors import WrongInput

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise WrongInput(f"expected {name} as numbers with commas, got {text!r:.80}") from None


def _settings(option: str, pairs: list[str] | None) -> dict[str, Any]:
    from privaware.errors import WrongInput
    from privaware.registry import settings

    try:
        return settings(pairs or [])
    except ValueError as problem:
        raise WrongInput(f"expected {option} NAME=VALUE, got {problem}") from None
