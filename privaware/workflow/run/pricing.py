"""Price a mechanism: return its plan, with the noise that the budget needs.

>>> from privaware.datasets import schema
>>> plan = selection_plan(schema("wisconsin"), epsilon=1.0, delta=1e-5, method="cfs_greedy")
>>> plan.learner, plan.epsilon <= 1.0
('cfs_greedy', True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privaware import accounting
from privaware._rounded import number, rounded_down
from privaware._validate import expect_in, expect_positive
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import NOTHING, Event, Gaussian, Sampled, describe, leaves
from privaware.learners import Learner, find_learner
from privaware.mechanism import Mechanism, Then
from privaware.preprocessing._ranges.open_columns import outline
from privaware.preprocessing._ranges.target_histogram import TargetHistogramRange
from privaware.preprocessing.ranges import Ranges
from privaware.schema import Schema
from privaware.selectors import Selector
from privaware.strategies._search import Search, expect_valid_space
from privaware.workflow.auto import Stage, share_for
from privaware.workflow.run.paid_columns import selector_for
from privaware.workflow.run.plan import RELEASE_BOUNDS, Plan, grouped, priced_parts, rows_moved, total_event

__all__ = [
    "BOUNDS_FRACTION",
    "chooses_columns",
    "expect_budget",
    "expect_finite_price",
    "expect_one_epsilon",
    "expect_unit",
    "fraction_of_columns",
    "model_event",
    "priced",
    "ranges_within",
    "schema_plan",
    "search_plan",
    "selection_plan",
]

SPAN_SHARE = 1.5
"""Noise multiplier of the bounds of a target divided by the learner's; bounds then take two fifths of the budget."""
BOUNDS_FRACTION = 0.15
"""Approximate fraction of the sum of `1 / noise**2` over all releases that bounds before Gaussian releases take."""
BOUNDS_EPSILON = 0.2
"""Fraction of epsilon for bounds before other releases; together they cost a little less than the sum."""
TEXT_COLUMNS = 2
"""Number of columns as which a whole text counts when the budget for bounds and bins is set."""
BINS = {"linear": 8, "boosted": 16, "fourier": 16}
"""Number of quantile bins of each numeric column, for each learner that uses bins."""


def selection_plan(
    schema: Schema, *, epsilon: float, delta: float, method: str, settings: Mapping[str, Any] | None = None
) -> Plan:
    """Return the plan of a selection of columns by the selector `method`, calibrated to (epsilon, delta).

    Raise `WrongInput` for a budget that `expect_budget` refuses, and what `selector_for` raises.
    """
    expect_budget(schema, epsilon, delta)
    chosen = dict(settings or {})
    mechanism = selector_for(schema, method, chosen)
    plan = priced(method, mechanism, schema, f"choose columns with {method}", epsilon=epsilon, delta=delta)
    return replace(plan, settings=chosen, reasons=(f"Selector: {method}, as requested.", *plan.reasons))


def schema_plan(schema: Schema, *, epsilon: float, delta: float) -> Plan:
    """Return the plan of releasing only the bounds and categories of a schema, calibrated to (epsilon, delta).

    Raise `WrongInput` if `schema` declares them all.
    """
    expect_budget(schema, epsilon, delta)
    if schema.bounded:
        raise WrongInput(f"expected a table with bounds or categories to release, got {schema.form} data without any")
    return priced("bounds", ranges_within(delta), schema, RELEASE_BOUNDS, epsilon=epsilon, delta=delta)


def search_plan(
    schema: Schema,
    *,
    search: Search,
    epsilon: float | None,
    model_epsilon: float | None,
    delta: float,
    strategy: str,
    settings: Mapping[str, Any],
) -> Plan:
    """Return the plan of a search, calibrated to the total `epsilon` or to `model_epsilon` for one model.

    `strategy` is the name of the strategy of `search`, and `settings` are what the plan records. With `model_epsilon`
    the total follows from the strategy. Raise `WrongInput` unless exactly one of `epsilon` and `model_epsilon` is
    given, and for a search space that does not fit `schema`.
    """
    target = expect_one_epsilon(epsilon, model_epsilon)
    expect_budget(schema, target, delta)
    for learner in search.space.learners:
        expect_unit(learner, find_learner(learner), schema)
    expect_valid_space(search, schema if schema.bounded else outline(schema))
    noise = None
    if epsilon is None:
        noise = accounting.calibrate(lambda noise: model_event(search, schema, noise), target, delta)
    plan = priced(strategy, search, schema, f"search with {strategy}", epsilon=target, delta=delta, noise=noise)
    reasons = (f"Search strategy: {strategy}, as requested, with {search.trial_words(schema)}.", *plan.reasons)
    return replace(plan, requested=epsilon, settings=dict(settings), reasons=reasons)


def expect_one_epsilon(epsilon: float | None, model_epsilon: float | None) -> float:
    """Return the one of `epsilon` and `model_epsilon` that is given; raise `WrongInput` unless exactly one is."""
    if epsilon is not None and model_epsilon is None:
        return epsilon
    if epsilon is None and model_epsilon is not None:
        return model_epsilon
    got = "neither" if epsilon is None else "both"
    raise WrongInput(f"expected one of --epsilon (the total) and --model-epsilon (one model's), got {got}")


def expect_finite_price(plan: Plan) -> None:
    """Raise `WrongInput` if no finite epsilon is proven for `plan`.

    An example is the release of the best of many runs, each of which may fail with small probability.
    """
    if not math.isfinite(plan.epsilon):
        raise WrongInput(
            f"expected a finite price, but no epsilon is proven at delta {number(plan.delta)} for "
            f"{describe(plan.event):.200}; choose a larger delta, another learner or fewer trials"
        )


