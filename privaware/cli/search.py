"""`privaware search`: search an architecture and settings under a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privaware._rounded import rounded_up
from privaware.cli import _options as o
from privaware.cli._terminal import say, show

app = typer.Typer()
SPACE = Annotated[str, o.option(o.SPACE_TEXT)]
STRATEGY = Annotated[str, o.option(o.STRATEGY_TEXT, "--strategy", "--search", completes="strategies")]
_TOTAL = "The total epsilon of the search and its model. Default: 1, if there is no --model-epsilon."
TOTAL = Annotated[float | None, o.option(_TOTAL, "--epsilon")]
MODEL_EPSILON = Annotated[
    float | None, o.option("Instead of --epsilon: the epsilon of one model. The total follows from the strategy.")
]
OPTION = Annotated[list[str] | None, o.option("An option of the strategy, as NAME=VALUE; repeatable.", "--option")]
_PUBLIC = "Similar public rows, as a file or a built-in data set. A search on public rows has no privacy cost."
PUBLIC = Annotated[str | None, o.option(_PUBLIC, "--public")]
WORKFLOW = Annotated[str, o.option("aware, or standard: search without noise, on built-in data only, for comparison.")]
WORKERS = Annotated[int, o.option("The number of processes that train candidates.")]
RAY = Annotated[str | None, o.option("The address of a Ray cluster that trains candidates, or auto.")]
HELD_OUT = Annotated[float, o.option("The fraction of rows that is held out of training and scores the candidates.")]


@app.command(epilog="Example: privaware search digits --space fcn --strategy rs --epsilon 5 --trials 20")
@o.with_run_options
def search(
    data: o.DATA,
    space: SPACE = "fcn",
    strategy: STRATEGY = "rs",
    epsilon: TOTAL = None,
    model_epsilon: MODEL_EPSILON = None,
    trials: o.TRIALS = None,
    option: OPTION = None,
    set_: o.SET = None,
    held_out: HELD_OUT = 0.1,
    public: PUBLIC = None,
    workflow: WORKFLOW = "aware",
    workers: WORKERS = 1,
    ray: RAY = None,
    test: o.TEST = None,
    describe: o.DESCRIBE = None,
    device: o.DEVICE = "cpu",
    out: o.FOLDER = None,
    json: o.JSON = False,
    **run_options: Any,
) -> None:
    """Search an architecture and hyper-parameters under differential privacy, and charge the cost to the ledger."""
    from privaware.workflow._score import score_words
    from privaware.workflow.search import search as run

    if epsilon is None and model_epsilon is None:
        epsilon = 1.0
    result = run(
        data,
        space=space,
        strategy=strategy,
        epsilon=epsilon,
        model_epsilon=model_epsilon,
        trials=trials,
        settings=o.named_values("--set", set_),
        options=o.named_values("--option", option),
        held_out=held_out,
        public=public,
        workflow=workflow,
        workers=workers,
        ray=ray,
        test=test,
        describe=describe,
        device=device,
        out=out or Path(f"{Path(data).name}-model"),
        say=say,
        **run_options,
    )
    lines = [result.sentence] if result.sentence else []
    lines.append(
        f"Total epsilon {rounded_up(result.epsilon_total)}; epsilon of one model {rounded_up(result.epsilon_model)}; "
        f"{'' if result.seconds is not None else 'about '}{result.trials:.4g} trials"
    )
    lines += [f"{name}: {value}" for name, value in (result.best or {}).items()]
    if result.internal.get("test_score") is not None:
        metric = "r2" if "mae" in result.internal else "accuracy"
        lines.append(f"Internal, not for release: {score_words(metric, result.internal)}.")
    if result.out:
        lines.append(f"Model folder: {result.out}")
    show(result.json(), lines, json)
