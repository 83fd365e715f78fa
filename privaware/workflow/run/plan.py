"""A plan: what will be released and what it costs, from public facts only.

A plan is made, calibrated, shown and charged before a mechanism sees a row.

>>> from privaware.datasets import schema
>>> plan = selection_plan(schema("wisconsin"), epsilon=1.0, delta=1e-5, method="cfs_greedy")
>>> plan.learner, plan.epsilon <= 1.0
('cfs_greedy', True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from privaware import accounting
from privaware._rounded import number, rounded_down, rounded_up
from privaware._validate import expect_in, expect_positive
from privaware.data import Data
from privaware.data._persons import of_persons
from privaware.errors import WrongInput
from privaware.events import NOTHING, Event, Gaussian, Group, Sampled, Selected, describe, leaves, nested
from privaware.guarantee import sampler_sentence
from privaware.learners import Learner, find_learner
from privaware.mechanism import Mechanism, Then, unit
from privaware.preprocessing import Transformation
from privaware.preprocessing._ranges.open_columns import outline
from privaware.preprocessing._ranges.target_histogram import TargetHistogramRange
from privaware.preprocessing.ranges import Ranges
from privaware.schema import Schema
from privaware.selectors import Selector
from privaware.strategies._search import Search, expect_valid_space
from privaware.workflow.auto import Stage, share_for
from privaware.workflow.run.paid_columns import selector_for
from privaware.workflow.run.paid_features import PaidFeatures

__all__ = [
    "BOUNDS_FRACTION",
    "RELEASE_BOUNDS",
    "Plan",
    "chooses_columns",
    "expect_budget",
    "expect_finite_price",
    "expect_one_epsilon",
    "expect_unit",
    "fraction_of_columns",
    "grouped",
    "model_event",
    "priced",
    "ranges_within",
    "rows_moved",
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
RELEASE_BOUNDS = "release bounds"
"""The name of the release of bounds and categories that the schema does not declare."""
CLEAR = 8.0
"""Smallest number of rows, in standard deviations of the noise in a count, from which on ranges and types are clear."""
MAX_NAMED = 4
"""Largest number of releases that the summary of a plan names."""
BINS = {"linear": 8, "boosted": 16, "fourier": 16}
"""Number of quantile bins of each numeric column, for each learner that uses bins."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A mechanism, its noise multiplier, and `parts`: each release in words, with the event that will be charged.

    `learner` is the name of the learner, or else of the selector, the strategy or another mechanism; `settings` are its
    settings. `requested` is the requested total epsilon, if any, and `room` the epsilon that a new ledger gets beyond
    it for later runs. `flaw` says why the release is not private although its parts are; a result with a flaw is never
    certified. `overlap` says which other releases of the same rows no ledger adds to this one; a model card with an
    overlap is not certified either. `reasons` are the sentences that every reader needs, and `details` are sentences
    that its summary may leave out. `data` holds public facts about the data set for the model card: `name`, `origin` of
    the schema, and the names of all `columns`. `considered` has a row for each learner that was considered: `learner`,
    `rule`, `taken` and `reason`.
    """

    learner: str
    mechanism: Mechanism[Any]
    schema: Schema
    noise: float
    delta: float
    parts: tuple[tuple[str, Event], ...]
    requested: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    considered: tuple[Mapping[str, Any], ...] = ()
    flaw: str = ""
    overlap: str = ""
    room: float = 0.0

    @property
    def event(self) -> Event:
        """The composition of all releases."""
        return _total(self.parts)

    @cached_property
    def bounds(self) -> dict[str, Any]:
        """The epsilon of each accountant, the reported epsilon and its method, as `accounting.bounds` returns them."""
        return accounting.bounds(self.event, self.delta)

    @cached_property
    def epsilon(self) -> float:
        return accounting.epsilon(self.event, self.delta)

    @property
    def limit(self) -> float:
        """The budget of this run: the requested epsilon, or else the cost of this plan."""
        return self.epsilon if self.requested is None else self.requested

    @property
    def has_secret_trials(self) -> bool:
        """Whether the plan has private selection, whose number of trials is secret; running times would reveal it."""
        return any(isinstance(event, Selected) for event in nested(self.event))

    @property
    def sampler(self) -> str:
        """The sentence of the guarantee about how rows are sampled at each step."""
        return sampler_sentence(self.event)

    @property
    def sentences(self) -> list[str]:
        """The plan in words: all reasons and details, then one line for each release, then the total cost."""
        releases = (f"{name}: {describe(event)}" for name, event in self.parts)
        return [*self._shown_reasons, *self.details, *releases, self.total_sentence]

    def summary(self, lines: int) -> list[str]:
        """Return the plan in at most `lines` lines: all reasons, as many details as there is room for, and the cost.

        If there are too many reasons, the last of them share a line. `lines` is at least 2.
        """
        reasons, room = self._shown_reasons, lines - 1
        if len(reasons) > room:
            reasons = [*reasons[: room - 1], " ".join(reasons[room - 1 :])]
        return [*reasons, *self.details[: room - len(reasons)], self.cost_sentence]

    @property
    def _shown_reasons(self) -> list[str]:
        return [*self.reasons, *self.persons_sentences, *self.bounds_sentences]

    @property
    def persons_sentences(self) -> list[str]:
        """The sentence about the rows of a person that are used, if persons are protected."""
        schema = self.schema
        if not of_persons(schema):
            return []
        first = "first row" if schema.cap == 1 else f"first {schema.cap:,} rows"
        return [
            f"Rows used: the {first} of each {schema.unit!r}, in the order of the data; at most {schema.rows:,} in all."
            f" {schema.unit!r} is not used as a feature. How many rows are used is private, so this plan forecasts "
            "from the upper limit."
        ]

    @property
    def bounds_sentences(self) -> list[str]:
        """The sentence about types and ranges of columns that are estimated first, because they are not declared."""
        if self.schema.bounded or not self.parts or self.parts[0][0] != RELEASE_BOUNDS:
            return []
        cost = accounting.epsilon(self.parts[0][1], self.delta)
        shown = f" (epsilon {rounded_up(cost)} by itself)" if math.isfinite(cost) else ""
        undecided = any(column.kind == "undecided" for column in self.schema.used)
        bought = "types and ranges" if undecided else "ranges"
        sentence = (
            f"Part of the budget{shown} estimates {bought} of columns, because they were not declared (a schema file "
            "can declare them: --schema)."
        )
        if least := math.ceil(self.rows_of_category):
            few = f"fewer than about {rounded_up(least, 2)} rows"
            sentence += f" Categories in {few} are probably not released, and then share one category."
        deviation, schema = self.bounds_deviation, self.schema
        needed = math.ceil(CLEAR * deviation)
        if schema.rows >= needed and not (of_persons(schema) and deviation):
            return [sentence]
        ways = "(--schema, or --kinds for types), or leave columns out."
        if schema.rows >= needed:
            each = "" if schema.cap == 1 else f" with {schema.cap:,} rows each"
            persons = f"{math.ceil(needed / schema.cap):,} different values of {schema.unit!r}{each}"
            return [
                f"{sentence} The noise in the counts is about {deviation:,.0f} rows, so many of these {bought} are "
                f"guesses unless at least {needed:,} rows are used ({persons}). If there are fewer, declare "
                f"the {bought} {ways}"
            ]
        return [
            f"{sentence} The noise in the counts is about {deviation:,.0f} rows of {schema.rows:,}, so many of these "
            f"{bought} will be guesses. Declare them {ways}"
        ]

    @property
    def bounds_deviation(self) -> float:
        """The standard deviation of the noise in the counts that estimate ranges; 0 if they are not counts.

        A mechanism that has run is a placeholder, which stores this number (`publish.Protects`).
        """
        if isinstance(steps := self.mechanism, Then) and isinstance(steps.first, Ranges):
            return steps.first.deviation(self.schema, self.noise * steps.share)
        return float(getattr(steps, "bounds_deviation", 0.0))

    @property
    def rows_of_category(self) -> float:
        """About the number of rows that a category needs to be released; 0 if no categories are counted.

        A mechanism that has run is a placeholder, which stores this number (`publish.Protects`).
        """
        if isinstance(steps := self.mechanism, Then) and isinstance(steps.first, Ranges):
            return steps.first.least_rows(self.schema, self.noise * steps.share)
        return float(getattr(steps, "rows_of_category", 0.0))

    @property
    def cost_sentence(self) -> str:
        """The total cost and the names of the releases."""
        names = [name for name, _ in self.parts]
        shown = names if len(names) <= MAX_NAMED else [*names[: MAX_NAMED - 1], f"{len(names) - MAX_NAMED + 1} more"]
        of = f", for {len(names)} release{'s' if len(names) != 1 else ''} ({'; '.join(shown)})"
        return f"Cost: epsilon {rounded_up(self.epsilon)} at delta {rounded_up(self.delta)}{of if names else ''}."

    def at(self, noise: float) -> Plan:
        """Return the same plan with noise multiplier `noise`, and with the events at this noise multiplier.

        All parts are computed again from the mechanism; only the words of the last part are kept.
        """
        what, _ = self.parts[-1]
        return replace(self, noise=noise, parts=_parts(what, self.mechanism, self.schema, noise))

    @property
    def total_sentence(self) -> str:
        total = f"total epsilon {rounded_up(self.epsilon)} at delta {rounded_up(self.delta)}"
        return f"calibrated noise factor {self.noise:.4g}: {total}"


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
    return _calibrated("bounds", ranges_within(delta), schema, RELEASE_BOUNDS, epsilon, delta)


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

    If the schema does not declare all bounds, and `mechanism` has a cost, private bounds are released first. `name` is
    the `learner` of the plan, and `what` describes the release. If `noise` is given, it is the noise multiplier,
    nothing is calibrated, and `epsilon` is only the requested epsilon of the plan.
    """
    if not schema.bounded and mechanism.cost(outline(schema), 1.0) != NOTHING:
        mechanism = _bounds_before(name, schema, mechanism, epsilon, delta, noise).then(mechanism)
    return _calibrated(name, mechanism, schema, what, epsilon, delta, noise)


