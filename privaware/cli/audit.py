"""`privaware audit`: attack a release, and compare the result with its claimed epsilon."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import say, show

app = typer.Typer()
_SUBJECT = "A model folder, or data as for `privaware fit`: a file or a built-in data set."
SUBJECT = Annotated[str, typer.Argument(help=_SUBJECT, show_default=False, metavar="MODEL_OR_DATA")]
ATTACK = Annotated[str, o.option("The attack: one_run, many_run, or one of `privaware list attacks`.")]
LEARNER = Annotated[str, o.option("With data: the learner to audit, one of `privaware list learners`, or auto.")]
METHOD = Annotated[
    str | None, o.option("With data: audit a selector of `privaware list selectors`, or bounds, instead of a learner.")
]
SEARCH = Annotated[
    str | None, o.option(f"{o.STRATEGY_TEXT} With data and many_run: audit a search in --space instead of a learner.")
]
SPACE = Annotated[str | None, o.option(o.SPACE_TEXT)]
INSERT = Annotated[
    str, o.option("For one_run: where canaries are inserted. gradient: into gradients and sums; input: into the rows.")
]
CANARIES = Annotated[int, o.option("For one_run: the largest number of canaries.")]
RUNS = Annotated[
    int, o.option("For many_run: the number of runs with the canary row, and the number of runs without it.")
]
_SHADOWS = "For membership attacks: the number of shadow models. Default: the number that the attack needs."
SHADOWS = Annotated[int | None, o.option(_SHADOWS)]
TRAINING = Annotated[str, o.option("How shadow models are trained: private or without_privacy.", "--shadow-training")]
PUBLIC = Annotated[str | None, o.option("Public rows, for learners that need them, as a file or a built-in data set.")]
FOLDER = Annotated[Path | None, o.option("With data: a new folder for the result, in audit.json.")]


@app.command(epilog="Example: privaware audit wisconsin --learner linear --epsilon 4 --attack one_run")
@o.with_run_options
def audit(
    data: SUBJECT,
    attack: ATTACK = "one_run",
    learner: LEARNER = "auto",
    method: METHOD = None,
    search: SEARCH = None,
    space: SPACE = None,
    epsilon: o.EPSILON = 1.0,
    set_: o.SET = None,
    insert: INSERT = "gradient",
    canaries: CANARIES = 1000,
    runs: RUNS = 300,
    shadows: SHADOWS = None,
    shadow_training: TRAINING = "private",
    public: PUBLIC = None,
    device: o.DEVICE = "cpu",
    out: FOLDER = None,
    json: o.JSON = False,
    **run_options: Any,
) -> int:
    """Attack a model or a mechanism to test its epsilon. The exit code is 4 if the claimed epsilon is refuted."""
    from privaware.workflow.audit import audit as run

    result = run(
        data,
        attack=attack,
        learner=learner,
        method=method,
        search=search,
        space=space,
        epsilon=epsilon,
        settings=o.named_values("--set", set_),
        insert=insert,
        canaries=canaries,
        runs=runs,
        shadows=shadows,
        shadow_training=shadow_training,
        public=public,
        device=device,
        out=out,
        say=say,
        **run_options,
    )
    lines = [result.sentence, result.charged]
    if result.owner_only:
        lines = [f"Internal, not for release: {line}" for line in lines]
    if result.found:
        lines.insert(1, f"AUC {result.found['auc']:.3f}, {_rates(result.found['tpr_at_fpr'])}")
    if result.out:
        lines.append(f"Result: {result.out}")
    show(result.json(), lines, json)
    return 4 if result.refuted else 0


def _rates(rates: dict[str, Any]) -> str:
    return ", ".join(
        f"true positive rate {100 * rate['tpr']:.3g}% at false positive rate {100 * float(fpr):g}%"
        for fpr, rate in rates.items()
    )
