"""The mechanism of one training, or of a search among several, and the releases that come before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privaware.errors import WrongInput
from privaware.events import NOTHING, Event
from privaware.learners import find_learner
from privaware.mechanism import Mechanism, Then
from privaware.preprocessing._ranges.open_columns import outline
from privaware.preprocessing._ranges.target_moments import TargetMomentsRange
from privaware.preprocessing.bins import Bins
from privaware.schema import Schema
from privaware.strategies._search import Search, expect_valid_space
from privaware.workflow._candidates import SearchSettings
from privaware.workflow.auto import Choice, Stage, share_for
from privaware.workflow.run.learner_settings import configured, setting_names
from privaware.workflow.run.paid_features import PaidFeatures, names_paid
from privaware.workflow.run.plan import Plan
from privaware.workflow.run.pricing import BINS, fraction_of_columns, model_event

__all__ = [
    "BIN_NUMBERS",
    "TARGET_RANGE",
    "model_cost_in",
    "outlined",
    "search_mechanism",
    "training_mechanism",
    "with_bins",
    "with_releases",
    "with_target_range",
]

MODEL_FRACTION = 1 / 3
"""Approximate epsilon of one model of a search divided by the epsilon of the whole search."""
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


def training_mechanism(name: str, settings: Mapping[str, Any], extra: Mapping[str, Any], schema: Schema) -> Any:
    """Return the learner called `name` with `settings` and `extra`, after the charged features that `settings` name.

    `extra` are fields that are not settings: device, listener, public rows. Without charged features the learner itself
    is returned. Raise `WrongInput` for a wrong setting, and for a learner that cannot take charged features.
    """
    make = find_learner(name)
    described: Any = settings.get("features")
    if not names_paid(described):
        return configured(name, make, {**settings, **extra})
    _expect_features(name)

    def build(features: list[dict[str, Any]]) -> Mechanism[Any]:
        return configured(name, make, {**settings, **extra, "features": features})

    return PaidFeatures.of(described, build, schema, _price)


def search_mechanism(
    search: SearchSettings, shared: Mapping[str, Any], schema: Schema, epsilon: float, *, device: str
) -> Any:
    """Return the search with settings `shared` by all candidates, after the charged features that `shared` names.

    Charged features are released once, for all candidates. `epsilon` is the budget of the whole search. Raise
    `WrongInput` for a space with a candidate that does not fit `schema`.
    """
    reference = min(max(MODEL_FRACTION * epsilon, 1e-3), 1e3)
    described: Any = shared.get("features")

    def build(features: Any) -> Search:
        settings = {**shared, "features": features} if features else shared
        return search.search(settings, device=device, reference_epsilon=reference)

    if not names_paid(described):
        mechanism = build(described)
        expect_valid_space(mechanism, schema)
        return mechanism
    for name in search.space.learners:
        _expect_features(name)
    paid = PaidFeatures.of(described, build, schema, _price)
    searched: Any = paid.learner(schema)
    expect_valid_space(searched, schema)
    return paid


def outlined(schema: Schema, choice: Choice) -> Schema:
    """Return the public facts of the rows that the learner of `choice` sees, after the releases before it."""
    after = schema if schema.bounded else outline(schema)
    for stage in choice.before:
        after = stage.outline(after)
    return after


def model_cost_in(plan: Plan) -> Event:
    """Return the cost of training any one candidate of the search in `plan`, at the noise multiplier of `plan`."""
    mechanism, schema = plan.mechanism, plan.schema
    while isinstance(mechanism, Then):
        schema, mechanism = mechanism.outline(schema), mechanism.second
    if isinstance(mechanism, PaidFeatures):
        mechanism = mechanism.learner(schema)
    assert isinstance(mechanism, Search)
    return model_event(mechanism, schema, plan.noise)


def with_releases(choice: Choice, schema: Schema, metric: str | None = None) -> Choice:
    """Return `choice` with a stage for each release that its rule names in `choice.releases`.

    `metric` is the metric that the training optimises, or None. Bins are added as in `with_bins`. The range of the
    target is added for a regression only, as in `with_target_range`.
    """
    if "bins" in choice.releases:
        choice = with_bins(choice, schema)
    if "target_range" in choice.releases and not schema.classes:
        choice = with_target_range(choice, schema, metric)
    return choice


def with_bins(choice: Choice, schema: Schema) -> Choice:
    """Return `choice` with a release of bins of numbers before its learner.

    The learner must be in `BINS`, which has the number of bins. Return `choice` unchanged if no column needs bins, or
    if bounds are not declared: their release includes bins.
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
    """Return `choice` with a private range of the target, centred on its noisy mean, before its learner.

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


def _price(mechanism: Mechanism[Any], schema: Schema) -> Event:
    return mechanism.model_cost(schema, 1.0) if isinstance(mechanism, Search) else mechanism.cost(schema, 1.0)


def _expect_features(name: str) -> None:
    """Raise `WrongInput` unless the learner called `name` takes features and protects whole rows."""
    make = find_learner(name)
    if "features" not in setting_names(make):
        raise WrongInput(f"expected a learner that takes features (linear, or a network), got {name}")
    if make.unit == "label":
        raise WrongInput(
            f"expected a learner that protects rows, because the features are charged for rows, got {name}, which "
            "protects labels"
        )
