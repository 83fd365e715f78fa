"""The learner `auto`: a choice from public facts (form, declared rows, columns, classes, epsilon, device, time limit).

>>> from privaware.datasets import schema
>>> choose(schema("wisconsin"), epsilon=1.0).learner
'linear'
"""

from __future__ import annotations

from dataclasses import replace

from privaware.learners import find_learner
from privaware.preprocessing._ranges.target_moments import TargetMomentsRange
from privaware.schema import Schema
from privaware.workflow._choice import Choice, Stage
from privaware.workflow._floor import share_for
from privaware.workflow._image_choice import image_choice
from privaware.workflow._table_choice import table_choice
from privaware.workflow._text_choice import text_choice
from privaware.workflow.run.trainings import outlined, training_mechanism

__all__ = ["TARGET_RANGE", "choose", "constant_choice", "with_target_range"]

TARGET_RANGE = "release the range of the target"
TARGET_FRACTION = 0.15
"""The fraction of the budget that a regression pays for the range of its target."""
CHECK = 0.3
"""The most that `linear` pays to be compared with the mean of the target."""


def choose(
    schema: Schema, epsilon: float, *, device: str = "cpu", time_limit: float | None = None, metric: str | None = None
) -> Choice:
    """The best learner we know for these public facts."""
    if schema.form == "table" and not schema.used:
        return constant_choice(schema, "there is no column beside the target to learn from", metric)
    if schema.form == "image":
        choice = image_choice(schema, epsilon, device=device, time_limit=time_limit)
    elif schema.form == "text":
        choice = text_choice(schema, epsilon, time_limit=time_limit)
    else:
        choice = table_choice(schema, epsilon)
    return choice if schema.classes or not choice.centred else with_target_range(choice, schema, metric)


def constant_choice(schema: Schema, why: str, metric: str | None = None) -> Choice:
    """The private constant: the most frequent class, or the mean; the median for the mean absolute error."""
    constant = "majority" if schema.classes else "median" if metric == "mae" else "mean"
    return Choice(learner=constant, reasons=(f"Learner: {constant} (a constant prediction), because {why}.",))


def with_target_range(choice: Choice, schema: Schema, metric: str | None = None) -> Choice:
    """The choice with a private range of the target before its learner, which is then centred on the mean.

    `linear` is also compared with the mean, unless it is to follow the median.
    """
    make = find_learner(choice.learner)
    if not make.uses_columns or any(isinstance(stage.mechanism, TargetMomentsRange) for stage in choice.before):
        return choice
    if choice.learner == "linear" and metric != "mae":
        choice = replace(choice, settings={"check": CHECK, **choice.settings})
    after = outlined(schema, choice)
    cost = training_mechanism(choice.learner, choice.settings, {}, after).cost(after, 1.0)
    stage = Stage(
        what=TARGET_RANGE,
        mechanism=TargetMomentsRange(),
        join=TargetMomentsRange.clip,
        share=share_for(cost, TARGET_FRACTION),
    )
    reason = f"{TARGET_FRACTION:.0%} of the budget estimates the mean and the spread of the target."
    return replace(choice, before=(*choice.before, stage), reasons=(*choice.reasons, reason))