def model_event(search: Search, schema: Schema, noise: float) -> Event:
    """Return the cost of training one model of `search`, any candidate, for the unit of `schema`.

    `noise` is the noise multiplier of the first candidate, `space.priced_points()[0]`.
    """
    return grouped(search.model_cost(schema, noise), rows_moved(search, schema))


def priced(
    name: str,
    mechanism: Mechanism[Any],
    schema: Schema,
    what: str,
    *,
    epsilon: float,
    delta: float,
    noise: float | None = None,
) -> Plan:
    """Return the plan of a mechanism, calibrated to (epsilon, delta).

    If the schema does not declare all bounds, private bounds are released first, unless `mechanism` has no cost once
    they are known. `name` is the `learner` of the plan, and `what` describes the release. If `noise` is given, it is
    the noise multiplier, nothing is calibrated, and `epsilon` is only the requested epsilon of the plan.
    """
    if not schema.bounded and mechanism.cost(outline(schema), 1.0) != NOTHING:
        mechanism = _bounds_before(name, schema, mechanism, epsilon, delta, noise).then(mechanism)
    if noise is None:
        noise = accounting.calibrate(
            lambda noise: total_event(priced_parts(what, mechanism, schema, noise)), epsilon, delta
        )
    return Plan(
        learner=name,
        mechanism=mechanism,
        schema=schema,
        noise=noise,
        delta=delta,
        requested=epsilon,
        parts=priced_parts(what, mechanism, schema, noise),
    )


def chooses_columns(mechanism: Mechanism[Any]) -> bool:
    """Whether `mechanism` selects columns.

    If it does, the release of bounds must not split a column into several coded columns (such as the parts of a date),
    because the cost is for the declared number of columns.
    """
    if isinstance(mechanism, Then):
        return chooses_columns(mechanism.first) or chooses_columns(mechanism.second)
    return isinstance(mechanism, Selector) and mechanism.releases == "columns"


def _bounds_before(
    name: str, schema: Schema, mechanism: Mechanism[Any], epsilon: float, delta: float, noise: float | None
) -> Stage:
    """Return the release of bounds as a stage before `mechanism`, whose learner is called `name`.

    `epsilon` and `delta` are the budget of both, or `noise` is the noise multiplier of `mechanism`. The bounds come
    from counts of all columns at once. If only the target has no bounds, and the releases of `mechanism` are not
    Gaussian, they come from a histogram.
    """
    outlined = outline(schema)
    cost = mechanism.cost(outlined, 1.0)
    parts = [leaf.event if isinstance(leaf, Sampled) else leaf for leaf, _ in leaves(cost)]
    ranges = replace(ranges_within(delta), single=chooses_columns(mechanism))
    chosen: Ranges | TargetHistogramRange = ranges
    if all(isinstance(part, Gaussian) for part in parts):
        chosen = replace(ranges, bins=BINS.get(name, 0))
        share = share_for(cost, BOUNDS_FRACTION * fraction_of_columns(schema))
    elif all(column.bounded for column in schema.declared):
        chosen, share = TargetHistogramRange(), SPAN_SHARE
    else:

        def price(noise: float) -> Event:
            return mechanism.cost(outlined, noise)

        if noise is None:
            noise = accounting.calibrate(price, (1 - BOUNDS_EPSILON) * epsilon, delta)
        budget = BOUNDS_EPSILON / (1 - BOUNDS_EPSILON) * accounting.epsilon(price(noise), delta)
        share = accounting.calibrate(lambda noise: ranges.cost(schema, noise), budget, delta) / noise
    return Stage(what=RELEASE_BOUNDS, mechanism=chosen, join=Data.coded_by, outline=chosen.outline, share=share)


def fraction_of_columns(schema: Schema) -> float:
    """Return `others / (others + TEXT_COLUMNS * whole)`, from the numbers of two kinds of columns of a table.

    `whole` columns hold texts or images; `others` are all other columns, at least 1. A release that concerns the other
    columns alone takes this fraction of its usual part of the budget.
    """
    whole = sum(column.is_whole for column in schema.declared)
    others = max(len(schema.declared) - whole, 1)
    return others / (others + TEXT_COLUMNS * whole)


def ranges_within(delta: float) -> Ranges:
    """Return the mechanism for private bounds; its own delta is its default, but at most `delta / 100`."""
    return Ranges(delta=min(Ranges().delta, delta / 100))


def expect_budget(schema: Schema, epsilon: float, delta: float) -> None:
    """Raise `WrongInput` unless epsilon is positive, delta is in (0, 1), and `delta * schema.rows < 1`."""
    expect_positive("", epsilon=epsilon)
    expect_in("", "(0, 1)", delta=delta)
    if delta * schema.rows >= 1:
        raise WrongInput(
            f"expected delta well below 1 / rows, got {number(delta)} for {schema.rows} rows: that would allow "
            f"publishing a row; take at most {rounded_down(1 / schema.rows / 10, 1)}"
        )


def expect_unit(name: str, make: type[Learner], schema: Schema) -> None:
    """Raise `WrongInput` if `make`, the learner called `name`, protects only labels and `schema` has another unit."""
    if make.unit == "label" and schema.unit != "label":
        raise WrongInput(
            f'{name} protects labels only, but the schema says unit = "{schema.unit}"; '
            'say unit = "label" (--unit=label) if that is what you want'
        )
