"""`privaware fit`: train the most accurate model that a budget allows."""

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
    "Public rows, as a file or a built-in data set. Some learners need them, and --search on public rows has no "
    "privacy cost."
)
PUBLIC = Annotated[str | None, o.option(_PUBLIC)]
LEARNER = Annotated[
    str, o.option("One of `privaware list learners`. auto chooses one from public facts.", completes="learners")
]
TIME_LIMIT = Annotated[float | None, o.option("The approximate limit of the training time, in seconds.")]

_SCORE = (
    "Release a score on held-out rows, with noise, for a tenth of the budget. The total epsilon stays --epsilon. "
    "--score-epsilon chooses another part."
)
SCORE = Annotated[bool, o.option(_SCORE, "--score")]
SCORE_EPSILON = Annotated[float | None, o.option("The epsilon of the released score, instead of a tenth of --epsilon.")]
_ALSO = (
    "A table to release within the epsilon of the score, with intervals: confusion, threshold (two classes) or "
    "calibration; repeatable. It implies --score."
)
SCORE_ALSO = Annotated[list[str] | None, o.option(_ALSO)]
_METRIC = "The metric to optimise and show: accuracy or auc for classification, r2 or mae for regression."
METRIC = Annotated[str | None, o.option(_METRIC)]

PLAN = Annotated[
    Path | None,
    o.option("A TOML or JSON file with the plan to follow. With --dry-run, a new file to write the plan to."),
]
POLICY = Annotated[
    Path | None, o.option("A TOML file with the rules by which auto chooses. Default: the policy of the package.")
]
USE = Annotated[
    Path | None,
    o.option("The result of `privaware select`: its folder or its selection.json. Only these columns are used."),
]
SELECT = Annotated[
    str | None, o.option("Select columns with part of the budget, with one of `privaware list selectors`.")
]
_SEARCH = f"{o.STRATEGY_TEXT} It tunes learners, hyper-parameters or architectures within the budget."
SEARCH = Annotated[str | None, o.option(_SEARCH, completes="strategies")]
SPACE = Annotated[str | None, o.option(f"{o.SPACE_TEXT} Default: a space for the learner.")]
_FEATURES = (
    "A feature transformation, as NAME or NAME,SETTING=VALUE; repeatable, applied in the order given, such as "
    "--features scatter --features pca,components=32. normalise, pca and weigh use part of the budget."
)
FEATURES = Annotated[list[str] | None, o.option(_FEATURES)]
_WORKFLOW = (
    "aware (default): select columns and settings under the guarantee. standard: select them without noise; this is "
    "allowed on built-in data only, for comparison."
)
WORKFLOW = Annotated[str | None, o.option(_WORKFLOW)]
_RAY = "The address of a Ray cluster, or auto. It trains a network (such as dpsgd), or reads rows from Parquet files."
RAY = Annotated[str | None, o.option(_RAY)]


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
    score: SCORE = False,
    score_epsilon: SCORE_EPSILON = None,
    score_also: SCORE_ALSO = None,
    metric: METRIC = None,
    plan: PLAN = None,
    policy: POLICY = None,
    use: USE = None,
    select: SELECT = None,
    search: SEARCH = None,
    space: SPACE = None,
    trials: o.TRIALS = None,
    features: FEATURES = None,
    workflow: WORKFLOW = None,
    device: o.DEVICE = "cpu",
    ray: RAY = None,
    out: o.FOLDER = None,
    json: o.JSON = False,
    **run_options: Any,
) -> None:
    """Train a model within a privacy budget, and charge its cost to the ledger."""
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
        score=score,
        score_epsilon=score_epsilon,
        score_also=score_also or (),
        metric=metric,
        plan=plan,
        policy=policy,
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
    lines = [result.sentence, result.attacker_sentence, *result.score_lines]
    if result.refusal:
        lines = ["Dry run: nothing was charged, and no model was trained."]
    elif run_options["dry_run"]:
        lines.insert(0, "Dry run: nothing was charged, and no model was trained. The model of this plan would promise:")
    for name, value in ((result.search or {}).get("point") or {}).items():
        lines.append(f"Found by the search: {name} = {value}")
    if result.out:
        lines += [f"Model folder: {result.out}", f"Report: {Path(result.out) / 'report.html'}"]
        lines.append(
            f"To predict: privaware predict {shlex.quote(result.out)} NEW_DATA, or privaware.load({result.out!r})"
        )
    if result.ledger:
        lines.append(f"To see the spent and remaining budget: privaware ledger {shlex.quote(result.ledger)}")
    show(result.json(), lines, json)
