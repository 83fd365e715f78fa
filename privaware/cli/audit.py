"""`privaware audit`: attack a release, and compare the result with its claimed epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import say, show

app = typer.Typer()
_SUBJECT = "A model folder, or data as for `privaware fit`."
SUBJECT = Annotated[str, typer.Argument(help=_SUBJECT, show_default=False, metavar="MODEL_OR_DATA")]
ATTACK = Annotated[str, o.option("The attack: one_run, many_run, or one of `privaware list attacks`.")]
LEARNER = Annotated[str, o.option("With data: the learner to audit, one of `privaware list learners`, or auto.")]
METHOD = Annotated[
    str | None, o.option("With data: audit a selector of `privaware list selectors`, or bounds, instead of a learner.")
]
SEARCH = Annotated[
    str | None, o.option("rs. With data and many_run: audit a random search in --space instead of a learner.")
]
SPACE = Annotated[str | None, o.option(o.SPACE_TEXT)]
EPSILON = Annotated[float, o.option("With data: the epsilon of the audited mechanism.")]
INSERT = Annotated[
    str, o.option("For one_run: where canaries are inserted. gradient: into gradients and sums; input: into the rows.")
]
CANARIES = Annotated[int, o.option("For one_run: the largest number of canaries.")]
RUNS = Annotated[int, o.option("For many_run: the number of runs with the canary row; as many are run without it.")]
_SHADOWS = (
    "For membership attacks: the number of shadow models. Default: 16 for lira, 4 for rmia, 1 for black_box and "
    "white_box, 0 for other attacks."
)
SHADOWS = Annotated[int | None, o.option(_SHADOWS)]
TRAINING = Annotated[str, o.option("How shadow models are trained: private or without_privacy.", "--shadow-training")]
PUBLIC = Annotated[str | None, o.option("Public rows, for learners that need them, as a file or a built-in data set.")]
_OUT = "With data: a new folder for audit.json. The audit of a model folder is written into that folder."
FOLDER = Annotated[Path | None, o.option(_OUT)]


@app.command(epilog="Example: privaware audit wisconsin --learner linear --epsilon 4 --attack one_run")
@o.with_run_options
def audit(
    data: SUBJECT,
    attack: ATTACK = "one_run",
    learner: LEARNER = "auto",
    method: METHOD = None,
    search: SEARCH = None,
    space: SPACE = None,
    epsilon: EPSILON = 1.0,
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
    lines = [result.sentence, *(_numbers(result.found) if result.found else []), result.charged]
    if result.owner_only:
        lines = [f"Internal, not for release: {line}" for line in lines]
    if result.out:
        lines.append(f"Result: {result.out}")
    show(result.json(), lines, json)
    return 4 if result.refuted else 0


def _numbers(found: Mapping[str, Any]) -> list[str]:
    """Return one sentence on the AUC of an attack, and one on each true positive rate, all with their intervals.

    `found` has `auc`, `auc_interval`, `tpr_at_fpr` (`tpr` and `interval` by false positive rate) and `confidence`, the
    level of the intervals (0.95 if it is missing).
    """
    level = f"{100 * found.get('confidence', 0.95):g}%"
    low, high = found["auc_interval"]
    rates = [f"AUC {found['auc']:.3f} ({level} interval {low:.3f} to {high:.3f}); random guessing has 0.5."]
    for fpr, rate in found["tpr_at_fpr"].items():
        low, high = (100 * end for end in rate["interval"])
        rates.append(
            f"At a false positive rate of {100 * float(fpr):g}% the true positive rate is {100 * rate['tpr']:.3g}% "
            f"({level} interval {low:.3g}% to {high:.3g}%)."
        )
    return rates
