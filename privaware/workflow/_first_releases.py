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
"""The approximate fraction of the budget of bins and learner that releases the bins."""
TARGET_RANGE = "release the range of the target"
"""What the plan calls the release of the range of a target."""
TARGET_FRACTION = 0.15
"""The approximate fraction of the budget with which a regression releases the range of its target."""
CHECK = 0.3
"""The setting `check` of `linear`: the largest fraction of the budget that compares it with the mean of the target."""


def with_releases(choice: Choice, schema: Schema, metric: str | None = None) -> Choice:
    """Return `choice` with a stage for each release that its rule names in `choice.releases`.

    Bins are added as in `with_bins`. The range of the target is added for a regression only, as in
    `with_target_range`.
    """
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

    Unless `metric` is "mae", `linear` also gets the setting `check`, by which it is compared with the mean. Return
    `choice` unchanged if its learner reads only the target, or if the range is released already.
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
