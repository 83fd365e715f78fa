"""`privaware fit`: the best model that can be released within a budget."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from privaware.cli import _options as o
from privaware.cli._early import expect_named
from privaware.cli._terminal import say, show

app = typer.Typer()
_PUBLIC = (
    "Public rows, as a file or the name of a built-in data set: for learners that need them, and for --search, which "
    "has no privacy cost on them."
)
PUBLIC = Annotated[str | None, o.option(_PUBLIC)]
LEARNER = Annotated[str, o.option("One of `privaware list learners`, or auto.", completes="learners")]
TIME_LIMIT = Annotated[float | None, o.option("About how many seconds training may take.")]

_SCORE = "Buy a score that may be released: rows put aside train nothing, and score the model for this epsilon."
SCORE_EPSILON = Annotated[float | None, o.option(_SCORE)]
_METRIC = "What the training is for and what is shown: accuracy or auc for classes, r2 or mae for numbers."
METRIC = Annotated[str | None, o.option(_METRIC)]

PLAN = Annotated[Path | None, o.option("A plan to follow (TOML or JSON); with --dry-run a new file is written.")]
USE = Annotated[Path | None, o.option("Columns that `privaware select` chose: its folder, or its selection.json.")]
SELECT = Annotated[str | None, o.option("Choose columns within the budget, by one of `privaware list selectors`.")]
_SEARCH = (
    "Search learners, settings or architectures within the budget, by one of `privaware list strategies`: "
    "--search rs --trials 10."
)
SEARCH = Annotated[str | None, o.option(_SEARCH, completes="strategies")]
_SPACE = "What --search may choose from: one of `privaware list spaces`, or a TOML file. Default: one for the learner."
SPACE = Annotated[str | None, o.option(_SPACE)]
TRIALS = Annotated[int | None, o.option("How many candidates --search tries (on average, where it is a secret).")]
_FEATURES = (
    "Features of a row, in turn, each as NAME or NAME,SETTING=VALUE; repeatable. normalise, pca, weigh are paid for: "
    "--features scatter --features pca,components=32."
)
FEATURES = Annotated[list[str] | None, o.option(_FEATURES)]
_WORKFLOW = (
    "aware: choose with the noise in mind; standard: choose columns and settings as if there were none, to compare "
    "on built-in data."
)
WORKFLOW = Annotated[str | None, o.option(_WORKFLOW)]
RAY = Annotated[str | None, o.option("The address of a Ray cluster that reads the rows (Parquet), or auto.")]


@app.command(epilog="Example: privaware fit people.csv --target income --epsilon 1 --out income-model")
@o.with_run_options
def fit(
    data: o.DATA,
    epsilon: o.EPSILON = 1.0,
    public: PUBLIC = None,
    learner: LEARNER = "auto",
    set_: o.SET = None,
    test: o.TEST = None,
    describe: o.DESCRIBE = None,
    time_limit: TIME_LIMIT = None,
    score_epsilon: SCORE_EPSILON = None,
    metric: METRIC = None,
    plan: PLAN = None,
    use: USE = None,
    select: SELECT = None,
    search: SEARCH = None,
    space: SPACE = None,
    trials: TRIALS = None,
    features: FEATURES = None,
    workflow: WORKFLOW = None,
    device: o.DEVICE = "cpu",
    ray: RAY = None,
    out: o.FOLDER = None,
    json: o.JSON = False,
    **run_options: Any,
) -> None:
    """Choose, charge and train the best releasable model."""
    expect_named("strategies", search)
    expect_named("selectors", select)
    described = [o.feature(text) for text in features or ()]
    from privaware.workflow.fit import fit as run

    result = run(
        data,
        epsilon=epsilon,
        public=public,
        learner=learner,
        settings=o.named_values("--set", set_),
        test=test,
        describe=describe,
        time_limit=time_limit,
        score_epsilon=score_epsilon,
        metric=metric,
        plan=plan,
        use=use,
        select=select,
        search=search,
        search_settings={name: value for name, value in (("space", space), ("trials", trials)) if value is not None},
        features=described or None,
        workflow=workflow,
        device=device,
        ray=ray,
        out=out or Path(f"{Path(data).name}-model"),
        say=say,
        **run_options,
    )
    lines = [result.sentence]
    if (score := result.internal_score) is not None:
        lines.append(f"internal, not for release: {score}")
    if result.score:
        lines.append(result.score_sentence)
    for name, value in ((result.search or {}).get("point") or {}).items():
        lines.append(f"found by the search: {name} {value}")
    if result.out:
        lines += [f"model folder: {result.out}", f"report: {Path(result.out) / 'report.html'}"]
        lines.append(f"use it: privaware predict {shlex.quote(result.out)} NEW_DATA, or privaware.load({result.out!r})")
    if result.ledger:
        lines.append(f"spent so far, and what is left: privaware ledger {shlex.quote(result.ledger)}")
    show(result.json(), lines, json)
