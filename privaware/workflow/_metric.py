"""What a training is for: the metric asked for, and what it changes of a plan, from public facts only.

* mae: large errors count in proportion only. Residuals are clipped closer to 0, which turns squared errors into
  absolute ones, so predictions follow the median; a constant is the median. On six skewed tables of 600 to 3,000 rows
  at epsilon 0.2 and 1 the error of `linear` was 2 to 29% smaller than without in 11 of 11 cells, that of `boosted` 1 to
  37% smaller in 9 and up to 4% larger in 2 (`python -m research.comparisons.metric_choice`).
* auc: only the order of rows counts. A constant has 0.5, and so has noise on average: no model can be expected below
  the constant, and none is replaced by it.
* accuracy and r2 are what learners are trained for in any case.

>>> expect_metric("mae", "regression", 0)
'mae'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privaware._validate import expect
from privaware.errors import WrongInput
from privaware.workflow.auto import Choice

__all__ = ["METRICS", "NAMES", "always_beats_a_constant", "expect_metric", "trained_for"]

METRICS = {"classification": ("accuracy", "auc"), "regression": ("r2", "mae")}
"""What can be optimised and shown of each task, the usual one first."""
NAMES = {"accuracy": "accuracy", "auc": "AUC", "r2": "R2", "mae": "mean absolute error"}
ABSOLUTE: dict[str, Mapping[str, Any]] = {
    "linear": {"norm": 0.1},
    "boosted": {"residual_clip": 0.5, "bias_clip": 1.0},
    "fourier": {"residual_clip": 0.5, "bias_clip": 1.0},
    "additive": {"residual_clip": 0.5, "bias_clip": 1.0},
}
"""Settings with which a learner minimises about the absolute error."""
EVIDENCE = {
    "linear": "in benchmarks on six skewed tables the error was 2 to 29% smaller in 11 of 11 runs",
    "boosted": "in benchmarks on six skewed tables the error was 1 to 37% smaller in 9 of 11 runs",
    "fourier": "not measured",
    "additive": "not measured",
}
"""What `python -m research.comparisons.metric_choice` measured for them."""
SEARCHED = {"accuracy": "accuracy", "auc": "accuracy", "r2": "absolute error", "mae": "absolute error"}
"""By what a search compares candidates: one row must count as much as any other."""


def expect_metric(metric: str | None, task: str, classes: int) -> str:
    """The metric asked for, or the usual one of the task; one that the task does not have is refused."""
    chosen = metric or METRICS[task][0]
    expect(chosen in METRICS[task], "", f"--metric {' or '.join(METRICS[task])} for {task}", chosen)
    if chosen == "auc" and classes != 2:
        raise WrongInput(f"expected two classes for --metric auc, got {classes}; take --metric accuracy")
    return chosen


def trained_for(choice: Choice, metric: str | None, *, searched: bool) -> Choice:
    """The choice with the settings that serve the metric, where its own say nothing else, and a line about it."""
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
    """Whether no model can be expected below a constant."""
    return metric == "auc"
