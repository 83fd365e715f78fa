"""The metric that a training optimises, and the settings that follow from it, from public facts only.

* mae: the learners in `ABSOLUTE` clip residuals close to 0. The squared error then acts like the absolute error, so
  predictions follow the median. The best constant is the median. `python -m research.comparisons.metric_choice`
  measures the gain.
* auc: only the order of the rows counts. A constant prediction scores 0.5, and a model of pure noise scores 0.5 on
  average, so a model is never replaced by a constant.
* accuracy and r2: learners optimise these without further settings.

>>> expect_metric("mae", "regression", 0)
'mae'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privaware._validate import expect
from privaware.errors import WrongInput
from privaware.schema import Schema
from privaware.workflow.auto import Choice

METRICS = {"classification": ("accuracy", "auc"), "regression": ("r2", "mae")}
"""Metrics of each task; the default comes first."""
ABSOLUTE: dict[str, Mapping[str, Any]] = {
    "linear": {"norm": 0.1},
    "boosted": {"residual_clip": 0.5, "bias_clip": 1.0},
    "fourier": {"residual_clip": 0.5, "bias_clip": 1.0},
    "additive": {"residual_clip": 0.5, "bias_clip": 1.0},
}
"""Settings with which a learner approximately minimises the absolute error."""
EVIDENCE = {
    "linear": "in benchmarks on six skewed tables the error was 2 to 29% smaller in 11 of 11 runs",
    "boosted": "in benchmarks on six skewed tables the error was 1 to 37% smaller in 9 of 11 runs",
    "fourier": "not measured",
    "additive": "not measured",
}
"""What `python -m research.comparisons.metric_choice` measured for each learner in `ABSOLUTE`."""
SEARCHED = {"accuracy": "accuracy", "auc": "accuracy", "r2": "absolute error", "mae": "absolute error"}
"""The score by which a search compares candidates; a single row has bounded influence on each of these scores."""


def expect_metric(metric: str | None, task: str, classes: int) -> str:
    """Return `metric`, or the default metric of `task` (accuracy or r2) if `metric` is None.

    `task` is "classification" or "regression". Raise `WrongInput` if `task` does not have this metric, or for "auc" if
    the number of `classes` is not 2.
    """
    chosen = metric or METRICS[task][0]
    expect(chosen in METRICS[task], "", f"--metric as {' or '.join(METRICS[task])} for {task}", chosen)
    if chosen == "auc" and classes != 2:
        raise WrongInput(f"expected two classes for --metric=auc, got {classes}; take --metric=accuracy")
    return chosen


def task_reasons(schema: Schema, *, declared: bool) -> tuple[str, ...]:
    """Return a tuple with one sentence: that the target is taken as classes although it could be a number.

    The sentence is returned if the target has 3 or more classes, all of them whole numbers, and the task is not
    `declared`. Otherwise the tuple is empty. `declared` says whether the owner named the task, in the schema or with
    `--task`.
    """
    integers = all(name.removeprefix("-").isdecimal() for name in schema.classes)
    if declared or len(schema.classes) < 3 or not integers:
        return ()
    return (
        f"Task: classification, because {schema.target} has only {len(schema.classes)} different values, all of them "
        "whole numbers. To predict a number instead, give --task=regression.",
    )


def trained_for(choice: Choice, metric: str | None, *, searched: bool) -> Choice:
    """Return `choice` with a sentence about `metric`; for "mae" also with the settings of its learner in `ABSOLUTE`.

    Settings that `choice` has already are kept. If the settings are `searched`, only the sentence is added. Return
    `choice` unchanged if `metric` is None, or if it is "accuracy" or "r2" and nothing is searched.
    """
    learner = choice.learner
    if searched and metric is not None:
        reason = f"Metric {metric}: the search compares candidates by {SEARCHED[metric]}."
    elif metric == "auc":
        reason = "Metric auc: noise alone scores 0.5, as a constant prediction does, so a model is always trained."
    elif metric != "mae":
        return choice
    elif learner == "median":
        reason = "Metric mae: the median is the constant prediction with the smallest mean absolute error."
    elif learner in ABSOLUTE:
        choice = replace(choice, settings={**ABSOLUTE[learner], **choice.settings})
        reason = (
            f"Metric mae: residuals are clipped close to 0, so predictions follow the median ({EVIDENCE[learner]})."
        )
    else:
        reason = (
            f"Metric mae: it is reported, but {learner} does not optimise it; linear, boosted, fourier and additive do."
        )
    return replace(choice, reasons=(*choice.reasons, reason))


def always_beats_a_constant(metric: str | None) -> bool:
    """Whether no model is expected to score below a constant by this `metric`, which is so for "auc" only."""
    return metric == "auc"
