"""The mechanism of one training, or of a search among several, on plain features or on charged features."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from privaware.errors import WrongInput
from privaware.events import Event
from privaware.learners import find_learner
from privaware.mechanism import Mechanism, Then
from privaware.preprocessing._ranges.noisy_maximum import NoisyMaximumRanges
from privaware.schema import Schema
from privaware.strategies._search import Search, expect_valid_space
from privaware.workflow._candidates import SearchSettings
from privaware.workflow.auto import Choice
from privaware.workflow.run.learner_settings import configured, setting_names
from privaware.workflow.run.paid_features import PaidFeatures, names_paid
from privaware.workflow.run.plan import Plan, model_event

__all__ = ["model_cost_in", "outlined", "search_mechanism", "training_mechanism"]

MODEL_FRACTION = 1 / 3
"""Approximate epsilon of one model of a search divided by the epsilon of the whole search."""


def training_mechanism(name: str, settings: Mapping[str, Any], extra: Mapping[str, Any], schema: Schema) -> Any:
    """Return the learner called `name` with `settings` and `extra`, after the charged features that `settings` name.

    `extra` are fields that are not settings: device, listener, public rows. Without charged features the learner itself
    is returned. Raise `WrongInput` for a wrong setting, and for a learner that cannot take charged features.
    """
    make = find_learner(name)
    described: Any = settings.get("features")
    if not names_paid(described):
        return configured(name, make, {**settings, **extra})
    _expect_features(name, schema)
    return PaidFeatures.of(described, partial(_learner, name, {**settings, **extra}), schema, _price)


def search_mechanism(
    search: SearchSettings, shared: Mapping[str, Any], schema: Schema, epsilon: float, *, device: str
) -> Any:
    """Return the search with settings `shared` by all candidates, after the charged features that `shared` names.

    Charged features are released once, for all candidates. `epsilon` is the budget of the whole search. Raise
    `WrongInput` for a space with a candidate that does not fit `schema`.
    """
    reference = min(max(MODEL_FRACTION * epsilon, 1e-3), 1e3)
    described: Any = shared.get("features")
    if not names_paid(described):
        mechanism = search.search(shared, device=device, reference_epsilon=reference)
        expect_valid_space(mechanism, schema)
        return mechanism
    for name in search.space.learners:
        _expect_features(name, schema)
    build = partial(_search, search, shared, {"device": device, "reference_epsilon": reference})
    paid = PaidFeatures.of(described, build, schema, _price)
    searched: Any = paid.learner(schema)
    expect_valid_space(searched, schema)
    return paid


def outlined(schema: Schema, choice: Choice) -> Schema:
    """Return the public facts of the rows that the learner of `choice` sees, after the releases before it."""
    after = schema if schema.bounded else NoisyMaximumRanges().outline(schema)
    for stage in choice.before:
        after = stage.outline(after)
    return after


def model_cost_in(plan: Plan) -> Event:
    """Return the cost of training one model of the search in `plan`, at the noise multiplier of `plan`."""
    mechanism, schema = plan.mechanism, plan.schema
    while isinstance(mechanism, Then):
        schema, mechanism = mechanism.outline(schema), mechanism.second
    if isinstance(mechanism, PaidFeatures):
        mechanism = mechanism.learner(schema)
    assert isinstance(mechanism, Search)
    return model_event(mechanism, schema, plan.noise)


def _price(mechanism: Mechanism[Any], schema: Schema) -> Event:
    return mechanism.model_cost(schema, 1.0) if isinstance(mechanism, Search) else mechanism.cost(schema, 1.0)


def _learner(name: str, settings: Mapping[str, Any], features: list[dict[str, Any]]) -> Mechanism[Any]:
    return configured(name, find_learner(name), {**settings, "features": features})


def _search(
    search: SearchSettings, shared: Mapping[str, Any], options: Mapping[str, Any], features: list[dict[str, Any]]
) -> Search:
    return search.search({**shared, "features": features}, **options)


def _expect_features(name: str, schema: Schema) -> None:
    make = find_learner(name)
    if "features" not in setting_names(make):
        raise WrongInput(f"expected a learner that takes features (linear, or a network), got {name}")
    if make.unit == "label":
        raise WrongInput(f"expected a learner that protects rows with features that are paid for, got {name}")