def _calibrated(
    name: str,
    mechanism: Mechanism[Any],
    schema: Schema,
    what: str,
    epsilon: float,
    delta: float,
    noise: float | None = None,
) -> Plan:
    """Return the plan of `mechanism`; the parameters are those of `priced`.

    Unlike `priced`, do not release bounds before `mechanism`, even if the schema does not declare all of them.
    """
    if noise is None:
        noise = accounting.calibrate(lambda noise: _total(_parts(what, mechanism, schema, noise)), epsilon, delta)
    return Plan(
        learner=name,
        mechanism=mechanism,
        schema=schema,
        noise=noise,
        delta=delta,
        requested=epsilon,
        parts=_parts(what, mechanism, schema, noise),
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


def _parts(what: str, mechanism: Mechanism[Any], schema: Schema, noise: float) -> tuple[tuple[str, Event], ...]:
    """Return the pair (words, event) of each release of `mechanism`, in order; `what` are the words of the last one.

    `mechanism` is one mechanism or several in sequence (`Then`), and `noise` is the noise multiplier of the last one.
    The events are for the unit of `schema`.
    """
    size = rows_moved(mechanism, schema)
    parts: list[tuple[str, Event]] = []
    while isinstance(mechanism, Then):
        event = mechanism.first.cost(schema, noise * mechanism.share)
        parts.append((mechanism.what, grouped(event, _steps(mechanism.first, schema, size))))
        schema, mechanism = mechanism.outline(schema), mechanism.second
    last = mechanism.parts(what, schema, noise) if isinstance(mechanism, PaidFeatures) else None
    size = _steps(mechanism, schema, size)
    parts += [(doing, grouped(event, size)) for doing, event in last or [(what, mechanism.cost(schema, noise))]]
    return tuple(parts)


def _steps(mechanism: Mechanism[Any], schema: Schema, size: int) -> int:
    """Return the group size for which the cost of `mechanism` is charged.

    It is `size`, the number of rows that are added or removed between two neighbours (`rows_moved`). It is half of
    `size` if rows are replaced and the cost of `mechanism` is already for a replaced row.
    """
    replaced = schema.relation == "replace_one" and schema.unit != "label"
    halved = replaced and isinstance(mechanism, Transformation) and mechanism.prices_replacement
    return size // 2 if halved else size


def rows_moved(mechanism: Mechanism[Any], schema: Schema) -> int:
    """Return how many rows are added or removed between two neighbours.

    It is the number of rows of a unit, doubled if a unit is replaced, and 1 if `mechanism` protects labels.
    """
    if unit(mechanism) == "label":
        return 1
    replaced = schema.relation == "replace_one" and schema.unit != "label"
    return (2 if replaced else 1) * schema.unit_rows


def grouped(event: Event, size: int) -> Event:
    """Return `event` for neighbours that differ in `size` rows; unchanged if `size` is 1 or `event` costs nothing."""
    return event if size == 1 or event == NOTHING else Group(event=event, size=size)


def _total(parts: tuple[tuple[str, Event], ...]) -> Event:
    return sum((event for _, event in parts), start=NOTHING)
