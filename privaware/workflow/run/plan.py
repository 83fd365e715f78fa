"""A plan: what will be released and what it costs, from public facts only.

A plan is made (`pricing.py`), shown and charged before a mechanism sees a row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from privaware import accounting
from privaware._rounded import rounded_up
from privaware.data._persons import of_persons
from privaware.events import NOTHING, Event, Group, Selected, describe, nested
from privaware.guarantee import sampler_sentence
from privaware.mechanism import Mechanism, Then, unit
from privaware.preprocessing import Transformation
from privaware.preprocessing.ranges import Ranges
from privaware.schema import Schema
from privaware.workflow.run.paid_features import PaidFeatures

__all__ = ["RELEASE_BOUNDS", "Plan", "grouped", "priced_parts", "rows_moved", "total_event"]

RELEASE_BOUNDS = "release bounds"
"""The name of the release of bounds and categories that the schema does not declare."""
CLEAR = 8.0
"""Smallest number of rows, in standard deviations of the noise in a count, from which on ranges and types are clear."""
MAX_NAMED = 4
"""Largest number of releases that the summary of a plan names."""


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
        return total_event(self.parts)

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
        return replace(self, noise=noise, parts=priced_parts(what, self.mechanism, self.schema, noise))

    @property
    def total_sentence(self) -> str:
        total = f"total epsilon {rounded_up(self.epsilon)} at delta {rounded_up(self.delta)}"
        return f"calibrated noise factor {self.noise:.4g}: {total}"


def priced_parts(what: str, mechanism: Mechanism[Any], schema: Schema, noise: float) -> tuple[tuple[str, Event], ...]:
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


def total_event(parts: tuple[tuple[str, Event], ...]) -> Event:
    """Return the composition of the events of `parts`, pairs of words and an event."""
    return sum((event for _, event in parts), start=NOTHING)
