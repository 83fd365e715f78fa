"""The releases that come before a learner: bins of numbers, and the range of a numeric target."""

from __future__ import annotations

from dataclasses import replace

from privaware.events import NOTHING
from privaware.learners import find_learner
from privaware.preprocessing._ranges.target_moments import TargetMomentsRange
from privaware.preprocessing.bins import Bins
from privaware.schema import Schema
from privaware.workflow.auto import Choice, Stage, share_for
from privaware.workflow.run.plan import BINS, fraction_of_columns
from privaware.workflow.run.trainings import outlined, training_mechanism

__all__ = ["BIN_NUMBERS", "TARGET_RANGE", "with_bins", "with_releases", "with_target_range"]

BIN_NUMBERS = "release bins of numbers"
"""What the plan calls the release of bins."""
BIN_FRACTION = 0.1
"""The fraction of the budget for bins."""
TARGET_RANGE = "release the range of the target"
"""What the plan calls the release of the range of a target."""
TARGET_FRACTION = 0.15
"""The fraction of the budget that a regression pays for the range of its target."""
CHECK = 0.3
"""The largest fraction of the budget with which `linear` is compared with the mean of the target."""


def with_releases(choice: Choice, schema: Schema, metric: str | None = None) -> Choice:
    """Return `choice` with the stages of the releases that its rule asks for, where the schema has a use for them."""
    if "bins" in choice.releases:
        choice = with_bins(choice, schema)
    if "target_range" in choice.releases and not schema.classes:
        choice = with_target_range(choice, schema, metric)
    return choice


def with_bins(choice: Choice, schema: Schema) -> Choice:
    """Return `choice` with a release of bins of numbers before its learner.

    Return `choice` unchanged if no column needs bins, or if bounds are not declared: their release includes bins.
    """
    if not schema.bounded or Bins().cost(schema, 1.0) == NOTHING:
        return choice
    cost = training_mechanism(choice.learner, choice.settings, {}, schema).cost(schema, 1.0)
    stage = Stage(
        what=BIN_NUMBERS,
        mechanism=Bins(count=BINS[choice.learner]),
        join=Bins.join,
        share=share_for(cost, BIN_FRACTION * fraction_of_columns(schema)),
    )
    return replace(choice, before=(*choice.before, stage))


def with_target_range(choice: Choice, schema: Schema, metric: str | None = None) -> Choice:
    """Return `choice` with a private range of the target before its learner, which is then centred on the mean.

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
    return replace(choice, before=(*choice.before, stage), details=(*choice.details, reason))
